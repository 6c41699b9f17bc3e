-- name: workers_register
INSERT INTO rota.worker (id, host, pid, version, app, queues, tasks, schemas, slots)
VALUES (%(id)s, %(host)s, %(pid)s, %(version)s, %(app)s, %(queues)s, %(tasks)s, %(schemas)s, %(slots)s)
ON CONFLICT (id) DO NOTHING

-- name: workers_beat
-- The session that beats is the sign of life: while it is there nobody takes the worker for dead.
-- Answers whether somebody had called it dead.
WITH relaxed AS (SELECT set_config('synchronous_commit', 'off', true)),  -- a sign of life need not survive a crash
     before AS (SELECT stopped_at FROM rota.worker WHERE id = %(id)s)
UPDATE rota.worker
SET seen_at = rota.now(), stopped_at = NULL, stop_reason = NULL,
    backend_pid = CASE WHEN %(pooled)s THEN NULL ELSE pg_backend_pid() END,
    backend_start = (SELECT a.backend_start FROM pg_stat_activity a WHERE a.pid = pg_backend_pid() AND NOT %(pooled)s)
FROM relaxed
WHERE id = %(id)s
RETURNING (SELECT before.stopped_at IS NOT NULL FROM before)

-- name: workers_want_wake
WITH relaxed AS (SELECT set_config('synchronous_commit', 'off', true))
UPDATE rota.worker SET wants_wake = %(wants_wake)s FROM relaxed WHERE id = %(id)s

-- name: workers_missing
-- Workers whose session is gone. A restart of the server ends all sessions, so for a while after it only those are called
-- missing that had come back since.
SELECT w.id, w.backend_pid || ' ' || w.backend_start FROM rota.worker w
WHERE w.stopped_at IS NULL AND w.backend_pid IS NOT NULL
  AND (w.backend_start > pg_postmaster_start_time()
       OR clock_timestamp() > pg_postmaster_start_time() + make_interval(secs => %(restart_grace_s)s))
  AND NOT EXISTS (SELECT FROM pg_stat_activity a
                  WHERE a.pid = w.backend_pid AND (a.backend_start IS NULL OR a.backend_start = w.backend_start))

-- name: workers_stop
UPDATE rota.worker SET stopped_at = rota.now(), stop_reason = %(reason)s, wants_wake = false
WHERE id = %(id)s AND stopped_at IS NULL

-- name: workers_stop_dead
WITH dead AS (
    UPDATE rota.worker SET stopped_at = rota.now(), stop_reason = 'died', wants_wake = false
    WHERE id = %(id)s AND stopped_at IS NULL
    RETURNING id, host, pid
), told AS (
    INSERT INTO rota.signal (kind, subject, details)
    SELECT 'worker_died', host, json_build_object('worker_id', id, 'pid', pid) FROM dead
)
SELECT 1 FROM dead

-- name: workers_stopped_holding
-- What a worker could not record before it ended, or claimed by a statement that outlived it, is nobody's any more. Those that
-- were taken for dead and are not have a moment to say so.
SELECT DISTINCT j.worker_id FROM rota.job j JOIN rota.worker w ON w.id = j.worker_id
WHERE j.state = 'running' AND w.stopped_at < rota.now() - interval '3 seconds'

-- name: workers_live_apps
SELECT DISTINCT app FROM rota.worker WHERE stopped_at IS NULL AND seen_at > rota.now() - interval '90 seconds'

-- name: workers_forget
DELETE FROM rota.worker WHERE stopped_at < rota.now() - interval '1 day'
