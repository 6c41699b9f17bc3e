-- The parameters of these are text in order, so that every driver can carry them out; rows come back as JSON, which looks the same
-- whatever the session's settings are.

-- name: tasks_known
SELECT rota.show_task(t)::text FROM rota.task t WHERE t.name = ANY (%s::text::text[]) ORDER BY t.name

-- name: tasks_of_app
-- What an application had in its code at its last sync.
SELECT t.name FROM rota.task t WHERE %s = ANY (t.apps) ORDER BY t.name

-- name: tasks_defined_elsewhere
-- By another application, which had it first.
SELECT t.name FROM rota.task t WHERE t.name = ANY (%s::text::text[]) AND NOT t.system AND t.apps[1] <> %s::text

-- name: tasks_get_for_change
SELECT rota.show_task(t)::text FROM rota.task t WHERE t.name = %s FOR NO KEY UPDATE

-- name: tasks_get_stored
-- As it is stored, to be written back.
SELECT rota.show_task(t, as_stored => true)::text FROM rota.task t WHERE t.name = %s FOR NO KEY UPDATE

-- name: tasks_create
INSERT INTO rota.task (name, queue, priority, max_attempts, timeout, retry, max_concurrency, rate, concurrency_key, key_concurrency,
                       key_rate, retention_days, retention_count,
                       payload_schema, schema_hash, default_payload, listens, description, tags, fields, strategy, system, run_once, enabled,
                       disabled_at, disabled_by, definition, definition_hash, apps)
SELECT d.name, d.queue, d.priority, d.max_attempts, make_interval(secs => d.timeout_s), d.retry, d.max_concurrency, d.rate,
       d.concurrency_key, d.key_concurrency, d.key_rate, d.retention_days, d.retention_count, d.payload_schema, d.schema_hash, d.default_payload, d.listens, d.description, d.tags, d.fields, d.strategy, d.system, d.run_once,
       d.enabled, CASE WHEN NOT d.enabled THEN rota.now() END, CASE WHEN NOT d.enabled THEN 'code' END, d.definition,
       d.definition_hash, d.apps
FROM json_to_record(%s::text::json)
     AS d (name text, queue text, priority smallint, max_attempts integer, timeout_s float8, retry json, max_concurrency integer,
           rate text, concurrency_key text, key_concurrency integer, key_rate text, retention_days integer, retention_count integer, payload_schema json, schema_hash text, default_payload json, listens text[],
           description text, tags text[], fields json, strategy text, system boolean, run_once boolean, enabled boolean, definition json,
           definition_hash text, apps text[])
ON CONFLICT (name) DO NOTHING
RETURNING name

-- name: tasks_update
UPDATE rota.task t
SET queue = d.queue, priority = d.priority, max_attempts = d.max_attempts, timeout = make_interval(secs => d.timeout_s),
    retry = d.retry, max_concurrency = d.max_concurrency, rate = d.rate, concurrency_key = d.concurrency_key,
    key_concurrency = d.key_concurrency, key_rate = d.key_rate, retention_days = d.retention_days, retention_count = d.retention_count,
    payload_schema = d.payload_schema, schema_hash = d.schema_hash, default_payload = d.default_payload, listens = d.listens, description = d.description,
    tags = d.tags, fields = d.fields, strategy = d.strategy, system = d.system, run_once = d.run_once, enabled = d.enabled,
    disabled_at = CASE WHEN NOT d.enabled THEN coalesce(t.disabled_at, rota.now()) END,
    disabled_by = CASE WHEN NOT d.enabled THEN coalesce(t.disabled_by, 'code') END,
    disable_reason = CASE WHEN NOT d.enabled THEN t.disable_reason END,
    overrides = d.overrides, definition = d.definition, definition_hash = d.definition_hash, apps = d.apps,
    deleted_from_code_at = NULL, synced_at = rota.now()
FROM json_to_record(%s::text::json)
     AS d (name text, queue text, priority smallint, max_attempts integer, timeout_s float8, retry json, max_concurrency integer,
           rate text, concurrency_key text, key_concurrency integer, key_rate text, retention_days integer, retention_count integer, payload_schema json, schema_hash text, default_payload json, listens text[],
           description text, tags text[], fields json, strategy text, system boolean, run_once boolean, enabled boolean, overrides json,
           definition json, definition_hash text, apps text[])
WHERE t.name = d.name

-- name: tasks_override
-- What an operator has changed, and what holds because of it.
UPDATE rota.task t
SET max_attempts = d.max_attempts, timeout = make_interval(secs => d.timeout_s), retry = d.retry, max_concurrency = d.max_concurrency,
    rate = d.rate, concurrency_key = d.concurrency_key, key_concurrency = d.key_concurrency, key_rate = d.key_rate,
    retention_days = d.retention_days, retention_count = d.retention_count, default_payload = d.default_payload, overrides = d.overrides
FROM json_to_record(%s::text::json)
     AS d (name text, max_attempts integer, timeout_s float8, retry json, max_concurrency integer, rate text, concurrency_key text,
           key_concurrency integer, key_rate text, retention_days integer, retention_count integer, default_payload json,
           overrides json)
WHERE t.name = d.name

-- name: tasks_leave
-- An application does not have these in its code any more; what none has is gone from code.
UPDATE rota.task
SET apps = array_remove(apps, %s::text), synced_at = rota.now(),
    deleted_from_code_at = CASE WHEN cardinality(array_remove(apps, %s::text)) = 0 THEN coalesce(deleted_from_code_at, rota.now()) END
WHERE name = ANY (%s::text::text[])
RETURNING name, deleted_from_code_at IS NOT NULL

-- name: tasks_admit
-- A changed limit holds at once.
SELECT rota.admit_jobs(%s::text::text[])

-- name: tasks_sync_queues
INSERT INTO rota.queue (name) SELECT unnest(%s::text::text[]) ORDER BY 1 ON CONFLICT (name) DO NOTHING

-- name: tasks_limit_queues
-- Where it is so already, nothing is written or locked. In one order, so that two who start do not deadlock.
WITH said AS MATERIALIZED (
    SELECT d.key AS name, %s::text AS app, nullif(d.value::text, 'null')::json AS limits, q.overrides
    FROM json_each(%s::text::json) d JOIN rota.queue q ON q.name = d.key ORDER BY d.key
)
SELECT rota.set_queue_limits(s.name, s.limits, s.overrides, s.app) FROM said s

-- name: tasks_queues_of_others
-- Queues whose limits another application has set.
SELECT q.name, q.app, q.definition FROM rota.queue q
WHERE q.name = ANY (%s::text::text[]) AND q.definition IS NOT NULL AND q.app <> %s::text ORDER BY q.name

-- name: tasks_set_enabled
SELECT rota.set_task(%s, %s::text::boolean, %s, %s)

-- name: tasks_overridden
-- What a worker has to know besides its code; as a rule nothing.
SELECT name, overrides FROM rota.task WHERE overrides IS NOT NULL

-- name: tasks_set_aside
SELECT rota.set_aside(%(queue)s, %(known)s::text[])

-- name: tasks_take_back
SELECT rota.take_back(%(queues)s::text[], %(known)s::text[], %(schemas)s::text[], %(free)s)

-- name: tasks_overdue
SELECT queue, task, refused_by, until FROM rota.overdue_unknown(%(app)s, make_interval(secs => %(patience_s)s))

-- name: tasks_names
-- Of the users' own.
SELECT name FROM rota.task WHERE NOT system AND deleted_from_code_at IS NULL ORDER BY name

-- name: tasks_fail_unknown
SELECT rota.fail_unknown(%(queue)s, %(task)s, %(refused_by)s, %(until)s, %(error)s::json)
