-- name: alerts_lock
SELECT coalesce(rota.take_lock('alerts', %(owner)s, make_interval(secs => %(hold_s)s)), false)

-- name: alerts_signal
INSERT INTO rota.signal (kind, subject, fingerprint, details) VALUES (%(kind)s, %(subject)s, %(fingerprint)s, %(details)s::json)

-- name: alerts_take_signals
-- Those that were told first, counted by the trouble they tell of. Two who do this at once take different ones.
WITH taken AS (
    DELETE FROM rota.signal WHERE id = ANY (ARRAY(
        SELECT s.id FROM rota.signal s ORDER BY s.id LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
    RETURNING *
)
SELECT kind, subject, fingerprint, count(*) AS count, min(at) AS first_at, max(at) AS last_at,
       (array_agg(details ORDER BY id DESC))[1] AS details
FROM taken GROUP BY kind, subject, fingerprint ORDER BY kind, subject, fingerprint

-- name: alerts_raise
-- In one order, so that two who raise the same ones do not wait for each other.
SELECT r.alert_id, r.opened
FROM (SELECT * FROM json_to_recordset(%(alerts)s::json)
      AS a (kind text, subject text, fingerprint text, severity text, summary text, details json, count bigint,
            first_at timestamptz, last_at timestamptz)
      ORDER BY kind, subject, fingerprint) a
CROSS JOIN LATERAL rota.raise_alert(a.kind, a.subject, a.fingerprint, a.severity, a.summary, a.details, a.count,
                                    coalesce(a.first_at, rota.now()), coalesce(a.last_at, rota.now())) r

-- name: alerts_active
-- Of the kinds that are conditions: those that are known already, and whether that was said within the last minute.
SELECT kind, subject, last_seen_at > rota.now() - interval '1 minute' FROM rota.alert
WHERE state IN ('open', 'acknowledged') AND kind = ANY (%(kinds)s)

-- name: alerts_queue_ages
-- The oldest job that is due, per queue: ready ones, and those that nobody has promoted.
WITH late AS MATERIALIZED (
    SELECT queue, min(run_at) AS run_at
    FROM (SELECT queue, run_at FROM rota.job
          WHERE state = 'delayed' AND run_at < rota.now() - make_interval(secs => %(age_s)s) ORDER BY run_at LIMIT 1000) l
    GROUP BY queue
)
SELECT q.name, rota.now() - least(oldest.run_at, late.run_at)
FROM rota.queue q LEFT JOIN late ON late.queue = q.name
CROSS JOIN LATERAL (SELECT rota.oldest_ready(q.name) AS run_at OFFSET 0) oldest
WHERE q.paused_at IS NULL AND least(oldest.run_at, late.run_at) IS NOT NULL
ORDER BY q.name

-- name: alerts_unknown_tasks
-- Tasks with jobs that were set aside, for which no worker has come meanwhile.
SELECT u.task, cardinality(u.refused_by) > 0, rota.now() - min(u.since), array_agg(DISTINCT u.queue)
FROM rota.unknown_task u
WHERE NOT rota.is_known(u.queue, u.task, u.refused_by)
  AND rota.first_of_line(rota.unknown_line(u.queue, u.task, u.refused_by)) IS NOT NULL
GROUP BY 1, 2 HAVING min(u.since) <= rota.now() - make_interval(secs => %(age_s)s) ORDER BY 1, 2

-- name: alerts_resolve
UPDATE rota.alert SET state = 'resolved', resolved_at = rota.now()
WHERE id = ANY (ARRAY(
    SELECT a.id FROM rota.alert a
    WHERE a.state IN ('open', 'acknowledged') AND a.kind = %(kind)s AND a.subject <> ALL (%(but)s::text[])
    ORDER BY a.kind, a.subject, a.fingerprint FOR UPDATE SKIP LOCKED))

-- name: alerts_settle
-- Troubles that have ended: a task whose rows do well again, a schedule that is on again or gone, a host where no worker has died
-- for an hour; and what happened once, was acknowledged and has not happened for a day. Should it happen again, it opens again.
UPDATE rota.alert SET state = 'resolved', resolved_at = rota.now()
WHERE id = ANY (ARRAY(
    SELECT a.id FROM rota.alert a
    WHERE a.state IN ('open', 'acknowledged') AND CASE a.kind
        WHEN 'schedule_failing' THEN NOT EXISTS (
            SELECT FROM rota.schedule s WHERE s.failing_since IS NOT NULL AND s.task = a.subject)
        WHEN 'schedule_refused' THEN NOT EXISTS (
            SELECT FROM rota.schedule s WHERE s.id = (a.details ->> 'schedule_id')::uuid AND NOT s.enabled)
        WHEN 'worker_died' THEN a.last_seen_at < rota.now() - interval '1 hour'
            OR EXISTS (SELECT FROM rota.worker w WHERE w.id = (a.details ->> 'worker_id')::uuid AND w.stopped_at IS NULL)
        WHEN 'queue_stuck' THEN false
        WHEN 'task_unknown' THEN false
        WHEN 'snapshot_held' THEN false
        ELSE a.state = 'acknowledged' AND greatest(a.last_seen_at, a.acknowledged_at) < rota.now() - interval '1 day' END
    ORDER BY a.kind, a.subject, a.fingerprint LIMIT 500 FOR UPDATE SKIP LOCKED))

-- name: alerts_list
SELECT * FROM rota.alert
WHERE (%(all)s OR state = 'open') AND (%(kind)s::text IS NULL OR kind = %(kind)s)
  AND (%(before_at)s::timestamptz IS NULL OR (last_seen_at, id) < (%(before_at)s, %(before_id)s::bigint))
ORDER BY last_seen_at DESC, id DESC LIMIT %(limit)s

-- name: alerts_get
SELECT * FROM rota.alert WHERE id = %(id)s

-- name: alerts_acknowledge
UPDATE rota.alert
SET state = 'acknowledged', acknowledged_at = rota.now(), acknowledged_by = %(by)s, note = coalesce(%(note)s, note)
WHERE id = %(id)s AND state <> 'resolved'
RETURNING *

-- name: alerts_prune
DELETE FROM rota.alert WHERE id = ANY (ARRAY(
    SELECT id FROM rota.alert
    WHERE state IN ('acknowledged', 'resolved') AND last_seen_at < rota.now() - make_interval(days => %(days)s)
    LIMIT %(limit)s FOR UPDATE SKIP LOCKED))

-- name: alerts_prune_signals
-- Of a database in which nobody has looked for so long.
DELETE FROM rota.signal WHERE id = ANY (ARRAY(
    SELECT id FROM rota.signal WHERE at < rota.now() - make_interval(days => %(days)s)
    ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
