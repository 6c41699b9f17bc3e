-- name: queues_read_all
-- Counts stop one beyond the cap. Delayed, held and running jobs have no index by queue: one bounded walk serves all queues.
-- `counted` and `kept`: the states that were counted to the end in the background, and what was found of them.
WITH kept AS MATERIALIZED (
    SELECT queue, json_object_agg(state, jobs) AS jobs
    FROM (SELECT queue, state, sum(jobs)::bigint AS jobs FROM rota.job_count
          WHERE counted_at > rota.now() - interval '15 minutes' GROUP BY queue, state) each
    GROUP BY queue
), delayed AS MATERIALIZED (
    SELECT queue, count(*) AS n, sum(count(*)) OVER () AS walked
    FROM (SELECT queue FROM rota.job WHERE state = 'delayed' ORDER BY run_at LIMIT %(walk)s) walk GROUP BY queue
), held AS MATERIALIZED (
    SELECT queue, count(*) AS n, sum(count(*)) OVER () AS walked
    FROM (SELECT queue FROM rota.job WHERE limited AND state = 'held' ORDER BY line LIMIT %(walk)s) walk GROUP BY queue
), running AS MATERIALIZED (
    SELECT queue, count(*) AS n, sum(count(*)) OVER () AS walked
    FROM (SELECT queue FROM rota.job WHERE state = 'running' ORDER BY lease_until LIMIT %(walk)s) walk GROUP BY queue
)
SELECT q.name, q.paused_at, q.pause_reason, q.max_concurrency, q.rate, q.overrides IS NOT NULL AS overridden,
       rota.oldest_wait(q.name) AS oldest_age, ready.n AS ready, waiting.n AS waiting,
       coalesce((SELECT n FROM delayed d WHERE d.queue = q.name), 0) AS delayed,
       coalesce((SELECT n FROM held h WHERE h.queue = q.name), 0) AS held,
       coalesce((SELECT n FROM running r WHERE r.queue = q.name), 0) AS running,
       coalesce((SELECT walked FROM delayed LIMIT 1), 0) = %(walk)s AS delayed_capped,
       coalesce((SELECT walked FROM held LIMIT 1), 0) = %(walk)s AS held_capped,
       coalesce((SELECT walked FROM running LIMIT 1), 0) = %(walk)s AS running_capped,
       ARRAY(SELECT DISTINCT state FROM rota.job_count WHERE counted_at > rota.now() - interval '15 minutes') AS counted,
       coalesce((SELECT jobs FROM kept k WHERE k.queue = q.name), '{}') AS kept
FROM rota.queue q
CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM (SELECT FROM rota.job j WHERE j.state = 'queued' AND j.queue = q.name LIMIT %(cap)s + 1) c
) ready
CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM (SELECT FROM rota.job j WHERE j.state = 'waiting' AND j.queue = q.name LIMIT %(cap)s + 1) c
) waiting
ORDER BY q.name

-- name: queues_names
SELECT name FROM rota.queue ORDER BY name

-- name: queues_pause
-- Pausing again keeps the time of the first pause.
UPDATE rota.queue
SET paused_at = coalesce(paused_at, rota.now()), pause_reason = coalesce(%(reason)s, pause_reason)
WHERE name = %(name)s
RETURNING 1

-- name: queues_resume
WITH resumed AS (
    UPDATE rota.queue SET paused_at = NULL, pause_reason = NULL WHERE name = %(name)s RETURNING 1
)
SELECT 1, rota.wake() FROM resumed

-- name: queues_overrides
-- What operators have said of a queue's limits; locked, so that the next statement builds on it.
SELECT coalesce(overrides, '{}') FROM rota.queue WHERE name = %(name)s FOR NO KEY UPDATE

-- name: queues_override
SELECT rota.set_queue_limits(name, definition, %(overrides)s::json) FROM rota.queue WHERE name = %(name)s

-- name: queues_limits
SELECT max_concurrency, rate FROM rota.queue WHERE name = %(name)s

-- name: queues_get_for_change
SELECT name, paused_at, pause_reason, max_concurrency, rate, overrides IS NOT NULL AS overridden
FROM rota.queue WHERE name = %(name)s FOR NO KEY UPDATE
