DROP TABLE rota.log;
DROP FUNCTION rota.make_log_partitions(integer), rota.log_words(text, json);
