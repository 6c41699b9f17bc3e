-- name: jobs_change_wait_briefly
-- Less than the second after which PostgreSQL looks for a deadlock and ends whoever looked.
SET LOCAL lock_timeout = '500ms'

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
    parents => %(parents)s::uuid[], on_parent_failure => %(on_parent_failure)s, triggered_by => %(triggered_by)s)

-- name: jobs_change_is_new
-- Whether the job came into being in this transaction, whose time is the same throughout.
SELECT created_at = rota.now() FROM rota.job WHERE id = %(id)s
