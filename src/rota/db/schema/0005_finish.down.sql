DROP FUNCTION rota.retry_job(uuid), rota.without_refusals(json), rota.cancel_job(uuid, text), rota.rescue_runs(uuid[], integer, uuid);
DROP FUNCTION rota.finish_run(uuid, bigint, uuid, text, double precision, double precision, json, json, interval, boolean, timestamptz);
DROP FUNCTION rota.release_children(uuid[], text);
DROP FUNCTION rota.record_run(rota.job, bigint, text, boolean, timestamptz, timestamptz, json, json);
DROP FUNCTION rota.fingerprint(text, json);
DROP TABLE rota.signal;
DROP FUNCTION rota.charged(bigint, bigint, integer, boolean), rota.is_rated(text, text), rota.allowed_attempts(rota.job);
