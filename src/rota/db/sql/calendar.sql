-- What will run, and what became of what was to run. Each block walks an index, and no further than it is told.

-- name: calendar_upcoming
-- The schedules and the recurring rows that are due first; those of tasks that rest are told of as such.
SELECT rota.show_schedule(s)::text,
       s.task = ANY (ARRAY(SELECT t.name FROM rota.task t WHERE NOT t.enabled OR t.deleted_from_code_at IS NOT NULL)) AS resting,
       s.next_run_at < rota.now() - interval '1 minute' AS late
FROM (
    (SELECT * FROM rota.schedule s WHERE s.enabled AND s.key IS NULL AND s.next_run_at IS NOT NULL AND {ours}
     ORDER BY s.next_run_at LIMIT %(limit)s)
    UNION ALL
    (SELECT r.* FROM unnest(rota.recurring_tasks()) AS t (name) CROSS JOIN LATERAL (
        SELECT * FROM rota.schedule d
        WHERE d.enabled AND d.key IS NOT NULL AND d.task = t.name AND d.next_run_at IS NOT NULL
        ORDER BY d.next_run_at LIMIT %(limit)s) r
     ORDER BY r.next_run_at LIMIT %(limit)s)
) s
ORDER BY s.next_run_at, s.id LIMIT %(limit)s

-- name: calendar_schedules
-- The schedules that fire by themselves, by name; not those whose tasks rest.
SELECT s.id, s.name, s.task, s.strategy, s.cron, s.every, s.tz, s.starts_at, s.ends_at, s.next_run_at
FROM rota.schedule s
WHERE s.name > '' AND s.enabled AND s.job_id IS NULL AND {match}
  AND s.task <> ALL (ARRAY(SELECT t.name FROM rota.task t WHERE NOT t.enabled OR t.deleted_from_code_at IS NOT NULL))
ORDER BY s.name LIMIT %(limit)s

-- name: calendar_recurring
-- Recurring rows by quarter of an hour and task. What is late runs now. `walked` is how many were looked at, which ends the walk.
SELECT w.quarter, w.task, count(*) FILTER (WHERE {match}) AS n, count(*) AS walked, max(w.at) AS last
FROM (
    SELECT t.name AS task, s.next_run_at AS at, floor(extract(epoch FROM greatest(s.next_run_at, %(now)s)) / 900)::bigint AS quarter
    FROM unnest(rota.recurring_tasks()) AS t (name) CROSS JOIN LATERAL (
        SELECT r.next_run_at FROM rota.schedule r
        WHERE r.enabled AND r.key IS NOT NULL AND r.task = t.name AND r.next_run_at IS NOT NULL
          AND r.next_run_at >= %(begin)s AND r.next_run_at < %(end)s
        ORDER BY r.next_run_at LIMIT %(walk)s) s
    ORDER BY s.next_run_at LIMIT %(walk)s
) w
GROUP BY w.quarter, w.task ORDER BY w.quarter, w.task

-- name: calendar_jobs
-- The same for jobs that are enqueued and not due yet.
SELECT w.quarter, w.task, count(*) FILTER (WHERE {match}) AS n, count(*) AS walked, max(w.at) AS last
FROM (
    SELECT j.task, j.run_at::timestamptz AS at, floor(extract(epoch FROM greatest(j.run_at, %(now)s)) / 900)::bigint AS quarter
    FROM rota.job j
    WHERE j.state = 'delayed' AND j.run_at >= %(begin)s AND j.run_at < %(end)s
    ORDER BY j.run_at LIMIT %(walk)s
) w
GROUP BY w.quarter, w.task ORDER BY w.quarter, w.task

-- name: calendar_resting
SELECT t.name FROM rota.task t WHERE NOT t.enabled OR t.deleted_from_code_at IS NOT NULL

-- name: calendar_firings
-- What became of the last instants of each of these schedules. OFFSET 0: each job looked up by itself.
SELECT s.id, o.instant, o.until, o.instants, o.outcome, o.reason, o.job_id, o.missed, j.state, j.last_run_at, j.finished_at
FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS w (id, place)
CROSS JOIN LATERAL (SELECT k.id FROM rota.schedule k WHERE k.id = w.id OFFSET 0) s
LEFT JOIN LATERAL (
    SELECT * FROM rota.occurrence k WHERE k.schedule_id = s.id ORDER BY k.instant DESC LIMIT %(limit)s
) o ON true
LEFT JOIN LATERAL (SELECT state, last_run_at, finished_at FROM rota.jobs WHERE id = o.job_id OFFSET 0) j ON true
ORDER BY w.place, o.instant
