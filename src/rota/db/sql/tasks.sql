-- name: tasks_sync
-- What code says about its tasks, for those who cannot see the code. Rows that are right already are neither written again nor
-- locked: a worker must be able to start while somebody holds one. A changed limit holds at once.
WITH changed AS (
    INSERT INTO rota.task (name, queue, priority, max_attempts, timeout, retry, max_concurrency, payload_schema, listens)
    SELECT d.name, d.queue, d.priority, d.max_attempts, make_interval(secs => d.timeout_s), d.retry, d.max_concurrency,
           d.payload_schema, d.listens
    FROM json_to_recordset(%(tasks)s::json)
         AS d (name text, queue text, priority smallint, max_attempts integer, timeout_s float8, retry json, max_concurrency integer,
               payload_schema json, listens text[])
    WHERE NOT EXISTS (
        SELECT FROM rota.task t
        WHERE t.name = d.name
          AND (t.queue, t.priority, t.max_attempts, t.timeout, t.retry::text, t.max_concurrency, t.payload_schema::text, t.listens)
              IS NOT DISTINCT FROM (d.queue, d.priority, d.max_attempts, make_interval(secs => d.timeout_s), d.retry::text,
                                    d.max_concurrency, d.payload_schema::text, d.listens))
    ORDER BY d.name
    ON CONFLICT (name) DO UPDATE
    SET queue = excluded.queue, priority = excluded.priority, max_attempts = excluded.max_attempts, timeout = excluded.timeout,
        retry = excluded.retry, max_concurrency = excluded.max_concurrency, payload_schema = excluded.payload_schema,
        listens = excluded.listens, synced_at = rota.now()
    RETURNING name
)
SELECT rota.admit_jobs(array_agg(name)) FROM changed HAVING count(*) > 0

-- name: tasks_sync_queues
INSERT INTO rota.queue (name) SELECT unnest(%(queues)s::text[]) ORDER BY 1 ON CONFLICT (name) DO NOTHING
