-- name: calendar_jobs_declare
INSERT INTO rota.queue (name) VALUES (%(queue)s) ON CONFLICT (name) DO NOTHING

-- name: calendar_jobs_insert
-- Past rota.enqueue, which takes jobs of known tasks only: these wait for a worker that has the application. The rules of limits are
-- the same.
SELECT made.job_id
FROM json_to_recordset(%(jobs)s::json) AS j (id uuid, payload json, priority integer, run_at timestamptz, max_attempts integer, retry json)
     LEFT JOIN rota.task t ON t.name = %(task)s
     LEFT JOIN rota.queue q ON q.name = %(queue)s
     CROSS JOIN LATERAL rota.insert_job(
         j.id, %(task)s, j.payload, %(queue)s, j.priority, j.run_at, NULL, j.max_attempts, NULL, j.retry, NULL, NULL,
         %(owner)s, %(triggered_by)s::json, '{}', 'cancel',
         new_limited => coalesce(t.limited, false) OR coalesce(q.limited, false)) AS made
