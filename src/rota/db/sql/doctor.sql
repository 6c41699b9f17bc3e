-- name: doctor_server
SELECT pg_backend_pid(), current_setting('server_version'), pg_is_in_recovery(),
       pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'), pg_notification_queue_usage()

-- name: doctor_settings
SELECT name, setting FROM pg_settings WHERE name = ANY (%(names)s)

-- name: doctor_schema
SELECT to_regclass('rota.job') IS NOT NULL AND to_regclass('rota.run') IS NOT NULL AND to_regclass('rota.worker') IS NOT NULL

-- name: doctor_clock
SELECT clock_timestamp(), rota.now() - now()

-- name: doctor_snapshots
-- Everything that keeps vacuum from removing dead rows of this database, whoever holds it.
SELECT 'session' AS kind, a.pid::text AS name, a.usename::text AS owner, a.application_name AS application, a.state,
       now() - a.xact_start AS age, greatest(age(a.backend_xmin), age(a.backend_xid)) AS transactions, left(a.query, 500) AS query
FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_type = 'client backend'
  AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
UNION ALL
SELECT 'prepared', p.gid, p.owner::text, NULL, NULL, now() - p.prepared, age(p.transaction), NULL
FROM pg_prepared_xacts p
WHERE p.database = current_database()
UNION ALL
SELECT 'slot', s.slot_name::text, NULL, NULL, CASE WHEN s.active THEN 'active' ELSE 'inactive' END, NULL, age(s.xmin), NULL
FROM pg_replication_slots s
WHERE s.xmin IS NOT NULL
UNION ALL
SELECT 'standby', r.pid::text, r.usename::text, r.application_name, r.state, NULL, age(r.backend_xmin), NULL
FROM pg_stat_replication r
WHERE r.backend_xmin IS NOT NULL
ORDER BY 7 DESC NULLS LAST

-- name: doctor_locks
-- Transactions that hold a lock on one of our tables which keeps vacuum away from it.
SELECT c.relname::text AS name, l.mode, a.pid, a.usename::text AS owner, a.application_name AS application, a.state,
       now() - a.xact_start AS age, left(a.query, 500) AS query
FROM pg_locks l
JOIN pg_class c ON c.oid = l.relation AND c.relnamespace = 'rota'::regnamespace AND c.relkind = 'r'
JOIN pg_stat_activity a ON a.pid = l.pid AND a.backend_type = 'client backend'
WHERE l.granted AND l.pid <> pg_backend_pid()
  AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  AND l.mode IN ('ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
ORDER BY a.xact_start

-- name: doctor_tables
SELECT c.relname::text AS name, s.n_live_tup AS live, s.n_dead_tup AS dead,
       greatest(s.last_autovacuum, s.last_vacuum) AS vacuumed_at,
       pg_relation_size(c.oid) AS heap_bytes, pg_indexes_size(c.oid) AS index_bytes,
       coalesce('autovacuum_enabled=false' = ANY (c.reloptions) OR 'autovacuum_enabled=off' = ANY (c.reloptions), false)
           AS autovacuum_off
FROM pg_class c JOIN pg_stat_user_tables s ON s.relid = c.oid
WHERE c.relnamespace = 'rota'::regnamespace
ORDER BY c.relname

-- name: doctor_invalid_indexes
SELECT c.relname::text
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = 'rota'::regnamespace AND NOT (i.indisvalid AND i.indisready)
ORDER BY 1

-- name: doctor_partitions
-- Whether this week and the next have a partition of runs, and how many runs lie outside of all of them.
SELECT ARRAY(
           SELECT w.week::date::text
           FROM generate_series(0, 1) n,
                LATERAL (SELECT date_trunc('week', now() AT TIME ZONE 'UTC') + n * interval '168 hours' AS week) w
           WHERE to_regclass('rota.run_' || to_char(w.week, 'YYYYMMDD')) IS NULL),
       (SELECT count(*) FROM (SELECT FROM rota.run_default LIMIT %(cap)s + 1) d)

-- name: doctor_past_lease
-- Running jobs whose lease ran out so long ago that somebody ought to have rescued them.
SELECT id, task, worker_id, rota.now() - lease_until AS late
FROM rota.job
WHERE state = 'running' AND lease_until < rota.now() - %(grace)s::interval
ORDER BY lease_until LIMIT %(limit)s

-- name: doctor_unowned
-- Running jobs of workers that are not known (any more).
SELECT j.id, j.task, j.worker_id
FROM rota.job j
WHERE j.state = 'running' AND NOT EXISTS (SELECT FROM rota.worker w WHERE w.id = j.worker_id)
ORDER BY j.lease_until LIMIT %(limit)s

-- name: doctor_stranded
-- Waiting jobs with no live parent left to release them.
SELECT j.id, j.task
FROM (SELECT * FROM rota.job WHERE state = 'waiting' ORDER BY queue LIMIT %(walk)s) j
WHERE NOT EXISTS (SELECT FROM rota.job_edge e JOIN rota.job p ON p.id = e.parent_id WHERE e.child_id = j.id AND NOT e.settled)
LIMIT %(limit)s

-- name: doctor_due
-- Jobs that are due: ready, or delayed and not yet moved into line.
SELECT (SELECT count(*) FROM (SELECT FROM rota.job WHERE state = 'queued' LIMIT %(cap)s + 1) r)
     + (SELECT count(*) FROM (SELECT FROM rota.job WHERE state = 'delayed' AND run_at <= rota.now() LIMIT %(cap)s + 1) d)

-- name: doctor_secret_tasks
SELECT count(*) FROM rota.task WHERE strpos(payload_schema::text, 'x-rota-secret') > 0
