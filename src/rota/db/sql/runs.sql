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
      AND k.task = ANY (%(tasks)s::text[]) AND k.task <> ALL (ARRAY(SELECT d.name FROM rota.task d WHERE NOT d.enabled))
    ORDER BY k.priority, k.run_at, k.id
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED))
RETURNING j.priority, j.run_at, j.id::text, j.token, j.attempt, j.task, j.payload::text, j.max_attempts, j.claimed_at,
    -- What few jobs have travels as one value, so that the others do not pay for it.
    CASE WHEN j.crashes > 0 OR j.forgiven > 0 OR j.limited
           OR num_nonnulls(j.timeout, j.retry, j.key, j.owner, j.schedule_id, j.triggered_by) > 0
    THEN json_build_object(
        'limited', j.limited, 'crashes', j.crashes, 'charged', rota.charged(j.attempt, j.forgiven, j.crashes, j.culprit), 'timeout_s', extract(epoch FROM j.timeout)::float8, 'retry', j.retry,
        'key', j.key, 'owner', j.owner, 'schedule_id', j.schedule_id, 'scheduled_for', j.scheduled_for,
        'triggered_by', j.triggered_by) END

-- name: runs_promote
-- Delayed jobs that have become due join the ready ones, or those that are held by a limit, of which as many are admitted as there
-- are places. Answers how many jobs moved, in how many seconds to look again, and which tasks and queues have limits. Nothing of this need
-- survive a crash of the server: it would be done again.
WITH relaxed AS (SELECT set_config('synchronous_commit', 'off', true)),
due AS (
    UPDATE rota.job SET state = CASE WHEN limited THEN 'held' ELSE 'queued' END, updated_at = rota.now()
    WHERE id = ANY (ARRAY(
        SELECT k.id FROM rota.job k WHERE k.state = 'delayed' AND k.run_at <= rota.now()
        ORDER BY k.run_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
    RETURNING 1
)
SELECT d.moved + a.admitted,
       least(a.look_in, (SELECT extract(epoch FROM k.run_at - rota.now())::float8 FROM rota.job k
                         WHERE k.state = 'delayed' AND k.run_at > rota.now() ORDER BY k.run_at LIMIT 1)),
       -- Whose jobs are to be held although they were enqueued without that.
       ARRAY(SELECT t.name FROM rota.task t WHERE t.limited), ARRAY(SELECT q.name FROM rota.queue q WHERE q.limited)
FROM relaxed, (SELECT count(*)::integer AS moved FROM due) d
     CROSS JOIN LATERAL rota.admit_due((%(limit)s + 0 * d.moved)::integer) a  -- which must not be asked before the others have joined

-- name: runs_complete
-- The fast lane: plain completions. Answers how many there were and, if not all, which. The children of the whole batch are told
-- at once: ten thousand parents of one job would else write it ten thousand times. What belongs to a job is found by its place
-- among the ids, which are in order: to a join with the list there is more than one plan, and a planner that believes the table to
-- be nearly empty, as it was a minute ago, reads all of it for each batch. No time is later than the database's clock, even if that
-- was set back during the run.
WITH gone AS (
    DELETE FROM rota.job j
    WHERE j.id = ANY (%(ids)s::uuid[]) AND j.token = (%(tokens)s::bigint[])[width_bucket(j.id, %(ids)s::uuid[])]
      AND j.worker_id = %(worker)s
    RETURNING j.*, width_bucket(j.id, %(ids)s::uuid[]) AS place
), timed AS (
    SELECT *, claimed_at + (%(waited_us)s::bigint[])[place] * interval '1 microsecond' AS started_at,
           (%(took_us)s::bigint[])[place] * interval '1 microsecond' AS took, (%(results)s::text[])[place]::json AS result
    FROM gone
), recorded AS (
    INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, started_at, finished_at, worker_id, result,
                          payload, priority, run_at, max_attempts, token, timeout, retry, key, owner, schedule_id, scheduled_for,
                          triggered_by, created_at, progress)
    SELECT id, attempt, task, queue, 'completed', true, least(started_at, rota.now()), least(started_at + took, rota.now()), worker_id, result, payload, priority, run_at,
           max_attempts, token, timeout, retry, key, owner, schedule_id, scheduled_for, triggered_by, created_at, progress
    FROM timed
    RETURNING job_id
)
SELECT count(*), CASE WHEN count(*) < %(count)s THEN array_agg(job_id::text) END,
       (SELECT rota.release_children(array_agg(id), 'completed') FROM gone WHERE fanout HAVING count(*) > 0),
       (SELECT rota.vacate(array_agg(task), array_agg(queue), array_agg(limit_key), array_agg(claimed_at))
        FROM gone WHERE limited HAVING count(*) > 0)
FROM recorded

-- name: runs_complete_scheduled
-- The same for jobs of schedules: those that wait for theirs are told in the same statement, and may want no history.
WITH gone AS (
    DELETE FROM rota.job j
    WHERE j.id = ANY (%(ids)s::uuid[]) AND j.token = (%(tokens)s::bigint[])[width_bucket(j.id, %(ids)s::uuid[])]
      AND j.worker_id = %(worker)s
    RETURNING j.*, width_bucket(j.id, %(ids)s::uuid[]) AS place
), settled AS MATERIALIZED (
    SELECT rota.settle_completed(
        array_agg(schedule_id ORDER BY id), array_agg(id ORDER BY id),
        array_agg((%(delays_us)s::bigint[])[place] * interval '1 microsecond' ORDER BY id),
        array_agg((%(next_ats)s::timestamptz[])[place] ORDER BY id)) AS only_counted
    FROM gone
), timed AS (
    SELECT *, claimed_at + (%(waited_us)s::bigint[])[place] * interval '1 microsecond' AS started_at,
           (%(took_us)s::bigint[])[place] * interval '1 microsecond' AS took, (%(results)s::text[])[place]::json AS result
    FROM gone, settled WHERE id IS DISTINCT FROM only_counted[width_bucket(id, only_counted)]
), recorded AS (
    INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, started_at, finished_at, worker_id, result,
                          payload, priority, run_at, max_attempts, token, timeout, retry, key, owner, schedule_id, scheduled_for,
                          triggered_by, created_at, progress)
    SELECT id, attempt, task, queue, 'completed', true, least(started_at, rota.now()), least(started_at + took, rota.now()), worker_id, result, payload, priority, run_at,
           max_attempts, token, timeout, retry, key, owner, schedule_id, scheduled_for, triggered_by, created_at, progress
    FROM timed
)
SELECT count(*), CASE WHEN count(*) < %(count)s THEN array_agg(id::text) END,
       (SELECT rota.release_children(array_agg(id), 'completed') FROM gone WHERE fanout HAVING count(*) > 0),
       (SELECT rota.vacate(array_agg(task), array_agg(queue), array_agg(limit_key), array_agg(claimed_at))
        FROM gone WHERE limited HAVING count(*) > 0)
FROM gone

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
            delay float8, retryable boolean, next_at timestamptz)
      ORDER BY id) r
CROSS JOIN LATERAL rota.finish_run(
    r.id, r.token, %(worker)s, r.outcome, r.waited, r.took, r.error, r.result, make_interval(secs => r.delay), r.retryable, r.next_at
) AS f (state)

-- name: runs_locked
-- Themselves, or the recurring row that waits for one.
WITH free AS (SELECT id FROM rota.job WHERE id = ANY (%(ids)s::uuid[]) FOR UPDATE SKIP LOCKED),
free_rows AS (
    SELECT id FROM rota.schedule
    WHERE id = ANY (ARRAY(SELECT schedule_id FROM rota.job WHERE id = ANY (%(ids)s::uuid[]))) FOR NO KEY UPDATE SKIP LOCKED
)
SELECT id::text FROM rota.job j
WHERE id = ANY (%(ids)s::uuid[])
  AND (id <> ALL (ARRAY(SELECT id FROM free))
       OR (schedule_id <> ALL (ARRAY(SELECT id FROM free_rows))
           AND EXISTS (SELECT FROM rota.schedule s WHERE s.id = j.schedule_id AND s.job_id = j.id)))

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
-- Unstarted claims go back uncharged, or are held by a limit that they were enqueued without; those that are locked are found by
-- runs_release_unknown later.
UPDATE rota.job
SET state = CASE WHEN %(hold)s THEN 'held' ELSE 'queued' END, limited = limited OR %(hold)s, line = CASE WHEN NOT %(hold)s THEN line END,
    worker_id = NULL, lease_until = NULL, attempt = attempt - 1, updated_at = rota.now()
WHERE id = ANY (ARRAY(
    SELECT id FROM rota.job
    WHERE id = ANY (%(ids)s::uuid[]) AND worker_id = %(worker)s
      AND token = (%(tokens)s::bigint[])[array_position(%(ids)s::uuid[], id)]
    FOR UPDATE SKIP LOCKED))
RETURNING id::text, cancel_requested_at IS NOT NULL OR EXISTS (
    SELECT FROM rota.schedule s WHERE s.id = schedule_id AND s.job_id = job.id AND NOT s.enabled)

-- name: runs_release_unknown
-- Claims whose answer never reached this worker: without this they would lie until their lease runs out.
UPDATE rota.job
SET state = 'queued', worker_id = NULL, lease_until = NULL, attempt = attempt - 1, updated_at = rota.now()
WHERE id = ANY (ARRAY(
    SELECT j.id FROM rota.job j
    WHERE j.state = 'running' AND j.worker_id = %(worker)s
      AND j.claimed_at <= rota.now() - make_interval(secs => %(older_than_s)s) AND j.id <> ALL (%(known)s::uuid[])
    FOR UPDATE SKIP LOCKED))
RETURNING id::text, cancel_requested_at IS NOT NULL OR EXISTS (
    SELECT FROM rota.schedule s WHERE s.id = schedule_id AND s.job_id = job.id AND NOT s.enabled)

-- name: runs_cancel_released
SELECT rota.cancel_job(t.id) FROM (SELECT unnest(%(ids)s::uuid[]) AS id ORDER BY 1) t

-- name: runs_rescue
SELECT job_id, task, queue, attempt, worker_id, state FROM rota.rescue_runs(%(dead)s::uuid[], %(batch)s, %(rescuer)s)

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
                       NULL, CAST(%s AS json), CAST(%s AS float8) * interval '1 second', true, CAST(%s AS timestamptz))

-- name: runs_forget_keys
-- Keys that a new job could take over. One that is being taken over right now is locked, and passed by.
DELETE FROM rota.job_key WHERE (task, key, owner) IN (
    SELECT k.task, k.key, k.owner FROM rota.job_key k
    WHERE k.expires_at <= rota.now() AND NOT EXISTS (SELECT FROM rota.job j WHERE j.id = k.job_id)
    ORDER BY k.expires_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)

-- name: runs_forget_edits
SELECT rota.forget_edits()

-- name: runs_make_partitions
SELECT rota.make_run_partitions()
