-- name: retention_rules
-- Tasks that say otherwise of their own history.
SELECT name, retention_days, retention_count FROM rota.task WHERE num_nonnulls(retention_days, retention_count) > 0

-- name: retention_lock
SELECT coalesce(rota.take_lock('retention', %(owner)s, make_interval(secs => %(hold_s)s)), false)

-- name: retention_unlock
DELETE FROM rota.lock WHERE key = 'retention' AND owner = %(owner)s

-- name: retention_run_tasks
SELECT t FROM rota.run_tasks() AS t

-- name: retention_log_tasks
SELECT t FROM rota.log_tasks() AS t

-- name: retention_prune_runs
SELECT reached, pruned FROM rota.prune_runs(
    %(task)s, %(after)s, rota.now() - make_interval(days => %(days)s), NULL, %(with_logs)s, %(batch)s)

-- name: retention_surplus
-- The newest job of a task that is one too many.
SELECT job_id FROM rota.run WHERE task >= %(task)s AND task <= %(task)s AND final
ORDER BY task DESC, job_id DESC OFFSET %(count)s LIMIT 1

-- name: retention_prune_surplus
SELECT reached, pruned FROM rota.prune_runs(%(task)s, %(after)s, rota.now(), %(upto)s, true, %(batch)s)

-- name: retention_partitions
SELECT name, low, high, attached FROM rota.old_partitions(%(table)s, rota.now() - make_interval(days => %(days)s))

-- name: retention_look_through
-- Whether any of a week's next runs ended later than that week's time to go, and where to go on.
SELECT coalesce(bool_or(finished_at >= rota.now() - make_interval(days => %(days)s)), false), count(*),
       (array_agg(job_id ORDER BY job_id DESC, attempt DESC))[1], (array_agg(attempt ORDER BY job_id DESC, attempt DESC))[1]
FROM (SELECT job_id, attempt, finished_at FROM rota.run
      WHERE (job_id, attempt) > (%(job)s, %(attempt)s) AND job_id < rota.uuid7_floor(%(high)s)
      ORDER BY job_id, attempt LIMIT %(batch)s) w

-- name: retention_detach
SELECT rota.detach_run_partition(%(name)s, %(low)s, %(high)s)

-- name: retention_drop_logs
SELECT rota.drop_log_partition(%(name)s, %(high)s)

-- name: retention_prune_lines
SELECT rota.prune_log_lines(%(task)s, rota.now() - make_interval(days => %(days)s), %(batch)s)

-- name: retention_prune_orphans
SELECT reached, pruned FROM rota.prune_orphaned_logs(%(after)s, %(batch)s)

-- name: retention_prune_edges
-- Edges of parents from before all history.
DELETE FROM rota.job_edge WHERE (parent_id, child_id) IN (
    SELECT e.parent_id, e.child_id FROM rota.job_edge e
    WHERE e.parent_id < coalesce((SELECT job_id FROM rota.run ORDER BY job_id LIMIT 1),
                                 rota.uuid7_floor(rota.now() - make_interval(days => %(days)s)))
      AND NOT EXISTS (SELECT FROM rota.job j WHERE j.id = e.parent_id OFFSET 0)
      AND NOT EXISTS (SELECT FROM rota.job j WHERE j.id = e.child_id OFFSET 0)
    ORDER BY e.parent_id LIMIT %(batch)s FOR UPDATE SKIP LOCKED)

-- name: retention_partitions_ahead
SELECT rota.make_run_partitions() + rota.make_log_partitions()
