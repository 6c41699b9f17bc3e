-- name: workers_read_all
-- Every worker that is remembered, with what it holds. A worker is dead when its session is gone and it has not been heard of
-- for a while; silent when it ought to have been heard of but still has its session, or has none because of a pooler.
WITH held AS (
    SELECT worker_id, id, task, claimed_at, lease_until,
           row_number() OVER (PARTITION BY worker_id ORDER BY claimed_at, id) AS n,
           count(*) OVER (PARTITION BY worker_id) AS holds
    FROM (SELECT * FROM rota.job WHERE state = 'running' ORDER BY lease_until LIMIT 100000) running
), shown AS (
    SELECT worker_id, max(holds) AS holds,
           json_agg(json_build_object('id', id, 'task', task, 'claimed_at', claimed_at, 'lease_until', lease_until) ORDER BY n)
               FILTER (WHERE n <= %(jobs)s) AS jobs
    FROM held GROUP BY worker_id
)
SELECT w.id, w.host, w.pid, w.version, w.app, w.queues, w.tasks, w.slots, w.started_at, w.seen_at, w.stopped_at, w.stop_reason,
       rota.now() - w.seen_at AS seen_ago, coalesce(s.holds, 0) AS holds, coalesce(s.jobs, '[]') AS jobs,
       CASE
           WHEN w.stopped_at IS NOT NULL THEN CASE WHEN w.stop_reason = 'died' THEN 'dead' ELSE 'stopped' END
           WHEN w.backend_pid IS NOT NULL AND a.pid IS NULL AND w.seen_at < rota.now() - interval '10 seconds' THEN 'dead'
           WHEN w.seen_at < rota.now() - interval '90 seconds' THEN 'silent'
           ELSE 'live'
       END AS state
FROM rota.worker w
LEFT JOIN shown s ON s.worker_id = w.id
LEFT JOIN pg_stat_activity a
    ON a.pid = w.backend_pid AND (a.backend_start IS NULL OR a.backend_start = w.backend_start)
WHERE (w.stopped_at IS NULL OR w.stopped_at > rota.now() - interval '1 day') AND (%(id)s::uuid IS NULL OR w.id = %(id)s)
ORDER BY w.stopped_at IS NOT NULL, w.started_at DESC, w.id
LIMIT %(limit)s
