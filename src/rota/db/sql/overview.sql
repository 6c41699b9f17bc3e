-- What the overview looks at: each count ends at its cap, each walk after so many rows.

-- name: overview_failed
-- Jobs that failed for good within the last hour, among the newest that did not complete; `cut`: all of those are of this hour, so
-- there may be more.
WITH newest AS MATERIALIZED (
    SELECT job_id, task, outcome, finished_at FROM rota.run WHERE final AND outcome <> 'completed' ORDER BY job_id DESC LIMIT %(walk)s
)
SELECT count(*) FILTER (WHERE outcome = 'failed' AND finished_at >= rota.now() - interval '1 hour' AND {ours}) AS failed,
       count(*) = %(walk)s
           AND (SELECT n.job_id >= rota.uuid7_floor(rota.now() - interval '1 hour') FROM newest n ORDER BY n.job_id LIMIT 1) AS cut
FROM newest

-- name: overview_queues
SELECT q.name, q.paused_at, q.pause_reason, rota.oldest_wait(q.name) AS age FROM rota.queue q ORDER BY q.name

-- name: overview_schedules
-- Schedules that nobody has fired for a minute although they are due, and those that keep failing; Rota's own left out.
SELECT (SELECT count(*) FROM (
            SELECT FROM rota.schedule s
            WHERE s.enabled AND s.key IS NULL AND s.next_run_at < rota.now() - interval '1 minute' AND {ours}
            LIMIT %(cap)s + 1) c) AS late,
       (SELECT count(*) FROM (
            SELECT FROM unnest(rota.recurring_tasks()) AS t (name) JOIN rota.schedule s ON s.task = t.name
            WHERE s.enabled AND s.key IS NOT NULL AND s.next_run_at IS NOT NULL AND s.next_run_at < rota.now() - interval '1 minute'
            LIMIT %(cap)s + 1) c) AS recurring_late,
       (SELECT count(*) FROM (SELECT FROM rota.schedule s WHERE s.failing_since IS NOT NULL AND {ours} LIMIT %(cap)s + 1) c) AS failing

-- name: overview_alerts
SELECT a.severity, count(*)
FROM (SELECT severity FROM rota.alert WHERE state = 'open' ORDER BY last_seen_at DESC LIMIT %(cap)s) a GROUP BY a.severity

-- name: overview_ever
-- Whether anything of the application's own has run, as far as the newest runs tell.
SELECT EXISTS (SELECT FROM (SELECT task FROM rota.run ORDER BY job_id DESC, attempt DESC LIMIT %(walk)s) r WHERE {ours})
