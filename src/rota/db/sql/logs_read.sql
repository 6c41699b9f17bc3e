-- name: logs_read_scan
-- Walks a bounded number of lines, the newest first: how many it saw, where it got to, and those that match.
WITH scanned AS MATERIALIZED (
    SELECT at, task, job_id, attempt, sequence, level, message, fields FROM rota.log
    WHERE at <= %(before_at)s
      AND (at, job_id, attempt, sequence) < (%(before_at)s, %(before_job_id)s, %(before_attempt)s, %(before_sequence)s) AND {scan}
    ORDER BY at DESC, job_id DESC, attempt DESC, sequence DESC LIMIT %(window)s
), found AS (
    SELECT * FROM scanned WHERE {match} ORDER BY at DESC, job_id DESC, attempt DESC, sequence DESC LIMIT %(limit)s
)
SELECT NULL::bigint AS scanned, at, task, job_id, attempt, sequence, level, message, fields FROM found
UNION ALL
(SELECT (SELECT count(*) FROM scanned), at, task, job_id, attempt, sequence, level, NULL, NULL
 FROM scanned ORDER BY at, job_id, attempt, sequence LIMIT 1)

-- name: logs_read_find
-- By the words in them. Whoever asks for this has found few of them among the newest lines: most are not looked at.
SELECT at, task, job_id, attempt, sequence, level, message, fields FROM rota.log
WHERE at <= %(before_at)s
      AND (at, job_id, attempt, sequence) < (%(before_at)s, %(before_job_id)s, %(before_attempt)s, %(before_sequence)s)
  AND {match} AND {scan}
ORDER BY at DESC, job_id DESC, attempt DESC, sequence DESC LIMIT %(limit)s

-- name: logs_read_prefer_words
-- For the rest of the transaction plans go by the index of words, which only bitmap scans can use.
SELECT set_config('enable_bitmapscan', 'on', true), set_config('enable_indexscan', 'off', true),
       set_config('enable_seqscan', 'off', true)

-- name: logs_read_run
-- The lines of a job, or of one of its attempts, in their order, after a place among them.
SELECT at, task, job_id, attempt, sequence, level, message, fields FROM rota.log
WHERE job_id = %(job_id)s AND (attempt, sequence) > (%(after_attempt)s, %(after_sequence)s) AND {scan} AND {match}
ORDER BY attempt, sequence LIMIT %(limit)s

-- name: logs_read_run_last
-- The last of them, the newest first.
SELECT at, task, job_id, attempt, sequence, level, message, fields FROM rota.log
WHERE job_id = %(job_id)s AND (attempt, sequence) < (%(before_attempt)s, %(before_sequence)s) AND {scan} AND {match}
ORDER BY attempt DESC, sequence DESC LIMIT %(limit)s

-- name: logs_read_days
-- By what their partitions are called.
SELECT ARRAY(
    SELECT substr(c.relname, 5) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'rota.log'::regclass AND c.relname ~ '^log_[0-9]+$' ORDER BY 1 DESC)

-- name: logs_read_now
SELECT rota.now()
