-- name: stats_add
INSERT INTO rota.task_stat (task, at, completed, failed, canceled, snoozed, released, lost,
                            duration_buckets, duration_counts, wait_buckets, wait_counts)
SELECT task, rota.now(), completed, failed, canceled, snoozed, released, lost,
       duration_buckets, duration_counts, wait_buckets, wait_counts
FROM json_to_recordset(%(rows)s::json)
    AS r (task text, completed bigint, failed bigint, canceled bigint, snoozed bigint, released bigint, lost bigint,
          duration_buckets smallint[], duration_counts bigint[], wait_buckets smallint[], wait_counts bigint[])

-- name: stats_merge
-- Nobody else has the rows meanwhile: what another merge has locked is its own.
WITH gone AS (
    DELETE FROM rota.task_stat
    WHERE id = ANY (ARRAY(
        SELECT s.id FROM rota.task_stat s
        WHERE s.grain = %(grain)s AND s.at < date_trunc(%(into)s, rota.now() - %(older_than)s::interval, 'UTC')
        ORDER BY s.at LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
    RETURNING *, date_trunc(%(into)s, at, 'UTC') AS began
), counted AS (
    SELECT task, began, sum(completed) AS completed, sum(failed) AS failed, sum(canceled) AS canceled, sum(snoozed) AS snoozed,
           sum(released) AS released, sum(lost) AS lost
    FROM gone GROUP BY task, began
), timed AS (
    -- The histograms added up, bucket by bucket.
    SELECT task, began, what, array_agg(bucket ORDER BY bucket) AS buckets, array_agg(n ORDER BY bucket) AS counts
    FROM (
        SELECT g.task, g.began, h.what, h.bucket, sum(h.n)::bigint AS n
        FROM gone g CROSS JOIN LATERAL (
            SELECT 'duration' AS what, d.bucket, d.n FROM unnest(g.duration_buckets, g.duration_counts) AS d (bucket, n)
            UNION ALL
            SELECT 'wait', w.bucket, w.n FROM unnest(g.wait_buckets, g.wait_counts) AS w (bucket, n)
        ) h
        GROUP BY g.task, g.began, h.what, h.bucket
    ) added
    GROUP BY task, began, what
), merged AS (
    INSERT INTO rota.task_stat (task, grain, at, completed, failed, canceled, snoozed, released, lost,
                                duration_buckets, duration_counts, wait_buckets, wait_counts)
    SELECT c.task, %(into)s, c.began, c.completed, c.failed, c.canceled, c.snoozed, c.released, c.lost,
           coalesce(d.buckets, '{}'), coalesce(d.counts, '{}'), coalesce(w.buckets, '{}'), coalesce(w.counts, '{}')
    FROM counted c
    LEFT JOIN timed d ON d.task = c.task AND d.began = c.began AND d.what = 'duration'
    LEFT JOIN timed w ON w.task = c.task AND w.began = c.began AND w.what = 'wait'
)
SELECT count(*) FROM gone

-- name: stats_forget
DELETE FROM rota.task_stat
WHERE id = ANY (ARRAY(
    SELECT s.id FROM rota.task_stat s WHERE s.grain = 'hour' AND s.at < rota.now() - %(older_than)s::interval
    ORDER BY s.at LIMIT %(limit)s FOR UPDATE SKIP LOCKED))

-- name: stats_sums
-- An hour counts when most of it lies within the time that is asked for.
WITH chosen AS MATERIALIZED (
    SELECT * FROM rota.task_stat
    WHERE {chosen} AND at >= rota.now() - %(since)s::interval - interval '30 minutes'
      AND (grain = 'hour' OR at >= rota.now() - %(since)s::interval)
), durations AS (
    SELECT task, json_object_agg(bucket, n) AS histogram
    FROM (SELECT c.task, h.bucket, sum(h.n)::bigint AS n
          FROM chosen c CROSS JOIN LATERAL unnest(c.duration_buckets, c.duration_counts) AS h (bucket, n)
          GROUP BY c.task, h.bucket) added
    GROUP BY task
), waits AS (
    SELECT task, json_object_agg(bucket, n) AS histogram
    FROM (SELECT c.task, h.bucket, sum(h.n)::bigint AS n
          FROM chosen c CROSS JOIN LATERAL unnest(c.wait_buckets, c.wait_counts) AS h (bucket, n)
          GROUP BY c.task, h.bucket) added
    GROUP BY task
)
SELECT c.task, sum(c.completed)::bigint AS completed, sum(c.failed)::bigint AS failed, sum(c.canceled)::bigint AS canceled,
       sum(c.snoozed)::bigint AS snoozed, sum(c.released)::bigint AS released, sum(c.lost)::bigint AS lost,
       (SELECT d.histogram FROM durations d WHERE d.task = c.task) AS durations,
       (SELECT w.histogram FROM waits w WHERE w.task = c.task) AS waits
FROM chosen c
GROUP BY c.task ORDER BY c.task LIMIT %(limit)s

-- name: stats_series
-- How many runs ended how, by slot of time. Hours that are wider than a slot are told by themselves, to be spread by who asks.
SELECT grain = 'hour' AND %(width)s < 3600 AS hourly,
       floor(extract(epoch FROM at) / CASE WHEN grain = 'hour' AND %(width)s < 3600 THEN 3600 ELSE %(width)s END)::bigint AS slot,
       sum(completed)::bigint AS completed, sum(failed + lost)::bigint AS failed, sum(canceled)::bigint AS canceled,
       count(*) AS looked
FROM ({rows}) r
GROUP BY 1, 2

-- name: stats_series_times
-- The histograms of the same, of the rows that stand for the most runs: what is left out are tasks that hardly ran.
WITH chosen AS MATERIALIZED (
    SELECT id FROM ({rows}) r WHERE completed + failed > 0 ORDER BY completed + failed DESC LIMIT %(most)s
), timed AS (
    SELECT s.grain = 'hour' AND %(width)s < 3600 AS hourly,
           floor(extract(epoch FROM s.at) / CASE WHEN s.grain = 'hour' AND %(width)s < 3600 THEN 3600 ELSE %(width)s END)::bigint AS slot,
           s.duration_buckets, s.duration_counts, s.wait_buckets, s.wait_counts
    FROM chosen c CROSS JOIN LATERAL (SELECT * FROM rota.task_stat t WHERE t.id = c.id OFFSET 0) s
)
SELECT hourly, slot, waited, array_agg(bucket) AS buckets, array_agg(n) AS counts
FROM (
    SELECT t.hourly, t.slot, h.waited, h.bucket, sum(h.n)::bigint AS n
    FROM timed t CROSS JOIN LATERAL (
        SELECT false AS waited, d.bucket, d.n FROM unnest(t.duration_buckets, t.duration_counts) AS d (bucket, n)
        UNION ALL
        SELECT true, w.bucket, w.n FROM unnest(t.wait_buckets, t.wait_counts) AS w (bucket, n)
    ) h
    GROUP BY t.hourly, t.slot, h.waited, h.bucket
) added
GROUP BY hourly, slot, waited

-- name: stats_series_rows
-- The newest rows of one grain, or of one task: in the order of an index, so that the walk can end.
(SELECT id, grain, at, completed, failed, canceled, lost FROM rota.task_stat
 WHERE {which} AND at >= %(since)s AND {match} ORDER BY at DESC LIMIT %(limit)s)
