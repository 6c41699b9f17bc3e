-- Jobs as their owners see them: of HTTP jobs not what they send, of others nothing of their payload.

-- name: http_jobs_lines
-- Nothing is cast: what came in by SQL may be of any type.
SELECT id, task, state, call ->> 'url' AS url, call ->> 'method' AS method, call -> 'timeout_s' AS timeout_s,
       CASE json_typeof(call -> 'headers') WHEN 'object' THEN ARRAY(SELECT json_object_keys(call -> 'headers')) ELSE '{}' END AS headers,
       run_at, attempt, max_attempts, key, cancel_requested_at IS NOT NULL AS cancel_requested, created_at, updated_at, finished_at,
       CASE WHEN call IS NOT NULL THEN coalesce(result -> 'status', last_error -> 'call' -> 'status') END AS last_status,
       left(last_error ->> 'message', 500) AS last_error, triggered_by
FROM (SELECT *, CASE WHEN task = %(task)s THEN payload END AS call FROM rota.jobs WHERE id = ANY (%(ids)s)) j
WHERE owner = %(owner)s
ORDER BY id DESC

-- name: http_jobs_attempts
-- The open attempt is the job itself: it shows before it has ended, also when the worker that made it is dead.
SELECT attempt, outcome, started_at, finished_at, error, result
FROM (SELECT attempt, outcome, started_at, finished_at, error, result FROM rota.run WHERE job_id = %(id)s
      UNION ALL
      SELECT attempt, 'running', claimed_at, NULL, NULL, NULL FROM rota.job WHERE id = %(id)s AND state = 'running') a
WHERE attempt < %(before)s
ORDER BY attempt DESC LIMIT %(limit)s
