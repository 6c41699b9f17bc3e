DROP FUNCTION rota.edit_job(uuid, json, json, json), rota.forget_edits(integer);
DROP TABLE rota.job_edit;
ALTER FUNCTION rota.cancel_job(uuid, text) SECURITY INVOKER RESET search_path;
ALTER FUNCTION rota.retry_job(uuid) SECURITY INVOKER RESET search_path;
GRANT EXECUTE ON FUNCTION rota.cancel_job(uuid, text), rota.retry_job(uuid) TO PUBLIC;
