-- What handlers say while they run. Lines are only ever added, and leave with their whole day.

-- Where a search for text looks: the message, and the values of the fields without their names, which would be half of all words and
-- tell lines apart from no others. 'simple': what people look for in logs are names, numbers and codes, not inflected words.
CREATE FUNCTION rota.log_words(message text, fields json) RETURNS tsvector
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN fields IS NULL THEN to_tsvector('pg_catalog.simple', message)
                ELSE to_tsvector('pg_catalog.simple', message)
                  || json_to_tsvector('pg_catalog.simple', fields, '["string", "numeric", "boolean"]') END
$$;

CREATE TABLE rota.log (
    at       timestamptz NOT NULL,
    task     text        NOT NULL,
    job_id   uuid        NOT NULL,
    attempt  bigint      NOT NULL,
    sequence integer     NOT NULL,      -- of the line within its run, from 1
    level    smallint    NOT NULL,      -- 10 debug, 20 info, 30 warning, 40 error, 50 critical
    message  text        NOT NULL,
    fields   json
) PARTITION BY RANGE (at);

CREATE TABLE rota.log_default PARTITION OF rota.log DEFAULT;

CREATE INDEX log_run ON rota.log (job_id, attempt, sequence);
CREATE INDEX log_task ON rota.log (task, at);
CREATE INDEX log_at ON rota.log (at);
-- The few that somebody looks for among the many.
CREATE INDEX log_notable ON rota.log (at) WHERE level >= 30;
-- Words wait in a list and go to the index together, which makes a line half as expensive. Searches read the list, which is short: they
-- take some milliseconds longer.
CREATE INDEX log_text ON rota.log USING gin (rota.log_words(message, fields)) WITH (gin_pending_list_limit = 1024);

-- Makes the daily partitions from today to `ahead` days on, in UTC; see make_run_partitions, whose reasons hold here too.
CREATE FUNCTION rota.make_log_partitions(ahead integer DEFAULT 7) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
DECLARE
    day timestamptz;
    name text;
    made integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('rota.make_log_partitions'));
    FOR n IN 0..ahead LOOP
        day := date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + n * interval '24 hours';
        name := 'log_' || to_char(day AT TIME ZONE 'UTC', 'YYYYMMDD');
        CONTINUE WHEN to_regclass('rota.' || name) IS NOT NULL;
        EXECUTE format('CREATE TABLE rota.%I (LIKE rota.log INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)', name);
        EXECUTE format('WITH moved AS (DELETE FROM rota.log_default WHERE at >= %L AND at < %L RETURNING *) '
                       'INSERT INTO rota.%I SELECT * FROM moved', day, day + interval '24 hours', name);
        EXECUTE format('ALTER TABLE rota.log ATTACH PARTITION rota.%I FOR VALUES FROM (%L) TO (%L)',
                       name, day, day + interval '24 hours');
        made := made + 1;
    END LOOP;
    RETURN made;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;  -- there are days left to try again
END
$$;

SELECT rota.make_log_partitions();
