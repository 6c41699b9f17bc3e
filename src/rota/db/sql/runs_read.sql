-- Runs as operators see them, newest job first and of one job the last attempt first. The open attempt is the job itself.

-- name: runs_read_scan_open
-- Walks the open attempts: how many it saw, the oldest of them, and those that match. There are no more than slots.
WITH open AS MATERIALIZED (
    SELECT id AS job_id, attempt, task, worker_id, schedule_id, triggered_by, created_at, NULL::json AS error, NULL::text AS outcome,
           NULL::text AS fingerprint
    FROM rota.job WHERE state = 'running'
), scanned AS MATERIALIZED (
    SELECT * FROM open
    WHERE (job_id, attempt) < (%(before)s::uuid, %(before_attempt)s::bigint) AND {scan}
    ORDER BY job_id DESC, attempt DESC LIMIT %(window)s
)
{answer}

-- name: runs_read_scan
-- The same for a bounded number of finished attempts.
WITH scanned AS MATERIALIZED (
    SELECT job_id, attempt, task, worker_id, schedule_id, triggered_by, created_at, error, outcome, fingerprint FROM rota.run
    WHERE (job_id, attempt) < (%(before)s::uuid, %(before_attempt)s::bigint) AND {scan}
    ORDER BY job_id DESC, attempt DESC LIMIT %(window)s
)
{answer}

-- name: runs_read_answer
, matching AS MATERIALIZED (
    SELECT job_id, attempt FROM scanned WHERE {match} ORDER BY job_id DESC, attempt DESC LIMIT %(limit)s
)
SELECT (SELECT count(*) FROM scanned),
       (SELECT job_id FROM scanned ORDER BY job_id, attempt LIMIT 1),
       (SELECT attempt FROM scanned ORDER BY job_id, attempt LIMIT 1),
       ARRAY(SELECT job_id FROM matching ORDER BY job_id DESC, attempt DESC),
       ARRAY(SELECT attempt FROM matching ORDER BY job_id DESC, attempt DESC)

-- name: runs_read_lines
-- OFFSET 0: each looked up by itself.
SELECT r.*
FROM unnest(%(ids)s::uuid[], %(attempts)s::bigint[]) AS wanted (job_id, attempt)
CROSS JOIN LATERAL (
    SELECT f.job_id, f.attempt, f.task, f.queue, f.outcome AS status, f.final, f.scheduled_for, f.started_at, f.finished_at,
           f.finished_at - f.started_at AS duration, f.worker_id, f.schedule_id, f.triggered_by, f.created_at,
           f.error ->> 'type' AS error_type, left(f.error ->> 'message', 500) AS error, f.fingerprint, f.run_at
    FROM rota.run f WHERE f.job_id = wanted.job_id AND f.attempt = wanted.attempt
    UNION ALL
    SELECT j.id, j.attempt, j.task, j.queue, 'running', false, j.scheduled_for, j.claimed_at, NULL,
           rota.now() - j.claimed_at, j.worker_id, j.schedule_id, j.triggered_by, j.created_at, NULL, NULL, NULL, j.run_at
    FROM rota.job j WHERE j.id = wanted.job_id AND j.attempt = wanted.attempt AND j.state = 'running'
    OFFSET 0
) r
ORDER BY r.job_id DESC, r.attempt DESC

-- name: runs_read_last_attempt
SELECT coalesce((SELECT attempt FROM rota.job WHERE id = %(id)s AND state = 'running'),
                (SELECT attempt FROM rota.run WHERE job_id = %(id)s ORDER BY attempt DESC LIMIT 1))

-- name: runs_read_get
-- The payload is kept with the last run only, and with what it was changed from.
SELECT f.job_id, f.attempt, f.task, f.queue, f.outcome AS status, f.final, f.scheduled_for, f.started_at, f.finished_at,
       f.finished_at - f.started_at AS duration, f.worker_id, f.schedule_id, f.triggered_by, f.created_at, f.fingerprint, f.error,
       rota.shown(coalesce(f.payload,
                (SELECT e.payload FROM rota.job_edit e WHERE e.job_id = f.job_id AND e.attempt >= f.attempt ORDER BY e.attempt, e.id LIMIT 1),
                (SELECT k.payload FROM rota.jobs k WHERE k.id = f.job_id))) AS payload,
       f.result, f.progress, f.run_at, f.priority, f.max_attempts, f.timeout, f.key, f.owner
FROM rota.run f WHERE f.job_id = %(id)s AND f.attempt = %(attempt)s
UNION ALL
SELECT j.id, j.attempt, j.task, j.queue, 'running', false, j.scheduled_for, j.claimed_at, NULL,
       rota.now() - j.claimed_at, j.worker_id, j.schedule_id, j.triggered_by, j.created_at, NULL, NULL,
       rota.shown(j.payload), NULL, j.progress, j.run_at, j.priority, j.max_attempts, j.timeout, j.key, j.owner
FROM rota.job j WHERE j.id = %(id)s AND j.attempt = %(attempt)s AND j.state = 'running'

-- name: runs_read_schedule
-- By its name, its id, or the task and key of a recurring row.
SELECT id, task FROM rota.schedule
WHERE id = ANY (ARRAY(SELECT s.id FROM rota.schedule s WHERE s.name = %(name)s
                      UNION ALL SELECT s.id FROM rota.schedule s WHERE s.id = %(id)s::uuid
                      UNION ALL SELECT s.id FROM rota.schedule s WHERE s.task = %(task)s AND s.key = %(key)s))
LIMIT 1
