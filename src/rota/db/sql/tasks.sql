-- name: tasks_sync
-- What code says about its tasks, for those who cannot see the code. Rows that are right already are not written again.
INSERT INTO rota.task AS t (name, queue, priority, max_attempts, timeout, retry, payload_schema)
SELECT d.name, d.queue, d.priority, d.max_attempts, make_interval(secs => d.timeout_s), d.retry, d.payload_schema
FROM json_to_recordset(%(tasks)s::json)
     AS d (name text, queue text, priority smallint, max_attempts integer, timeout_s float8, retry json, payload_schema json)
ORDER BY d.name
ON CONFLICT (name) DO UPDATE
SET queue = excluded.queue, priority = excluded.priority, max_attempts = excluded.max_attempts, timeout = excluded.timeout,
    retry = excluded.retry, payload_schema = excluded.payload_schema, synced_at = rota.now()
WHERE (t.queue, t.priority, t.max_attempts, t.timeout, t.retry::text, t.payload_schema::text)
      IS DISTINCT FROM (excluded.queue, excluded.priority, excluded.max_attempts, excluded.timeout, excluded.retry::text,
                        excluded.payload_schema::text)

-- name: tasks_sync_queues
INSERT INTO rota.queue (name) SELECT unnest(%(queues)s::text[]) ORDER BY 1 ON CONFLICT (name) DO NOTHING
