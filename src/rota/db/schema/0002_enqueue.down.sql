DROP FUNCTION rota.insert_job(uuid, text, json, text, integer, timestamptz, interval, integer, interval, json, text, interval, text, json, uuid[], text, uuid, timestamptz, boolean, text[]);
DROP FUNCTION rota.link_parents(uuid, uuid[]), rota.lock_parents(uuid[], text);
DROP FUNCTION rota.vacate(text[], text[], text[], timestamptz[]), rota.admit_jobs(text[]);
DROP FUNCTION rota.admit_lines(text[]), rota.line_up(integer), rota.first_of_line(text), rota.limit_key(text, json);
DROP FUNCTION rota.look_at_lines(text[], timestamptz), rota.wake();
