DROP FUNCTION rota.oldest_wait(text);
DROP FUNCTION rota.oldest_ready(text);
