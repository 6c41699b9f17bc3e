-- Schedules as operators see them. Each statement walks one index; what became of the last firing is looked up for each row.

-- name: schedule_reads_named
{columns}
WHERE s.name > %(after_name)s AND {match}
ORDER BY s.name LIMIT %(limit)s

-- name: schedule_reads_recurring
{columns}
WHERE s.key IS NOT NULL AND (s.task, s.key) > (%(after_task)s, %(after_key)s) AND {match}
ORDER BY s.task, s.key LIMIT %(limit)s

-- name: schedule_reads_failing
-- Those that have been failing for longest first.
{columns}
WHERE s.failing_since IS NOT NULL
  AND (s.failing_since, s.id) > (%(after_since)s, %(after_id)s)
  AND {match}
ORDER BY s.failing_since, s.id LIMIT %(limit)s

-- name: schedule_reads_columns
-- OFFSET 0: each job looked up by itself, and not the few joined with all jobs there are.
SELECT rota.show_schedule(s)::text, o.outcome, o.reason, j.state
FROM rota.schedule s
LEFT JOIN LATERAL (
    SELECT k.outcome, k.reason, k.job_id FROM rota.occurrence k WHERE k.schedule_id = s.id ORDER BY k.instant DESC LIMIT 1
) o ON true
LEFT JOIN LATERAL (SELECT state FROM rota.jobs WHERE id = coalesce(s.job_id, o.job_id) OFFSET 0) j ON true

-- name: schedule_reads_ledger
SELECT o.instant, o.until, o.instants, o.outcome, o.reason, o.job_id, o.decided_at, o.missed, j.state, j.last_run_at AS started_at,
       j.finished_at, left(concat_ws(': ', j.last_error ->> 'type', j.last_error ->> 'message'), 500) AS error
FROM (SELECT * FROM rota.occurrence WHERE schedule_id = %(id)s ORDER BY instant DESC LIMIT %(limit)s) o
LEFT JOIN LATERAL (SELECT state, last_run_at, finished_at, last_error FROM rota.jobs WHERE id = o.job_id OFFSET 0) j ON true
ORDER BY o.instant DESC

-- name: schedule_reads_now
SELECT rota.now()

-- name: schedule_reads_task
SELECT payload_schema FROM rota.task WHERE name = %(name)s

-- name: schedule_reads_task_names
SELECT name FROM rota.task WHERE NOT system ORDER BY name LIMIT %(limit)s

-- name: schedule_reads_label
SELECT coalesce(name, task || '/' || key) FROM rota.schedule WHERE id = %(id)s
