-- What jobs are there, by state, task and queue: counted among those that a bounded walk looks at.

-- name: facets_jobs
-- `scanned` are the newest of one kind; of those that match, how many by state, and of those in the states asked for, by task and queue.
WITH scanned AS MATERIALIZED (
    {scanned}
), matching AS MATERIALIZED (
    SELECT state, task, queue FROM scanned WHERE {match}
)
SELECT (SELECT count(*) FROM scanned),
       coalesce((SELECT json_object_agg(state, n) FROM (SELECT state, count(*) AS n FROM matching GROUP BY state) s), '{{}}'),
       coalesce((SELECT json_object_agg(task, n) FROM (
           SELECT task, count(*) AS n FROM matching WHERE {states} GROUP BY task ORDER BY n DESC, task LIMIT %(shown)s) t), '{{}}'),
       coalesce((SELECT json_object_agg(queue, n) FROM (
           SELECT queue, count(*) AS n FROM matching WHERE {states} GROUP BY queue ORDER BY n DESC, queue LIMIT %(shown)s) q), '{{}}')

-- name: facets_running
-- There are no more than slots, and they have an index of their own.
SELECT id, 'running'::text AS state, task, queue, owner, last_error AS error, {payload} AS payload_matches
FROM rota.job WHERE state = 'running' AND {scan} LIMIT %(window)s

-- name: facets_live
SELECT id, CASE state WHEN 'waiting' THEN 'waiting' ELSE 'queued' END AS state, task, queue, owner, last_error AS error,
       {payload} AS payload_matches
FROM rota.job WHERE state <> 'running' AND {scan} ORDER BY id DESC LIMIT %(window)s

-- name: facets_failed
SELECT job_id AS id, outcome AS state, task, queue, owner, error, {payload} AS payload_matches
FROM rota.run WHERE final AND outcome <> 'completed' AND {scan} ORDER BY job_id DESC LIMIT %(window)s

-- name: facets_finished
SELECT job_id AS id, outcome AS state, task, queue, owner, error, {payload} AS payload_matches
FROM rota.run WHERE final AND {scan} ORDER BY job_id DESC LIMIT %(window)s

-- name: facets_tasks
-- Names that have the text in them, those that begin with it first.
SELECT name FROM rota.task
WHERE {ours} AND position(lower(%(text)s) IN lower(name)) > 0
ORDER BY NOT starts_with(lower(name), lower(%(text)s)), lower(name), name LIMIT %(limit)s

-- name: facets_queues
SELECT name FROM rota.queue
WHERE position(lower(%(text)s) IN lower(name)) > 0
ORDER BY NOT starts_with(lower(name), lower(%(text)s)), lower(name), name LIMIT %(limit)s
