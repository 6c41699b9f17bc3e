DROP VIEW rota.jobs;
DROP TABLE rota.worker, rota.task, rota.queue, rota.job_edge, rota.job_key, rota.run, rota.job;
DROP FUNCTION rota.make_run_partitions(integer), rota.refuse_transition(), rota.uuid7(), rota.uuid7_floor(timestamptz), rota.now();
