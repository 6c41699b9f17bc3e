DROP FUNCTION rota.enqueue(text, jsonb, text, integer, timestamptz, interval, text, interval, boolean, integer, interval, text, uuid[], text, json);
DROP FUNCTION rota.insert_job(uuid, text, json, text, integer, timestamptz, interval, integer, interval, json, text, interval, text, json, uuid[], text, uuid, timestamptz, boolean);
DROP FUNCTION rota.link_parents(uuid, uuid[]), rota.lock_parents(uuid[], text), rota.admit_held(), rota.admit_jobs(text[]), rota.wake();
