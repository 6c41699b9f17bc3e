-- name: logs_write
-- Lines of runs that this worker holds or has ended. What a rescuer has taken from it says nothing any more: its run is recorded
-- as lost, or has failed in the words of the rescuer, or another claim has the job. A run of which no record is kept (a success of
-- a recurring row) leaves neither a record nor, with this token, a job. One look per run; lines find theirs by its place. Nobody waits
-- for the disk: a crash of the server may cost the lines of its last second.
WITH relaxed AS (SELECT set_config('synchronous_commit', 'off', true)),
held AS (
    SELECT array_agg(CASE WHEN d.token IS NOT NULL
                          THEN d.token = r.token AND d.worker_id = %(worker)s AND d.outcome <> 'lost'
                               AND (d.error ->> 'type' IS DISTINCT FROM 'WorkerCrashed' OR d.error ->> 'message' NOT LIKE 'its worker %%')
                          ELSE j.token IS NULL OR j.token = r.token END ORDER BY r.place) AS ours
    FROM json_to_recordset(%(runs)s::json) AS r (place integer, id uuid, attempt bigint, token bigint)
    LEFT JOIN LATERAL (SELECT token, worker_id, outcome, error FROM rota.run WHERE job_id = r.id AND attempt = r.attempt) d ON true
    LEFT JOIN LATERAL (SELECT token FROM rota.job WHERE id = r.id) j ON true
), written AS (
    INSERT INTO rota.log (at, task, job_id, attempt, sequence, level, message, fields)
    SELECT rota.now() - l.age * interval '1 microsecond', l.task, l.id, l.attempt, l.sequence, l.level, l.message, l.fields
    FROM held, json_to_recordset(%(lines)s::json) AS l
        (place integer, age bigint, task text, id uuid, attempt bigint, sequence integer, level smallint, message text, fields json)
    WHERE held.ours[l.place]
      -- Only where the answer to an earlier try was lost.
      AND (NOT %(again)s OR NOT EXISTS (
          SELECT FROM rota.log o WHERE o.job_id = l.id AND o.attempt = l.attempt AND o.sequence = l.sequence))
)
SELECT ours FROM held, relaxed

-- name: logs_show_progress
-- On the job while it runs, on its record when it has ended. Answers which runs were found, in either place.
WITH given AS (
    SELECT * FROM json_to_recordset(%(runs)s::json) AS r (id uuid, attempt bigint, token bigint, progress json)
), live AS (
    UPDATE rota.job j SET progress = g.progress FROM given g
    WHERE j.id = g.id AND j.token = g.token AND j.worker_id = %(worker)s
    RETURNING j.id
), ended AS (
    UPDATE rota.run d SET progress = g.progress FROM given g
    WHERE d.job_id = g.id AND d.attempt = g.attempt AND d.token = g.token AND d.worker_id = %(worker)s AND d.outcome <> 'lost'
    RETURNING d.job_id
)
SELECT id::text FROM live UNION ALL SELECT job_id::text FROM ended

-- name: logs_make_partitions
SELECT rota.make_log_partitions()
