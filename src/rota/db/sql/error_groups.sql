-- Groups of failures. Nothing counts them as they happen: they are read from an index of the failures, which has them side by side.

-- name: error_groups_read
-- From each (fingerprint, task) to the next one without reading what is between them; of each the first and the last time, and how
-- often within the time that is asked for, as far as `cap`.
WITH RECURSIVE step AS (
    (SELECT r.fingerprint, r.task FROM rota.run r
     WHERE r.fingerprint IS NOT NULL AND {which} ORDER BY r.fingerprint, r.task LIMIT 1)
    UNION ALL
    SELECT n.fingerprint, n.task
    FROM step s CROSS JOIN LATERAL (
        SELECT r.fingerprint, r.task FROM rota.run r
        WHERE r.fingerprint IS NOT NULL AND (r.fingerprint, r.task) > (s.fingerprint, s.task) AND {which}
        ORDER BY r.fingerprint, r.task LIMIT 1) n
), seen AS MATERIALIZED (
    SELECT fingerprint, task FROM step WHERE {match} LIMIT %(limit)s
), dated AS MATERIALIZED (
    SELECT s.fingerprint, s.task,
           (SELECT r.finished_at FROM rota.run r WHERE r.fingerprint = s.fingerprint AND r.task = s.task
            ORDER BY r.finished_at LIMIT 1) AS first_seen,
           (SELECT r.finished_at FROM rota.run r WHERE r.fingerprint = s.fingerprint AND r.task = s.task
            ORDER BY r.finished_at DESC LIMIT 1) AS last_seen
    FROM seen s
)
SELECT d.fingerprint, d.task, d.first_seen, d.last_seen,
       (SELECT count(*) FROM (
            SELECT FROM rota.run r WHERE r.fingerprint = d.fingerprint AND r.task = d.task AND r.finished_at >= {since}
            LIMIT %(cap)s + 1) counted) AS count
FROM dated d
WHERE d.last_seen >= {since}
ORDER BY d.last_seen DESC, d.fingerprint, d.task

-- name: error_groups_latest
-- The last failures of each of these, each looked up by itself.
SELECT w.fingerprint, w.task, l.job_id, l.attempt, l.finished_at, l.error
FROM unnest(%(fingerprints)s::text[], %(tasks)s::text[]) AS w (fingerprint, task)
CROSS JOIN LATERAL (
    SELECT r.job_id, r.attempt, r.finished_at, r.error FROM rota.run r
    WHERE r.fingerprint = w.fingerprint AND r.task = w.task ORDER BY r.finished_at DESC LIMIT %(limit)s
) l
ORDER BY l.finished_at DESC

-- name: error_groups_beginning_with
-- Fingerprints that begin so: enough to know that there is one, or more than one.
WITH RECURSIVE step AS (
    (SELECT r.fingerprint FROM rota.run r WHERE r.fingerprint >= %(low)s AND r.fingerprint < %(high)s ORDER BY r.fingerprint LIMIT 1)
    UNION ALL
    SELECT n.fingerprint FROM step s CROSS JOIN LATERAL (
        SELECT r.fingerprint FROM rota.run r WHERE r.fingerprint > s.fingerprint AND r.fingerprint < %(high)s
        ORDER BY r.fingerprint LIMIT 1) n
)
SELECT fingerprint FROM step LIMIT 5
