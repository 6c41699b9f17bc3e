-- What `rota demo` looks at once a second.

-- name: demo_live
SELECT CASE state WHEN 'delayed' THEN 'later' WHEN 'held' THEN 'queued' ELSE state END AS state, count(*)
FROM rota.job WHERE task <> ALL (ARRAY(SELECT name FROM rota.task WHERE system)) GROUP BY 1

-- name: demo_ended
-- Runs of the jobs made between two instants, by what became of them. The ids carry the time, so the key is the index.
SELECT task,
       CASE WHEN outcome <> 'failed' THEN outcome
            WHEN final THEN 'failed'
            WHEN error ->> 'type' = 'JobTimeout' THEN 'timed out'
            ELSE 'retried' END AS fate,
       count(*)
FROM rota.run
WHERE job_id >= rota.uuid7_floor(%(since)s) AND job_id < rota.uuid7_floor(%(until)s)
GROUP BY 1, 2

-- name: demo_failures
SELECT finished_at, task, attempt, final, error ->> 'type', error ->> 'message'
FROM rota.run
WHERE job_id >= rota.uuid7_floor(%(since)s) AND outcome IN ('failed', 'lost')
ORDER BY finished_at DESC LIMIT %(limit)s

-- name: demo_workers
SELECT w.pid, w.slots, w.started_at, w.seen_at, (SELECT count(*) FROM rota.job j WHERE j.worker_id = w.id) AS running
FROM rota.worker w WHERE w.stopped_at IS NULL ORDER BY w.started_at

-- name: demo_fired
SELECT count(*) FILTER (WHERE outcome = 'fired'), coalesce(sum(coalesce(instants, 1)) FILTER (WHERE outcome = 'skipped'), 0)
FROM rota.occurrence

-- name: demo_link
-- Nothing when a link has been used, or will be too old in a minute.
SELECT 1 FROM rota.magic_link WHERE token_hash = %(hash)s AND used_at IS NULL AND expires_at > rota.now() + interval '1 minute'
