-- Jobs come as one JSON array, whatever their number: a single text parameter, which all drivers send alike.

-- name: jobs_insert_plain
-- A job that is due now and has nothing of its own, as most are: less work for the server than the statement for many. What is
-- returned is rota.wake(), written out: a call costs as much again as the question.
INSERT INTO rota.job (id, payload, task, queue, priority, max_attempts)
VALUES (%s::text::uuid, %s::text::json, %s::text, %s::text, %s::integer, %s::integer)
RETURNING CASE WHEN EXISTS (SELECT FROM rota.worker w WHERE w.wants_wake) THEN pg_notify('rota_wake', '') END

-- name: jobs_insert
-- Jobs without key and parents, which nothing can keep from being stored; the rules are those of rota.insert_job.
WITH made AS (
    INSERT INTO rota.job (id, payload, task, queue, priority, run_at, state, max_attempts, timeout, retry, owner, triggered_by,
                          limited)
    SELECT id, payload, task, queue, priority, due,
           CASE WHEN due > rota.now() THEN 'delayed' WHEN limited THEN 'held' ELSE 'queued' END,
           max_attempts, timeout, retry, owner, triggered_by, coalesce(limited, false)
    FROM (
        SELECT *, coalesce(run_at, rota.now() + coalesce(delay, interval '0')) AS due
        FROM json_to_recordset(%s::text::json) AS j (
            id uuid, payload json, task text, queue text, priority integer, run_at timestamptz, delay interval,
            max_attempts integer, timeout interval, retry json, owner text, triggered_by json, limited boolean)
    ) AS j
    RETURNING id
)
SELECT rota.wake() FROM made LIMIT 1

-- name: jobs_insert_bound
-- Jobs with a key or with parents, one after the other, so that a parent is there when its child comes.
SELECT made.job_id::text, made.outcome
FROM json_to_recordset(%s::text::json) AS j (
         id uuid, payload json, task text, queue text, priority integer, run_at timestamptz, delay interval,
         max_attempts integer, timeout interval, retry json, key text, key_ttl interval, owner text, triggered_by json,
         parents uuid[], on_parent_failure text, limited boolean, digests text[])
     CROSS JOIN LATERAL rota.insert_job(
         j.id, j.task, j.payload, j.queue, j.priority, j.run_at, j.delay, j.max_attempts, j.timeout, j.retry, j.key,
         j.key_ttl, j.owner, j.triggered_by, j.parents, j.on_parent_failure,
         new_limited => coalesce(j.limited, false), new_digests => j.digests) AS made

-- name: jobs_any_stored
SELECT EXISTS (SELECT FROM rota.jobs WHERE id = ANY (%s::text::uuid[]))

-- name: jobs_now
-- The clock that decides what is due, in microseconds; it stands still throughout a transaction.
SELECT (extract(epoch FROM rota.now()) * 1000000)::bigint

-- name: jobs_wake
SELECT rota.wake()
