-- name: jobs_read_scan_live
-- Walks a bounded number of live jobs, newest first: how many it saw, the oldest of them, and those that match.
WITH scanned AS MATERIALIZED (
    SELECT id, task, queue, owner, last_error AS error, {payload} AS payload_matches FROM rota.job
    WHERE id < %(before)s AND {scan}
    ORDER BY id DESC LIMIT %(window)s
)
SELECT (SELECT count(*) FROM scanned),
       (SELECT id FROM scanned ORDER BY id LIMIT 1),
       ARRAY(SELECT id FROM scanned WHERE {match} ORDER BY id DESC LIMIT %(limit)s)

-- name: jobs_read_scan_finished
-- The same for finished jobs.
WITH scanned AS MATERIALIZED (
    SELECT job_id AS id, task, queue, owner, error, {payload} AS payload_matches FROM rota.run
    WHERE final AND job_id < %(before)s AND {scan}
    ORDER BY job_id DESC LIMIT %(window)s
)
SELECT (SELECT count(*) FROM scanned),
       (SELECT id FROM scanned ORDER BY id LIMIT 1),
       ARRAY(SELECT id FROM scanned WHERE {match} ORDER BY id DESC LIMIT %(limit)s)

-- name: jobs_read_summaries
SELECT id, task, queue, priority, state, run_at, attempt, max_attempts, worker_id, key, cancel_requested_at,
       created_at, updated_at, finished_at, last_error ->> 'type' AS error_type, left(last_error ->> 'message', 500) AS error,
       last_run_at
FROM rota.jobs
WHERE id = ANY (%(ids)s)
ORDER BY id DESC

-- name: jobs_read_get
SELECT id, task, queue, priority, state, payload, run_at, lease_until, worker_id, attempt, max_attempts, last_error, last_run_at,
       key, owner, schedule_id, scheduled_for, triggered_by, timeout, retry, result, cancel_requested_at,
       created_at, updated_at, completed_at, canceled_at, finished_at, progress
FROM rota.jobs
WHERE id = %(id)s

-- name: jobs_read_runs
SELECT attempt, outcome, started_at, finished_at, worker_id, error, result
FROM rota.run
WHERE job_id = %(id)s
ORDER BY attempt DESC LIMIT %(limit)s

-- name: jobs_read_parents
-- A parent whose history has been pruned has neither task nor state.
SELECT e.parent_id AS id, p.task, p.state, e.settled
FROM (SELECT parent_id, settled FROM rota.job_edge WHERE child_id = %(id)s ORDER BY settled, parent_id LIMIT %(limit)s) e
-- OFFSET 0: each looked up by itself, and not the few joined with all jobs there are.
LEFT JOIN LATERAL (SELECT task, state FROM rota.jobs WHERE id = e.parent_id OFFSET 0) p ON true
ORDER BY e.settled, e.parent_id

-- name: jobs_read_children
SELECT e.child_id AS id, c.task, c.state, e.settled
FROM (SELECT child_id, settled FROM rota.job_edge WHERE parent_id = %(id)s ORDER BY child_id LIMIT %(limit)s) e
LEFT JOIN LATERAL (SELECT task, state FROM rota.jobs WHERE id = e.child_id OFFSET 0) c ON true
ORDER BY e.child_id

-- name: jobs_read_live
-- Everything about a live job that a claim looks at.
SELECT j.id, j.task, j.queue, j.priority, j.state, j.run_at, j.attempt, j.max_attempts, j.crashes, j.culprit, j.worker_id,
       j.claimed_at, j.lease_until, j.pending_parents, j.cancel_requested_at, j.last_error,
       q.name IS NOT NULL AS queue_exists, q.paused_at, q.pause_reason, t.max_concurrency, t.enabled IS FALSE AS disabled,
       coalesce(starts_with(j.line, 'unknown '), false) AS set_aside,
       t.disabled_at, t.disabled_by, t.disable_reason, rota.now() AS now
FROM rota.job j LEFT JOIN rota.queue q ON q.name = j.queue LEFT JOIN rota.task t ON t.name = j.task
WHERE j.id = %(id)s

-- name: jobs_read_count_ahead
-- Ready jobs that a claim takes before this one.
SELECT count(*) FROM (
    SELECT FROM rota.job k
    WHERE k.state = 'queued' AND k.queue = %(queue)s AND (k.priority, k.run_at, k.id) < (%(priority)s, %(run_at)s, %(id)s)
    LIMIT %(limit)s
) ahead

-- name: jobs_read_admitted
SELECT id, worker_id, CASE state WHEN 'running' THEN claimed_at END AS claimed_at
FROM rota.job
WHERE id = ANY (%(ids)s)
ORDER BY 3, id

-- name: jobs_read_limits
SELECT gate, name, key, waits_here, most, rate, taken, begun, free_at, holders FROM rota.explain_limits(%(id)s)

-- name: jobs_read_running
-- What the slots of these workers are taken by, the longest runs first.
SELECT id, task, worker_id, claimed_at
FROM rota.job
WHERE state = 'running' AND worker_id = ANY (%(workers)s)
ORDER BY claimed_at, id LIMIT %(limit)s
