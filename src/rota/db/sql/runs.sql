-- The fence of every statement about a run is (id, token, worker_id). A job has a worker if and only if it is running; not
-- saying so again keeps the planner from walking the index of running jobs instead of looking each one up.

-- name: runs_claim
-- The bound (priority, run_at, id) is where the last claim ended: with old snapshots about, dead index entries pile up before
-- it, and walking over them again for each claim is what makes queues slow.
UPDATE rota.job j
SET state = 'running', worker_id = %(worker)s, token = token + 1, attempt = attempt + 1,
    claimed_at = rota.now(), updated_at = rota.now(), lease_until = rota.now() + make_interval(secs => %(lease_s)s)
WHERE j.id = ANY (ARRAY(
    SELECT k.id FROM rota.job k
    WHERE k.state = 'queued' AND k.queue = %(queue)s
      AND (k.priority, k.run_at, k.id) > (%(priority)s::smallint, %(run_at)s::timestamptz, %(id)s::uuid)
      AND NOT EXISTS (SELECT FROM rota.queue q WHERE q.name = %(queue)s AND q.paused_at IS NOT NULL)
    ORDER BY k.priority, k.run_at, k.id
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED))
RETURNING j.priority, j.run_at, j.id::text, j.token, j.attempt, j.task, j.payload::text, j.max_attempts, j.claimed_at,
    -- What few jobs have travels as one value, so that the others do not pay for it.
    CASE WHEN j.crashes > 0 OR j.forgiven > 0
           OR num_nonnulls(j.timeout, j.retry, j.key, j.owner, j.scheduled_for, j.triggered_by) > 0
    THEN json_build_object(
        'crashes', j.crashes, 'charged', rota.charged(j.attempt, j.forgiven, j.crashes, j.culprit), 'timeout_s', extract(epoch FROM j.timeout)::float8, 'retry', j.retry,
        'key', j.key, 'owner', j.owner, 'scheduled_for', j.scheduled_for, 'triggered_by', j.triggered_by) END

-- name: runs_promote
-- Delayed jobs that have become due join the ready ones; answers how many did and in how many seconds the next one is due.
WITH due AS (
    UPDATE rota.job SET state = 'queued', updated_at = rota.now()
    WHERE id = ANY (ARRAY(
        SELECT k.id FROM rota.job k WHERE k.state = 'delayed' AND k.run_at <= rota.now()
        ORDER BY k.run_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
    RETURNING 1
)
SELECT (SELECT count(*) FROM due),
       (SELECT extract(epoch FROM k.run_at - rota.now())::float8 FROM rota.job k
        WHERE k.state = 'delayed' AND k.run_at > rota.now() ORDER BY k.run_at LIMIT 1)

-- name: runs_complete
-- The fast lane: plain completions. Answers how many there were and, if not all, which. The children of the whole batch are told
-- at once: ten thousand parents of one job would else write it ten thousand times.
WITH gone AS (
    DELETE FROM rota.job j
    USING unnest(%(ids)s::uuid[], %(tokens)s::bigint[], %(waited_us)s::bigint[], %(took_us)s::bigint[], %(results)s::text[])
          AS d (id, token, waited_us, took_us, result)
    WHERE j.id = d.id AND j.token = d.token AND j.worker_id = %(worker)s
    RETURNING j.*, j.claimed_at + d.waited_us * interval '1 microsecond' AS started_at, d.took_us, d.result
), recorded AS (
    INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, started_at, finished_at, worker_id, result,
                          payload, priority, run_at, max_attempts, token, timeout, retry, key, owner, schedule_id, scheduled_for,
                          triggered_by, created_at)
    SELECT id, attempt, task, queue, 'completed', true, started_at, started_at + took_us * interval '1 microsecond', worker_id,
           result::json, payload, priority, run_at, max_attempts, token, timeout, retry, key, owner, schedule_id, scheduled_for,
           triggered_by, created_at
    FROM gone
    RETURNING job_id
)
SELECT count(*), CASE WHEN count(*) < %(count)s THEN array_agg(job_id::text) END,
       (SELECT rota.release_children(array_agg(id), 'completed') FROM gone WHERE fanout HAVING count(*) > 0)
FROM recorded

-- name: runs_finish
-- Every other ending, in the order of ids so that two workers cannot deadlock. A run that is recorded already (the answer to
-- an earlier try was lost) counts as ours.
SELECT r.id::text, coalesce(f.state, (
    SELECT CASE WHEN d.final THEN d.outcome ELSE 'queued' END FROM rota.run d
    WHERE d.job_id = r.id AND d.attempt = r.attempt AND d.worker_id = %(worker)s AND d.token = r.token
      -- What a rescuer recorded in our name does not: that is a lease lost.
      AND d.outcome <> 'lost'
      AND (d.outcome = CASE r.outcome WHEN 'crashed' THEN 'failed' ELSE r.outcome END
           OR d.error ->> 'type' IS DISTINCT FROM 'WorkerCrashed')))
FROM (SELECT * FROM json_to_recordset(%(runs)s::json)
      AS r (id uuid, token bigint, attempt bigint, outcome text, waited float8, took float8, error json, result json,
            delay float8, retryable boolean)
      ORDER BY id) r
CROSS JOIN LATERAL rota.finish_run(
    r.id, r.token, %(worker)s, r.outcome, r.waited, r.took, r.error, r.result, make_interval(secs => r.delay), r.retryable
) AS f (state)

-- name: runs_locked
WITH free AS (SELECT id FROM rota.job WHERE id = ANY (%(ids)s::uuid[]) FOR UPDATE SKIP LOCKED)
SELECT id::text FROM rota.job WHERE id = ANY (%(ids)s::uuid[]) AND id <> ALL (ARRAY(SELECT id FROM free))

-- name: runs_renew
-- One statement for all of a worker's long runs: those that are still ours, each with whether it was renewed. What somebody's
-- transaction has locked is left for the next time: nobody else can take it meanwhile, and it must not cost the others their lease.
WITH free AS (
    SELECT id FROM rota.job
    WHERE id = ANY (%(ids)s::uuid[]) AND worker_id = %(worker)s
      AND token = (%(tokens)s::bigint[])[array_position(%(ids)s::uuid[], id)]
    FOR NO KEY UPDATE SKIP LOCKED
), renewed AS (
    UPDATE rota.job SET lease_until = rota.now() + make_interval(secs => %(lease_s)s)
    WHERE id = ANY (ARRAY(SELECT id FROM free)) RETURNING id
)
SELECT id::text, id = ANY (ARRAY(SELECT id FROM renewed)) FROM rota.job
WHERE id = ANY (%(ids)s::uuid[]) AND worker_id = %(worker)s
  AND token = (%(tokens)s::bigint[])[array_position(%(ids)s::uuid[], id)]

-- name: runs_release
-- Unstarted claims go back uncharged; those that are locked are found by runs_release_unknown later.
UPDATE rota.job
SET state = 'queued', worker_id = NULL, lease_until = NULL, attempt = attempt - 1, updated_at = rota.now()
WHERE id = ANY (ARRAY(
    SELECT id FROM rota.job
    WHERE id = ANY (%(ids)s::uuid[]) AND worker_id = %(worker)s
      AND token = (%(tokens)s::bigint[])[array_position(%(ids)s::uuid[], id)]
    FOR UPDATE SKIP LOCKED))

-- name: runs_release_unknown
-- Claims whose answer never reached this worker: without this they would lie until their lease runs out.
UPDATE rota.job
SET state = 'queued', worker_id = NULL, lease_until = NULL, attempt = attempt - 1, updated_at = rota.now()
WHERE id = ANY (ARRAY(
    SELECT j.id FROM rota.job j
    WHERE j.state = 'running' AND j.worker_id = %(worker)s
      AND j.claimed_at <= rota.now() - make_interval(secs => %(older_than_s)s) AND j.id <> ALL (%(known)s::uuid[])
    FOR UPDATE SKIP LOCKED))

-- name: runs_rescue
SELECT job_id, task, queue, attempt, worker_id, state FROM rota.rescue_runs(%(dead)s::uuid[], %(batch)s)

-- name: runs_cancel_requested
SELECT id::text, token FROM rota.job WHERE worker_id = %(worker)s AND cancel_requested_at IS NOT NULL

-- name: runs_hold
-- Locks the job for the rest of the transaction: nobody can take it from us before we commit. KEY SHARE is enough for that, as
-- whoever takes or ends a job locks it FOR UPDATE, and it lets our own heartbeat renew the lease meanwhile.
SELECT 1 FROM rota.job WHERE id = CAST(%s AS uuid) AND token = CAST(%s AS bigint) AND worker_id = CAST(%s AS uuid) FOR KEY SHARE

-- name: runs_complete_within
-- In the handler's own transaction. Unlike in runs_finish, a run that has been recorded before is a lease lost: nothing may be
-- committed for it any more.
SELECT rota.finish_run(CAST(%s AS uuid), CAST(%s AS bigint), CAST(%s AS uuid), 'completed', CAST(%s AS float8), CAST(%s AS float8),
                       NULL, CAST(%s AS json))

-- name: runs_make_partitions
SELECT rota.make_run_partitions()
