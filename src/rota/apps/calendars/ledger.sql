-- name: pairs_get
SELECT id, first_connector, first_shown, first_sealed, first_cursor, second_connector, second_shown, second_sealed, second_cursor,
       direction, every, past, future, created_at
FROM rota_calendars.pair WHERE id = %(pair)s

-- name: pairs_list
SELECT id, first_connector, first_shown, first_sealed, first_cursor, second_connector, second_shown, second_sealed, second_cursor,
       direction, every, past, future, created_at
FROM rota_calendars.pair ORDER BY id

-- name: pairs_add
INSERT INTO rota_calendars.pair (id, first_connector, first_shown, first_sealed, second_connector, second_shown, second_sealed,
                                 direction, every, past, future)
VALUES (%(id)s, %(first_connector)s, %(first_shown)s, %(first_sealed)s, %(second_connector)s, %(second_shown)s, %(second_sealed)s,
        %(direction)s, %(every)s, %(past)s, %(future)s)
ON CONFLICT (id) DO NOTHING

-- name: pairs_remove
DELETE FROM rota_calendars.pair WHERE id = %(pair)s

-- name: pairs_seal_first
UPDATE rota_calendars.pair SET first_sealed = %(sealed)s WHERE id = %(pair)s

-- name: pairs_seal_second
UPDATE rota_calendars.pair SET second_sealed = %(sealed)s WHERE id = %(pair)s

-- name: cursor_first
UPDATE rota_calendars.pair SET first_cursor = %(cursor)s WHERE id = %(pair)s

-- name: cursor_second
UPDATE rota_calendars.pair SET second_cursor = %(cursor)s WHERE id = %(pair)s

-- name: resources_known
SELECT href, etag FROM rota_calendars.resource WHERE pair_id = %(pair)s AND side = %(side)s

-- name: resources_put
-- A text that cannot be read keeps the UID that it had: its event is left alone, and not taken for deleted.
INSERT INTO rota_calendars.resource (pair_id, side, href, etag, uid, digest, core, stamped_at, sequence, starts_at, ends_at, problem)
SELECT %(pair)s, %(side)s, r.href, r.etag, r.uid, r.digest, r.core, r.stamped_at, r.sequence, r.starts_at, r.ends_at, r.problem
FROM jsonb_to_recordset(%(rows)s) AS r (href text, etag text, uid text, digest text, core text, stamped_at timestamptz,
                                         sequence integer, starts_at timestamptz, ends_at timestamptz, problem text)
ON CONFLICT (pair_id, side, href) DO UPDATE
SET etag = excluded.etag, uid = CASE WHEN excluded.problem IS NULL THEN excluded.uid ELSE coalesce(excluded.uid, resource.uid) END,
    digest = excluded.digest, core = excluded.core, stamped_at = excluded.stamped_at, sequence = excluded.sequence,
    starts_at = excluded.starts_at, ends_at = excluded.ends_at, problem = excluded.problem

-- name: resources_trouble
-- What could not even be listed: what is known of it stays, and so does the etag by which a change is noticed.
INSERT INTO rota_calendars.resource (pair_id, side, href, etag, problem)
SELECT %(pair)s, %(side)s, r.href, '', r.problem FROM jsonb_to_recordset(%(rows)s) AS r (href text, problem text)
ON CONFLICT (pair_id, side, href) DO UPDATE SET etag = '', problem = excluded.problem

-- name: resources_drop
DELETE FROM rota_calendars.resource WHERE pair_id = %(pair)s AND side = %(side)s AND href = ANY (%(hrefs)s)

-- name: resources_recovered
-- Troubles of earlier looks that are over: resources that were none.
DELETE FROM rota_calendars.resource
WHERE pair_id = %(pair)s AND side = %(side)s AND problem IS NOT NULL AND uid IS NULL AND etag = '' AND href <> ALL (%(hrefs)s)

-- name: problems
SELECT side, href, problem FROM rota_calendars.resource WHERE pair_id = %(pair)s AND problem IS NOT NULL ORDER BY side, href

-- name: dirty
-- The events whose sides are not as they were when they were alike, or that we were about to do something about. New ones only where
-- they touch the window; known ones always, or a deletion could not be told from an event that has left the window.
WITH seen AS (
    SELECT uid,
           min(digest) FILTER (WHERE side = 'first') AS first, min(digest) FILTER (WHERE side = 'second') AS second,
           bool_or(problem IS NOT NULL) AS troubled,
           bool_or(starts_at < %(window_end)s AND ends_at > %(window_start)s) AS within
    FROM (SELECT DISTINCT ON (uid, side) uid, side, digest, problem, starts_at, ends_at FROM rota_calendars.resource
          WHERE pair_id = %(pair)s AND uid IS NOT NULL ORDER BY uid, side, href) r
    GROUP BY uid
), base AS (
    SELECT uid, base_first, base_second, intents <> '[]' AS intended FROM rota_calendars.event WHERE pair_id = %(pair)s
)
SELECT uid FROM seen FULL JOIN base USING (uid)
WHERE (first IS DISTINCT FROM base_first OR second IS DISTINCT FROM base_second OR intended)
  AND NOT coalesce(troubled, false)
  AND (within OR base_first IS NOT NULL OR intended)
  AND NOT (base_first IS NULL AND NOT coalesce(intended, false)
           AND ((%(direction)s = 'to_second' AND first IS NULL) OR (%(direction)s = 'to_first' AND second IS NULL)))
  AND uid <> ALL (%(left)s)
ORDER BY uid

-- name: states
SELECT u.uid, e.base_first, e.base_second, coalesce(e.intents, '[]'),
       a.href, a.etag, a.digest, a.core, a.stamped_at, a.sequence, a.starts_at, a.ends_at,
       b.href, b.etag, b.digest, b.core, b.stamped_at, b.sequence, b.starts_at, b.ends_at
FROM unnest(%(uids)s::text[]) AS u (uid)
LEFT JOIN rota_calendars.event e ON e.pair_id = %(pair)s AND e.uid = u.uid
LEFT JOIN LATERAL (SELECT * FROM rota_calendars.resource r WHERE r.pair_id = %(pair)s AND r.uid = u.uid AND r.side = 'first'
                   ORDER BY r.href LIMIT 1) a ON true
LEFT JOIN LATERAL (SELECT * FROM rota_calendars.resource r WHERE r.pair_id = %(pair)s AND r.uid = u.uid AND r.side = 'second'
                   ORDER BY r.href LIMIT 1) b ON true

-- name: intend
-- The last few only: an intent is of use until its event is in order, and that is one or two attempts.
INSERT INTO rota_calendars.event AS e (pair_id, uid, intents)
SELECT %(pair)s, i.uid, jsonb_build_array(i.intent) FROM jsonb_to_recordset(%(rows)s) AS i (uid text, intent jsonb)
ON CONFLICT (pair_id, uid) DO UPDATE
SET intents = (CASE WHEN jsonb_array_length(e.intents) >= 16 THEN e.intents - 0 ELSE e.intents END) || excluded.intents

-- name: settle
INSERT INTO rota_calendars.event (pair_id, uid, base_first, base_second)
SELECT %(pair)s, s.uid, s.base_first, s.base_second
FROM jsonb_to_recordset(%(rows)s) AS s (uid text, base_first text, base_second text)
ON CONFLICT (pair_id, uid) DO UPDATE SET base_first = excluded.base_first, base_second = excluded.base_second, intents = '[]'

-- name: forget
-- Not where a calendar has the same UID twice, and one is left.
DELETE FROM rota_calendars.event e WHERE pair_id = %(pair)s AND uid = ANY (%(uids)s)
AND NOT (e.base_first IS NOT NULL
         AND EXISTS (SELECT FROM rota_calendars.resource r WHERE r.pair_id = e.pair_id AND r.uid = e.uid))

-- name: conflicts_add
INSERT INTO rota_calendars.conflict (pair_id, uid, kind, winner, digest, text, job_id)
SELECT %(pair)s, c.uid, c.kind, c.winner, c.digest, c.text, %(job)s
FROM jsonb_to_recordset(%(rows)s) AS c (uid text, kind text, winner text, digest text, text text)
ON CONFLICT (pair_id, uid, kind, digest, job_id) DO NOTHING

-- name: conflicts_list
SELECT id, uid, kind, winner, job_id, at, text IS NOT NULL AS kept FROM rota_calendars.conflict
WHERE pair_id = %(pair)s ORDER BY at DESC, id DESC LIMIT %(limit)s

-- name: conflicts_get
SELECT id, uid, kind, winner, job_id, at, text FROM rota_calendars.conflict WHERE pair_id = %(pair)s AND id = %(conflict)s

-- name: summary_begin
-- An attempt that is still said to run, of this job or of another one of the pair, is not: there is one at a time.
WITH lost AS (
    UPDATE rota_calendars.summary SET outcome = 'lost', finished_at = rota.now(), error = 'its worker died, or was too slow to say how it ended'
    WHERE outcome = 'running' AND pair_id = %(pair)s AND (job_id, attempt) <> (%(job)s, %(attempt)s)
)
INSERT INTO rota_calendars.summary (job_id, attempt, pair_id, connector, window_start, window_end)
VALUES (%(job)s, %(attempt)s, %(pair)s, %(connector)s, %(window_start)s, %(window_end)s)
ON CONFLICT (job_id, attempt) DO NOTHING

-- name: summary_end
UPDATE rota_calendars.summary
SET outcome = %(outcome)s, finished_at = rota.now(), processed = %(processed)s, failed = %(failed)s, error = %(error)s,
    details = %(details)s
WHERE job_id = %(job)s AND attempt = %(attempt)s AND outcome = 'running'

-- name: summary_snoozes
SELECT count(*) FROM rota_calendars.summary WHERE job_id = %(job)s AND outcome = 'snoozed'

-- name: summaries
SELECT job_id, attempt, connector, window_start, window_end, started_at, finished_at, outcome, processed, failed, error, details
FROM rota_calendars.summary WHERE pair_id = %(pair)s ORDER BY started_at DESC, attempt DESC LIMIT %(limit)s

-- name: prune
WITH old_conflicts AS (
    DELETE FROM rota_calendars.conflict WHERE pair_id = %(pair)s AND at < rota.now() - %(kept)s::interval
)
DELETE FROM rota_calendars.summary WHERE pair_id = %(pair)s AND started_at < rota.now() - %(kept)s::interval AND outcome <> 'running'

-- name: counts
SELECT count(*) FILTER (WHERE base_first IS NOT NULL),
       (SELECT count(*) FROM rota_calendars.resource WHERE pair_id = %(pair)s AND side = 'first' AND digest IS NOT NULL),
       (SELECT count(*) FROM rota_calendars.resource WHERE pair_id = %(pair)s AND side = 'second' AND digest IS NOT NULL)
FROM rota_calendars.event WHERE pair_id = %(pair)s

-- name: jobs
-- The jobs of a pair, live and finished, by the indexes on their payload.
SELECT j.id, j.state, j.priority, j.attempt, j.max_attempts, j.run_at, j.payload ->> 'connector' AS connector,
       (j.payload ->> 'window_start')::timestamptz AS window_start, (j.payload ->> 'window_end')::timestamptz AS window_end,
       j.last_error ->> 'message' AS last_error, j.created_at, j.finished_at
FROM (SELECT id FROM rota.job WHERE task = 'sync_pair' AND payload ->> 'calendar_pair_id' = %(pair)s
      UNION ALL
      SELECT job_id FROM rota.run WHERE task = 'sync_pair' AND final AND payload ->> 'calendar_pair_id' = %(pair)s) f
CROSS JOIN LATERAL (SELECT * FROM rota.jobs WHERE id = f.id OFFSET 0) j
ORDER BY j.id DESC LIMIT %(limit)s

-- name: waiting
SELECT id FROM rota.job WHERE task = 'sync_pair' AND payload ->> 'calendar_pair_id' = %(pair)s AND state <> 'running' LIMIT 1
