DROP VIEW rota.jobs;
DROP FUNCTION rota.shown(json);
DROP TABLE rota.limit_use, rota.limit_look, rota.worker, rota.task, rota.queue, rota.job_edge, rota.job_key, rota.run, rota.job;
DROP DOMAIN rota.job_state, rota.job_run_at, rota.job_payload, rota.job_forgiven, rota.job_max_attempts, rota.job_crashes, rota.job_timeout,
    rota.job_pending_parents, rota.job_on_parent_failure;
DROP FUNCTION rota.make_run_partitions(integer), rota.refuse_transition(), rota.uuid7(), rota.uuid7_floor(timestamptz), rota.now();
