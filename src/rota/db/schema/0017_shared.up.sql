-- What several of Rota's statements ask in the same way.

-- When the oldest ready job of a queue was due; NULL if none is ready. The index has the oldest job of each priority first: from
-- priority to priority, of which the first hundred are looked at.
CREATE FUNCTION rota.oldest_ready(of_queue text) RETURNS timestamptz
LANGUAGE sql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
    WITH RECURSIVE hop AS (
        (SELECT j.priority, j.run_at FROM rota.job j
         WHERE j.state = 'queued' AND j.queue = of_queue ORDER BY j.priority, j.run_at LIMIT 1)
        UNION ALL
        SELECT n.priority, n.run_at FROM hop CROSS JOIN LATERAL (
            SELECT j.priority, j.run_at FROM rota.job j
            WHERE j.state = 'queued' AND j.queue = of_queue AND j.priority > hop.priority ORDER BY j.priority, j.run_at LIMIT 1) n
    )
    SELECT min(run_at) FROM (SELECT run_at FROM hop LIMIT 100) heads
$$;

-- How long the oldest ready job of a queue has been due; NULL if none is ready. Never negative: a job that another session enqueued
-- after this transaction began is due later than its rota.now().
CREATE FUNCTION rota.oldest_wait(of_queue text) RETURNS interval
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN o.run_at IS NOT NULL THEN greatest(rota.now() - o.run_at, interval '0') END
    FROM (SELECT rota.oldest_ready(of_queue) AS run_at OFFSET 0) o
$$;
