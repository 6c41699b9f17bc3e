-- How many jobs there are by state. While a caller waits, counting ends one beyond a cap. One process at a time counts on in the
-- background and keeps the result in rota.job_count, but only for the states that have more than that.

-- name: job_counts_live
-- Live jobs by state of the table.
SELECT s.state, CASE s.state
    WHEN 'waiting' THEN (SELECT count(*) FROM (SELECT FROM rota.job WHERE state = 'waiting' AND {match} LIMIT %(cap)s + 1) w)
    WHEN 'queued' THEN (SELECT count(*) FROM (SELECT FROM rota.job WHERE state = 'queued' AND {match} LIMIT %(cap)s + 1) q)
    WHEN 'delayed' THEN (SELECT count(*) FROM (SELECT FROM rota.job WHERE state = 'delayed' AND {match} LIMIT %(cap)s + 1) d)
    WHEN 'held' THEN (SELECT count(*) FROM (SELECT FROM rota.job WHERE limited AND state = 'held' AND {match} LIMIT %(cap)s + 1) h)
    ELSE (SELECT count(*) FROM (SELECT FROM rota.job WHERE state = 'running' AND {match} LIMIT %(cap)s + 1) r)
    END
FROM (VALUES ('waiting'), ('queued'), ('delayed'), ('held'), ('running')) s (state)

-- name: job_counts_finished
-- Finished jobs by state: counted among the newest, of those that completed and of those that did not, which have an index of their
-- own; and whether there may be more.
WITH unfinished AS MATERIALIZED (
    SELECT outcome, task FROM rota.run WHERE final AND outcome <> 'completed' ORDER BY job_id DESC LIMIT %(walk)s
), newest AS MATERIALIZED (
    SELECT outcome, task FROM rota.run WHERE final ORDER BY job_id DESC LIMIT %(walk)s
)
SELECT o.outcome, c.n, (SELECT count(*) FROM unfinished) = %(walk)s
FROM (VALUES ('failed'), ('canceled')) o (outcome)
CROSS JOIN LATERAL (SELECT count(*) AS n FROM unfinished u WHERE u.outcome = o.outcome AND {match}) c
UNION ALL
SELECT 'completed', c.n, (SELECT count(*) FROM newest) = %(walk)s
FROM (SELECT count(*) AS n FROM newest WHERE outcome = 'completed' AND {match}) c

-- name: job_counts_kept
-- What the last count in the background has found, unless that is too long ago.
SELECT state, sum(jobs)::bigint FROM rota.job_count
WHERE counted_at > rota.now() - interval '15 minutes' AND {match}
GROUP BY state

-- name: job_counts_names
-- The same by task and queue, of some of the states.
SELECT task, queue, sum(jobs)::bigint FROM rota.job_count
WHERE counted_at > rota.now() - interval '15 minutes' AND state = ANY (%(states)s) AND {match}
GROUP BY task, queue

-- name: job_counts_plan
-- Not run, only planned: the planner's estimate follows the size of the table's partitions and its statistics.
EXPLAIN (FORMAT JSON) SELECT FROM rota.run WHERE final AND outcome = {outcome} AND {match}

-- name: job_counts_analyzed
-- Whether most of the history has statistics: without them the planner does not estimate, it guesses.
SELECT coalesce(2 * sum(p.size) FILTER (WHERE p.analyzed) > sum(p.size), false)
FROM (SELECT pg_relation_size(c.oid) AS size,
             EXISTS (SELECT FROM pg_stats s WHERE s.schemaname = 'rota' AND s.tablename = c.relname AND s.attname = 'outcome') AS analyzed
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'rota.run'::regclass) p

-- name: job_counts_system
SELECT name FROM rota.task WHERE system OR starts_with(name, %(prefix)s)

-- name: job_counts_take
SELECT coalesce(rota.take_lock('job_counts', %(owner)s, interval '10 minutes'), false)

-- name: job_counts_rest
-- Let nobody count again for so long.
UPDATE rota.lock SET lock_until = rota.now() + make_interval(secs => %(rest_s)s) WHERE key = 'job_counts' AND owner = %(owner)s

-- name: job_counts_keep
-- One pass through the table, about 0.25 s for a million jobs.
WITH counted AS (
    SELECT state, queue, task, count(*) AS jobs FROM rota.job WHERE state = ANY (%(states)s) GROUP BY state, queue, task
), forgotten AS (
    DELETE FROM rota.job_count c
    WHERE NOT EXISTS (SELECT FROM counted n WHERE (n.state, n.queue, n.task) = (c.state, c.queue, c.task))
)
INSERT INTO rota.job_count (state, queue, task, jobs) SELECT state, queue, task, jobs FROM counted
ON CONFLICT (state, queue, task) DO UPDATE SET jobs = excluded.jobs, counted_at = excluded.counted_at

-- name: job_counts_forget
DELETE FROM rota.job_count
