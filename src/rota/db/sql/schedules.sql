-- name: schedules_due
-- Locked: the plan that is made for them holds until they are fired, in the same transaction. The highest priority first, among the
-- thousand that have been due for longest: a sort of all of them for each batch would take long when very many are due at once.
SELECT s.id, s.next_run_at, rota.now(), s.strategy, s.cron, s.every, s.tz, s.misfire, s.catch_up, s.starts_at, s.ends_at
FROM rota.schedule s
WHERE s.id = ANY (ARRAY(
    SELECT d.id FROM rota.schedule d
    WHERE d.enabled AND d.key IS NULL AND d.next_run_at <= rota.now() AND d.task <> ALL ((SELECT rota.tasks_of_others(%(apps)s::text[]))::text[])
    ORDER BY d.next_run_at LIMIT 1000))
  AND s.enabled AND s.next_run_at <= rota.now()
ORDER BY coalesce(s.priority, (SELECT t.priority FROM rota.task t WHERE t.name = s.task), 0), s.next_run_at
LIMIT %(limit)s FOR UPDATE OF s SKIP LOCKED

-- name: schedules_fire
SELECT count(f.fired), coalesce(sum(f.fired), 0), coalesce(sum(f.skipped), 0)
FROM json_to_recordset(%(firings)s::json)
     AS p (id uuid, due timestamptz, fire timestamptz[], skip json, next timestamptz)
CROSS JOIN LATERAL rota.fire_schedule(p.id, p.due, p.fire, p.skip, p.next) f

-- name: schedules_fire_recurring
-- All of it in one statement: a recurring row has nothing to compute, its last run said when. While its job is live it has no
-- next time, so there is never a second one. Rows of a task that is disabled, or that no code has, pass their time over.
WITH due AS MATERIALIZED (
    SELECT s.id, s.task, s.key, s.payload, s.queue, s.priority, s.next_run_at,
           s.task = ANY (ARRAY(
               SELECT r.name FROM rota.task r WHERE NOT r.enabled OR r.deleted_from_code_at IS NOT NULL)) AS resting
    -- Task by task: rows of another application that nobody fires may be a million, and long due.
    FROM unnest(rota.recurring_tasks(%(apps)s::text[])) AS t (name) CROSS JOIN LATERAL (
        SELECT * FROM rota.schedule r
        WHERE r.enabled AND r.key IS NOT NULL AND r.task = t.name AND r.next_run_at <= rota.now()
        ORDER BY r.next_run_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED) s
), named AS MATERIALIZED (
    -- A UUIDv7 is the time and the version, which is given for all, and random bits.
    SELECT due.*, CAST(overlay(CAST(gen_random_uuid() AS text) PLACING %(id_time)s FROM 1) AS uuid) AS job_id FROM due
), moved AS (
    UPDATE rota.schedule s
    SET job_id = CASE WHEN NOT n.resting THEN n.job_id END,
        next_run_at = CASE WHEN n.resting THEN rota.now() + greatest(s.every, interval '10 seconds') END,
        last_run_at = CASE WHEN n.resting THEN s.last_run_at ELSE rota.now() END, updated_at = rota.now()
    FROM named n WHERE s.id = n.id
), enqueued AS (
    INSERT INTO rota.job (id, task, payload, queue, priority, max_attempts, timeout, schedule_id, scheduled_for, triggered_by,
                          limited, state)
    SELECT n.job_id, n.task, n.payload, coalesce(n.queue, t.queue, 'default'), coalesce(n.priority, t.priority, 0),
           1, NULL, n.id, n.next_run_at,  -- one attempt: what failed is tried again by the row
           json_build_object('kind', 'scheduler', 'schedule', n.task || '/' || n.key),
           l.limited, CASE WHEN l.limited THEN 'held' ELSE 'queued' END
    FROM named n LEFT JOIN rota.task t ON t.name = n.task
    LEFT JOIN rota.queue q ON q.name = coalesce(n.queue, t.queue, 'default')
    CROSS JOIN LATERAL (SELECT coalesce(t.limited, false) OR coalesce(q.limited, false) AS limited) l
    WHERE NOT n.resting
)
SELECT count(*), count(*) FILTER (WHERE NOT resting), CASE WHEN count(*) > 0 THEN rota.wake() END FROM named

-- name: schedules_next
-- In how many seconds something is due: of either kind.
SELECT extract(epoch FROM least(
    (SELECT s.next_run_at FROM rota.schedule s
     WHERE s.enabled AND s.key IS NULL AND s.next_run_at IS NOT NULL AND s.task <> ALL ((SELECT rota.tasks_of_others(%(apps)s::text[]))::text[])
     ORDER BY s.next_run_at LIMIT 1),
    (SELECT min(n.next_run_at) FROM unnest(rota.recurring_tasks(%(apps)s::text[])) AS t (name) CROSS JOIN LATERAL (
        SELECT s.next_run_at FROM rota.schedule s
        WHERE s.enabled AND s.key IS NOT NULL AND s.task = t.name AND s.next_run_at IS NOT NULL
        ORDER BY s.next_run_at LIMIT 1) n)) - rota.now())::float8

-- name: schedules_unplanned
-- Since when a next time is wanted: what came in the last minute, before anybody looked, is not missed.
SELECT s.id, least(greatest(s.updated_at, rota.now() - interval '1 minute'), rota.now()), s.strategy, s.cron, s.every, s.tz, s.starts_at, s.ends_at
FROM rota.schedule s
WHERE s.enabled AND s.next_run_at IS NULL AND s.job_id IS NULL AND s.strategy <> 'init' AND s.id > %(after)s
  AND (s.ends_at IS NULL OR s.ends_at > rota.now())
ORDER BY s.id LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- name: schedules_plan
UPDATE rota.schedule SET next_run_at = %(next)s, updated_at = rota.now() WHERE id = %(id)s

-- name: schedules_refuse
-- What came in through SQL and makes no sense: it is switched off, and says why.
WITH refused AS (
    UPDATE rota.schedule
    SET enabled = false, last_error = json_build_object('type', 'UsageError', 'message', %(why)s::text), updated_at = rota.now()
    WHERE id = %(id)s
    RETURNING id, coalesce(name, task || '/' || key) AS name
), told AS (
    INSERT INTO rota.signal (kind, subject, details)
    SELECT 'schedule_refused', name, json_build_object('schedule_id', id, 'why', left(%(why)s::text, 1000)) FROM refused
)
SELECT name FROM refused

-- name: schedules_heal
-- Rows that wait for a job that is gone, say because somebody deleted it by hand: they go on. Answers the last row looked at.
WITH looked AS (
    SELECT s.id, s.job_id FROM rota.schedule s WHERE s.job_id IS NOT NULL AND s.id > %(after)s ORDER BY s.id LIMIT %(limit)s
), orphaned AS (
    -- OFFSET 0 makes it a look at each job, whatever the planner believes of the table.
    SELECT l.id, l.job_id FROM looked l WHERE NOT EXISTS (SELECT FROM rota.job j WHERE j.id = l.job_id OFFSET 0)
), healed AS (
    UPDATE rota.schedule SET job_id = NULL, next_run_at = CASE WHEN key IS NOT NULL THEN rota.now() END, updated_at = rota.now()
    WHERE id = ANY (ARRAY(
        SELECT s.id FROM rota.schedule s
        WHERE s.id = ANY (ARRAY(SELECT o.id FROM orphaned o)) AND s.job_id = ANY (ARRAY(SELECT o.job_id FROM orphaned o))
        FOR UPDATE SKIP LOCKED))
    RETURNING 1
)
SELECT (SELECT id FROM looked ORDER BY id DESC LIMIT 1), (SELECT count(*) FROM healed)

-- name: schedules_deadlines
WITH late AS MATERIALIZED (SELECT * FROM rota.check_deadlines()),
told AS (
    INSERT INTO rota.signal (kind, subject, fingerprint, details)
    SELECT 'deadline_missed', name, deadline,
           json_build_object('task', task, 'job_id', job_id, 'instant', instant, 'deadline', deadline, 'due', due)
    FROM late
)
SELECT schedule_id, name, task, instant, job_id, deadline, due FROM late

-- name: schedules_failing
-- Rows that keep failing although they back off as far as they may; each is told once.
WITH failing AS (
    UPDATE rota.schedule SET failing_told = true
    WHERE id = ANY (ARRAY(
        SELECT s.id FROM rota.schedule s WHERE s.failing_since IS NOT NULL AND NOT s.failing_told LIMIT 500 FOR UPDATE SKIP LOCKED))
    RETURNING coalesce(name, task || '/' || key) AS name, task, consecutive_failures AS failures, last_error ->> 'message' AS error
), told AS (
    INSERT INTO rota.signal (kind, subject, details)
    SELECT 'schedule_failing', task, json_build_object('schedule', name, 'failures', failures, 'error', left(error, 1000)) FROM failing
)
SELECT name, task, failures, error FROM failing

-- name: schedules_prune
DELETE FROM rota.occurrence WHERE ctid = ANY (ARRAY(
    SELECT o.ctid FROM rota.occurrence o WHERE o.decided_at < rota.now() - make_interval(days => %(days)s)
    ORDER BY o.decided_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED))

-- name: schedules_lock
SELECT coalesce(rota.take_lock('scheduler', %(owner)s, make_interval(secs => %(hold_s)s)), false)
