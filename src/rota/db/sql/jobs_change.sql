-- name: jobs_change_wait_briefly
-- Less than the second after which PostgreSQL looks for a deadlock and ends whoever looked.
SET LOCAL lock_timeout = '500ms'

-- name: jobs_change_wait_a_moment
-- For what people change by hand: they are told, and come again.
SET LOCAL lock_timeout = '900ms'

-- name: jobs_change_look_briefly
-- Each statement of a list has its index: tables that have grown since their last ANALYZE must not be read from end to end. Who has
-- a limit of their own on how long statements take keeps it.
SELECT set_config('statement_timeout', coalesce(nullif(current_setting('statement_timeout'), '0'), '30s'), true), set_config('enable_seqscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true)

-- name: jobs_change_retry
-- In the order of ids, so that two operators do not deadlock.
SELECT t.id, rota.retry_job(t.id) FROM (SELECT unnest(%(ids)s::uuid[]) AS id ORDER BY 1) t

-- name: jobs_change_superseded_by
-- The row that a finished job belongs to, and the job that it has gone on to.
SELECT coalesce(s.name, s.task || '/' || s.key), s.enabled, s.job_id
FROM rota.run r JOIN rota.schedule s ON s.id = r.schedule_id WHERE r.job_id = %(id)s AND r.final

-- name: jobs_change_cancel
SELECT t.id, rota.cancel_job(t.id, %(reason)s) FROM (SELECT unnest(%(ids)s::uuid[]) AS id ORDER BY 1) t

-- name: jobs_change_enqueue
SELECT rota.enqueue(
    task => %(task)s, payload => %(payload)s::jsonb, queue => %(queue)s, priority => %(priority)s, run_at => %(run_at)s,
    delay => %(delay)s, key => %(key)s, strict => %(strict)s, max_attempts => %(max_attempts)s, timeout => %(timeout)s,
    parents => %(parents)s::uuid[], on_parent_failure => %(on_parent_failure)s, triggered_by => %(triggered_by)s,
    id => %(id)s, digests => %(digests)s)

-- name: jobs_change_check_payload
SELECT rota.check_payload(%(task)s, %(schema)s::json, %(payload)s::jsonb)

-- name: jobs_change_is_new
-- Whether the job came into being in this transaction, whose time is the same throughout.
SELECT created_at = rota.now() FROM rota.job WHERE id = %(id)s

-- name: jobs_change_read_payload
-- Of a job, live or finished, as it is stored, with the changes to its members, if any: each of the others stays as it was written.
SELECT j.task, j.owner, j.schedule_id, j.payload::text, (
    SELECT coalesce(json_object_agg(m.key, m.value), '{}')::text
    FROM (SELECT e.key, e.value FROM json_each(j.payload) e WHERE NOT %(changes)s::text::jsonb ? e.key
          UNION ALL SELECT e.key, e.value FROM json_each(%(changes)s::text::json) e) m)
FROM (SELECT task, owner, schedule_id, payload FROM rota.job WHERE id = %(id)s
      UNION ALL SELECT task, owner, schedule_id, payload FROM rota.run WHERE job_id = %(id)s AND final) j

-- name: jobs_change_edit
SELECT rota.edit_job(%(id)s, %(payload)s::json, %(editor)s::json, %(expected)s::json)

-- name: jobs_change_edits
SELECT attempt, rota.shown(payload) AS payload, edited_at, edited_by FROM rota.job_edit WHERE job_id = %(id)s ORDER BY id DESC LIMIT %(limit)s

-- name: jobs_change_lock
-- A live job as it is, for a change that depends on it.
SELECT state FROM rota.job WHERE id = %(id)s FOR UPDATE

-- name: jobs_change_unhold
-- From the line of a limit there is no way to a later time but through the queue; in one transaction nobody sees it there.
UPDATE rota.job SET state = 'queued' WHERE id = %(id)s AND state = 'held'

-- name: jobs_change_reschedule
-- Another time. Who is to run later gives up the place within a limit and lines up again then; who waits for parents still does.
WITH was AS (
    SELECT j AS job, greatest(%(run_at)s::timestamptz, '1970-01-01') AS run_at FROM rota.job j WHERE j.id = %(id)s
), moved AS (
    UPDATE rota.job j
    SET run_at = was.run_at, updated_at = rota.now(),
        state = CASE WHEN j.state = 'waiting' THEN j.state WHEN was.run_at > rota.now() THEN 'delayed'
                     WHEN j.limited AND j.state <> 'queued' THEN 'held' ELSE 'queued' END,
        line = CASE WHEN was.run_at <= rota.now() THEN j.line END,
        limit_key = CASE WHEN was.run_at <= rota.now() THEN j.limit_key END
    FROM was WHERE j.id = %(id)s
    RETURNING j.limited
)
SELECT CASE WHEN moved.limited AND was.run_at > rota.now() THEN rota.vacate_later(was.job) ELSE rota.wake() END
FROM moved, was
