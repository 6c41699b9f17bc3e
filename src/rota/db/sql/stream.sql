-- What the live stream looks at, at most once a second for all of its clients together: each block is a few rows by an index.

-- name: stream_jobs
-- The newest live jobs. Ids carry the time: the key is the index.
SELECT id::text AS id, task, queue, CASE WHEN state IN ('delayed', 'held') THEN 'queued' ELSE state END AS state, attempt
FROM rota.job ORDER BY rota.job.id DESC LIMIT %(limit)s

-- name: stream_runs
-- The last attempts of the newest jobs: the state of a job that has ended is the outcome of its final one.
SELECT job_id::text AS id, task, queue, CASE WHEN final THEN outcome ELSE 'queued' END AS state, attempt
FROM rota.run WHERE job_id >= rota.uuid7_floor(rota.now() - interval '10 minutes')
ORDER BY job_id DESC, attempt DESC LIMIT %(limit)s

-- name: stream_workers
SELECT id::text AS id, host, pid,
       CASE WHEN stopped_at IS NOT NULL THEN 'stopped' WHEN seen_at < rota.now() - interval '1 minute' THEN 'silent' ELSE 'live' END AS state
FROM rota.worker WHERE stopped_at IS NULL ORDER BY rota.worker.id DESC LIMIT %(limit)s

-- name: stream_alerts
SELECT id, kind, subject, severity, state, count
FROM rota.alert WHERE state IN ('open', 'acknowledged') ORDER BY last_seen_at DESC LIMIT %(limit)s

-- name: stream_schedules
-- Recurring rows, of which there may be a million, have no names and are not told of.
SELECT name, enabled, next_run_at, last_run_at FROM rota.schedule WHERE name IS NOT NULL ORDER BY name LIMIT %(limit)s

-- name: stream_tasks
SELECT name, enabled, md5(concat(definition_hash, overrides, deleted_from_code_at)) AS version
FROM rota.task ORDER BY name LIMIT %(limit)s

-- name: stream_outcomes
-- What workers have counted since the last look.
SELECT task, sum(completed)::bigint AS completed, sum(failed)::bigint AS failed, sum(canceled)::bigint AS canceled,
       sum(snoozed)::bigint AS snoozed, sum(released)::bigint AS released, sum(lost)::bigint AS lost
FROM rota.task_stat WHERE grain = 'flush' AND at > %(since)s AND at <= %(until)s GROUP BY task ORDER BY task LIMIT %(limit)s

-- name: stream_now
SELECT rota.now()
