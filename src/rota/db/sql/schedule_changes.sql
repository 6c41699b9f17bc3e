-- The parameters of these are text and numbers in order, so that every driver can carry them out; rows and times come
-- back as JSON, which looks the same whatever the session's settings are.

-- name: schedule_now
SELECT to_json(rota.now()) #>> '{}'

-- name: schedule_get
SELECT rota.show_schedule(s)::text FROM rota.schedule s WHERE s.name = %s

-- name: schedule_get_key
SELECT rota.show_schedule(s)::text FROM rota.schedule s WHERE s.task = %s AND s.key = %s

-- name: schedule_get_for_change
SELECT rota.show_schedule(s)::text, to_json(rota.now()) #>> '{}' FROM rota.schedule s WHERE s.name = %s FOR UPDATE

-- name: schedule_stored_payload
SELECT s.payload::text FROM rota.schedule s WHERE s.name = %s

-- name: schedule_create
INSERT INTO rota.schedule AS s (id, name, task, payload, strategy, cron, every, tz, enabled, next_run_at, queue, priority, max_attempts,
                                misfire, catch_up, overlap, jitter, starts_at, ends_at, start_within, finish_within, definition,
                                keep_successes)
SELECT coalesce(d.id, rota.uuid7()), d.name, d.task, d.payload, d.strategy, d.cron, make_interval(secs => d.every), d.tz, d.enabled, d.next_run_at, d.queue,
       d.priority, d.max_attempts, d.misfire, d.catch_up, d.overlap, make_interval(secs => d.jitter), d.starts_at, d.ends_at,
       make_interval(secs => d.start_within), make_interval(secs => d.finish_within), d.definition, coalesce(d.keep_successes, true)
FROM json_to_record(%s::text::json)
     AS d (id uuid, name text, task text, payload json, strategy text, cron text, every float8, tz text, enabled boolean,
           next_run_at timestamptz, queue text, priority smallint, max_attempts integer, misfire text, catch_up integer, overlap text,
           jitter float8, starts_at timestamptz, ends_at timestamptz, start_within float8, finish_within float8, definition json,
           keep_successes boolean)
ON CONFLICT (name) WHERE name IS NOT NULL DO NOTHING
RETURNING rota.show_schedule(s)::text

-- name: schedule_update
UPDATE rota.schedule s
SET task = d.task, payload = coalesce(d.payload, s.payload), strategy = d.strategy, cron = d.cron, every = make_interval(secs => d.every), tz = d.tz,
    enabled = d.enabled, next_run_at = d.next_run_at, queue = d.queue, priority = d.priority, max_attempts = d.max_attempts,
    misfire = d.misfire, catch_up = d.catch_up, overlap = d.overlap, jitter = make_interval(secs => d.jitter),
    starts_at = d.starts_at, ends_at = d.ends_at, start_within = make_interval(secs => d.start_within),
    finish_within = make_interval(secs => d.finish_within), definition = d.definition, last_error = NULL, updated_at = rota.now()
FROM json_to_record(%s::text::json)
     AS d (name text, task text, payload json, strategy text, cron text, every float8, tz text, enabled boolean,
           next_run_at timestamptz, queue text, priority smallint, max_attempts integer, misfire text, catch_up integer, overlap text,
           jitter float8, starts_at timestamptz, ends_at timestamptz, start_within float8, finish_within float8, definition json)
WHERE s.name = d.name
RETURNING rota.show_schedule(s)::text

-- name: schedule_set_enabled
SELECT rota.set_schedule(%s, %s::text::boolean)

-- name: schedule_set_next
UPDATE rota.schedule SET next_run_at = %s::text::timestamptz WHERE name = %s

-- name: schedule_delete
-- The schedule that code gives a task has the task's name. That it was deleted is noted, so that the next sync does not create it again.
WITH deleted AS (
    DELETE FROM rota.schedule WHERE name = %s RETURNING name, task, definition IS NOT NULL AS from_code
), noted AS (
    UPDATE rota.task t SET schedule_deleted_at = rota.now() FROM deleted d WHERE d.from_code AND d.name = d.task AND t.name = d.task
)
SELECT name FROM deleted

-- name: schedule_deleted
SELECT t.name FROM rota.task t WHERE t.name = ANY (%s::text::text[]) AND t.schedule_deleted_at IS NOT NULL

-- name: schedule_forget_deleted
UPDATE rota.task SET schedule_deleted_at = NULL WHERE name = ANY (%s::text::text[]) AND schedule_deleted_at IS NOT NULL

-- name: schedule_run
-- Now, beside its instants. An init task that has a live job has been run now already.
SELECT rota.enqueue_scheduled(s, NULL, rota.now(), %s::text::json)::text FROM rota.schedule s WHERE s.name = %s

-- name: schedule_restart_init
-- What has never succeeded is tried again when its code starts; tasks with run_once=False (the second list) run each time.
UPDATE rota.schedule s SET next_run_at = rota.now(), updated_at = rota.now()
WHERE s.name = ANY (%s::text::text[]) AND s.strategy = 'init' AND s.enabled AND s.next_run_at IS NULL AND s.job_id IS NULL
  AND (s.successes = 0 OR s.name = ANY (%s::text::text[]))

-- name: schedule_defined
SELECT rota.show_schedule(s)::text FROM rota.schedule s WHERE s.name = ANY (%s::text::text[])

-- name: recurring_ensure
SELECT e.key, e.schedule_id::text, e.created, to_json(e.next_run_at) #>> '{}'
FROM rota.ensure_recurring_rows(%s, %s::text::json, %s::text::float8 * interval '1 second', %s::text::timestamptz,
                                %s::text::json, %s::text::boolean, %s::text::boolean) e

-- name: recurring_always
SELECT s.task, s.key FROM rota.schedule s WHERE s.task = ANY (%s::text::text[]) AND s.always

-- name: recurring_lock
SELECT rota.lock_recurring(%s, %s)::text

-- name: recurring_set
SELECT e.schedule_id::text, e.enabled, to_json(e.next_run_at) #>> '{}' FROM rota.set_recurring(%s, %s, %s::text::boolean) e

-- name: recurring_run
-- Due now, unless it is running: then it is being done.
UPDATE rota.schedule SET next_run_at = rota.now(), updated_at = rota.now()
WHERE task = %s AND key = %s AND job_id IS NULL AND enabled RETURNING id::text
