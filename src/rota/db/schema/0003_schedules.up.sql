-- Schedules: when jobs are enqueued by themselves, and what became of each instant.

-- One row says when a task runs: by a cron expression, at an interval, once ever (init), or when its last run said (recurring:
-- one row per task and key, a million of them).
CREATE TABLE rota.schedule (
    id                   uuid        PRIMARY KEY DEFAULT rota.uuid7(),
    name                 text,                                      -- recurring rows have a key instead
    task                 text        NOT NULL,
    key                  text,
    payload              json        NOT NULL DEFAULT '{}',
    strategy             text        NOT NULL,
    cron                 text,
    every                interval,                                  -- of a recurring row: what its last run asked for
    tz                   text        NOT NULL DEFAULT 'UTC',
    enabled              boolean     NOT NULL DEFAULT true,
    always               boolean     NOT NULL DEFAULT false,        -- a recurring row that cannot be disabled
    next_run_at          timestamptz,                               -- NULL: to be computed, or its job is live, or there is none
    last_run_at          timestamptz,
    job_id               uuid,                                      -- the live job of a recurring or init row
    queue                text,                                      -- this and the next two: NULL is the task's own
    priority             smallint,
    max_attempts         integer,
    misfire              text        NOT NULL DEFAULT 'latest',     -- what to do about instants that were missed
    catch_up             integer     NOT NULL DEFAULT 100,          -- of them, at most so many with misfire 'all'
    overlap              text        NOT NULL DEFAULT 'allow',      -- when the job before is not done yet
    jitter               interval    NOT NULL DEFAULT '0',
    starts_at            timestamptz,
    ends_at              timestamptz,
    start_within         interval,                                  -- deadlines, from the instant on
    finish_within        interval,
    retry                json,                                      -- recurring: how failures back off; NULL is the task's policy
    keep_successes       boolean     NOT NULL DEFAULT true,         -- in the history; failures always are
    successes            bigint      NOT NULL DEFAULT 0,
    failures             bigint      NOT NULL DEFAULT 0,
    consecutive_failures integer     NOT NULL DEFAULT 0,
    failing_since        timestamptz,                               -- its backoff has reached the cap: somebody should look
    failing_told         boolean     NOT NULL DEFAULT false,        -- the alert about it was raised
    last_error           json,
    definition           json,                                      -- what code says about it; NULL: not from code
    created_at           timestamptz NOT NULL DEFAULT rota.now(),
    updated_at           timestamptz NOT NULL DEFAULT rota.now(),

    CONSTRAINT schedule_strategy CHECK (strategy IN ('cron', 'interval', 'init', 'recurring')),
    CONSTRAINT schedule_identity CHECK ((strategy = 'recurring') = (key IS NOT NULL) AND (name IS NULL) = (key IS NOT NULL)),
    CONSTRAINT schedule_name CHECK (octet_length(name) BETWEEN 1 AND 200 AND name !~ '[[:cntrl:]/]'),
    CONSTRAINT schedule_key CHECK (octet_length(key) BETWEEN 1 AND 512),
    CONSTRAINT schedule_cron CHECK ((strategy = 'cron') = (cron IS NOT NULL)
        AND (cron ~ '^(@[a-z]+|[0-9A-Za-z*/,#-]+( [0-9A-Za-z*/,#-]+){4})$' AND octet_length(cron) <= 500)),
    CONSTRAINT schedule_every CHECK ((strategy IN ('interval', 'recurring')) = (every IS NOT NULL)
        AND every BETWEEN interval '1 second' AND interval '3660 days'),
    CONSTRAINT schedule_payload CHECK (json_typeof(payload) = 'object'),
    CONSTRAINT schedule_max_attempts CHECK (max_attempts BETWEEN 1 AND 1000),
    CONSTRAINT schedule_misfire CHECK (misfire IN ('latest', 'skip', 'all') AND catch_up BETWEEN 1 AND 10000),
    CONSTRAINT schedule_overlap CHECK (overlap IN ('allow', 'skip', 'queue_one')),
    CONSTRAINT schedule_durations CHECK (jitter BETWEEN interval '0' AND interval '1 day'
        AND start_within > interval '0' AND finish_within > interval '0'),
    CONSTRAINT schedule_bounds CHECK (starts_at < ends_at),
    CONSTRAINT schedule_always CHECK (NOT always OR (enabled AND key IS NOT NULL)),
    CONSTRAINT schedule_live CHECK (job_id IS NULL OR next_run_at IS NULL)
) WITH (
    -- Every run of a recurring row writes it twice: vacuum it early and without pausing.
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);
CREATE UNIQUE INDEX schedule_by_name ON rota.schedule (name) WHERE name IS NOT NULL;
CREATE UNIQUE INDEX schedule_by_key ON rota.schedule (task, key) WHERE key IS NOT NULL;
-- What a scheduler looks at: the two kinds fire in different ways.
CREATE INDEX schedule_due ON rota.schedule (next_run_at) WHERE enabled AND key IS NULL;
CREATE INDEX schedule_recurring_due ON rota.schedule (task, next_run_at) WHERE enabled AND key IS NOT NULL AND next_run_at IS NOT NULL;
CREATE INDEX schedule_unplanned ON rota.schedule (id) WHERE enabled AND next_run_at IS NULL AND job_id IS NULL;
CREATE INDEX schedule_with_job ON rota.schedule (id) WHERE job_id IS NOT NULL;
CREATE INDEX schedule_failing ON rota.schedule (failing_since) WHERE failing_since IS NOT NULL;
CREATE INDEX schedule_failing_untold ON rota.schedule (id) WHERE failing_since IS NOT NULL AND NOT failing_told;

-- What became of each instant of a cron or interval schedule. The key is what makes an instant fire once, whatever the number
-- of schedulers and however the clock is set. Instants that were passed over in a row are one row, from `instant` to `until`.
CREATE TABLE rota.occurrence (
    schedule_id uuid        NOT NULL REFERENCES rota.schedule ON DELETE CASCADE,
    instant     timestamptz NOT NULL,
    until       timestamptz,
    instants    bigint,                                             -- from instant to until; NULL: not counted
    outcome     text        NOT NULL,
    reason      text,
    job_id      uuid,
    decided_at  timestamptz NOT NULL DEFAULT rota.now(),
    start_by    timestamptz,                                        -- NULL: none, or looked at already
    finish_by   timestamptz,
    missed      text[]      NOT NULL DEFAULT '{}',                  -- deadlines: start, finish
    PRIMARY KEY (schedule_id, instant),
    CONSTRAINT occurrence_outcome CHECK (outcome IN ('fired', 'skipped')),
    CONSTRAINT occurrence_fired CHECK ((outcome = 'fired') = (job_id IS NOT NULL)),
    CONSTRAINT occurrence_reason CHECK ((outcome = 'skipped') = (reason IS NOT NULL)
        AND reason IN ('disabled', 'not_in_code', 'overlap', 'misfire', 'outage')),
    CONSTRAINT occurrence_until CHECK (until > instant AND instants > 1)
);
CREATE INDEX occurrence_start_by ON rota.occurrence (start_by) WHERE start_by IS NOT NULL;
CREATE INDEX occurrence_finish_by ON rota.occurrence (finish_by) WHERE finish_by IS NOT NULL;
CREATE INDEX occurrence_decided_at ON rota.occurrence (decided_at);

-- A schedule as those see it who cannot see the table: durations in seconds, times in ISO form.
CREATE FUNCTION rota.show_schedule(s rota.schedule) RETURNS json
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN json_build_object(
        'id', s.id, 'name', s.name, 'task', s.task, 'key', s.key, 'payload', rota.shown(s.payload), 'strategy', s.strategy, 'cron', s.cron,
        'every', extract(epoch FROM s.every)::float8, 'tz', s.tz, 'enabled', s.enabled, 'next_run_at', s.next_run_at,
        'last_run_at', s.last_run_at, 'job_id', s.job_id, 'queue', s.queue, 'priority', s.priority, 'max_attempts', s.max_attempts,
        'misfire', s.misfire, 'catch_up', s.catch_up, 'overlap', s.overlap, 'jitter', extract(epoch FROM s.jitter)::float8,
        'starts_at', s.starts_at, 'ends_at', s.ends_at, 'start_within', extract(epoch FROM s.start_within)::float8,
        'finish_within', extract(epoch FROM s.finish_within)::float8, 'successes', s.successes, 'failures', s.failures,
        'consecutive_failures', s.consecutive_failures, 'failing_since', s.failing_since, 'last_error', s.last_error,
        'definition', s.definition, 'created_at', s.created_at, 'updated_at', s.updated_at);
END
$$;

-- A lock with an owner and an end, for those who want only one scheduler at a time to be at work.
CREATE TABLE rota.lock (
    key        text        PRIMARY KEY,
    owner      text        NOT NULL,
    lock_until timestamptz NOT NULL
);

-- Takes or keeps a lock; false when somebody else has it.
CREATE FUNCTION rota.take_lock(lock_key text, lock_owner text, hold interval) RETURNS boolean
LANGUAGE sql AS $$
    INSERT INTO rota.lock AS l (key, owner, lock_until) VALUES (lock_key, lock_owner, rota.now() + hold)
    ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, lock_until = excluded.lock_until
    -- Held for longer than anybody may: the clock was set back.
    WHERE l.owner = excluded.owner OR l.lock_until < rota.now() OR l.lock_until > excluded.lock_until
    RETURNING true
$$;


-- How long a recurring row rests after so many failures in a row by a retry policy, and whether that is as long as it may.
CREATE FUNCTION rota.backoff(policy json, failures integer, OUT rest interval, OUT at_cap boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    seconds double precision := (policy ->> 'base')::float8 * 2.0 ^ least(failures - 1, 60);
    cap double precision := (policy ->> 'cap')::float8;
BEGIN
    at_cap := seconds >= cap;
    rest := make_interval(secs => least(seconds, cap) + random() * (policy ->> 'jitter')::float8);
END
$$;

-- Whether a job that has been begun must not be begun again: somebody wants it to stop, or has disabled its row.
CREATE FUNCTION rota.is_unwanted(j rota.job) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    is_enabled boolean;
BEGIN
    IF j.cancel_requested_at IS NOT NULL OR j.schedule_id IS NULL THEN RETURN j.cancel_requested_at IS NOT NULL; END IF;
    SELECT enabled INTO is_enabled FROM rota.schedule WHERE id = j.schedule_id AND job_id = j.id FOR NO KEY UPDATE;
    RETURN NOT coalesce(is_enabled, true);
END
$$;

-- Writes completed jobs to the schedules that wait for them: when a recurring row runs next, that an init task is done. The jobs
-- come in the order of their ids; `delays` or `next_ats` are what the handlers asked for, and with neither a row keeps its interval.
-- Gives the jobs whose run is only counted and does not belong in the history, in their order.
CREATE FUNCTION rota.settle_completed(schedules uuid[], jobs uuid[], delays interval[], next_ats timestamptz[]) RETURNS uuid[]
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE rota.schedule s
    SET job_id = NULL, successes = successes + 1, consecutive_failures = 0, failing_since = NULL, failing_told = false,
        last_error = NULL, updated_at = rota.now(),
        -- A second at least: a handler that asks for the past must not run without end.
        every = CASE WHEN key IS NOT NULL THEN
            greatest(coalesce(delays[width_bucket(s.job_id, jobs)], every), interval '1 second') END,
        next_run_at = CASE WHEN key IS NOT NULL THEN
            greatest(coalesce(next_ats[width_bucket(s.job_id, jobs)], rota.now() + coalesce(delays[width_bucket(s.job_id, jobs)], every)),
                     rota.now() + interval '1 second') END
    WHERE s.id = ANY (schedules) AND s.job_id = jobs[width_bucket(s.job_id, jobs)];  -- by place, as in runs_complete
    -- Of all, also of schedules that wait for none of their jobs.
    RETURN ARRAY(SELECT d.job_id FROM unnest(schedules, jobs) AS d (schedule_id, job_id)
                 WHERE NOT (SELECT s.keep_successes FROM rota.schedule s WHERE s.id = d.schedule_id) ORDER BY 1);
END
$$;

-- Writes the end of a job to the schedule that waits for it. The job has ended for good; `delay` or `next_at` is what its handler
-- asked for. True when the run belongs in the history.
CREATE FUNCTION rota.settle_schedule(j rota.job, outcome text, error json, delay interval, next_at timestamptz) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    s rota.schedule;
    failed boolean := outcome = 'failed';
    pause record;
BEGIN
    IF outcome = 'completed' THEN
        RETURN j.id <> ALL (rota.settle_completed(ARRAY[j.schedule_id], ARRAY[j.id], ARRAY[delay], ARRAY[next_at]));
    END IF;
    SELECT * INTO s FROM rota.schedule WHERE id = j.schedule_id AND job_id = j.id FOR NO KEY UPDATE;
    IF s.id IS NULL THEN RETURN true; END IF;
    SELECT * INTO pause FROM rota.backoff(
        coalesce(s.retry, (SELECT t.retry FROM rota.task t WHERE t.name = s.task), '{"base": 60, "cap": 3600, "jitter": 5}'),
        s.consecutive_failures + 1);
    UPDATE rota.schedule
    SET job_id = NULL, failures = failures + failed::integer, consecutive_failures = consecutive_failures + failed::integer,
        failing_since = CASE WHEN failed AND pause.at_cap THEN coalesce(failing_since, rota.now()) ELSE failing_since END,
        last_error = CASE WHEN failed THEN error ELSE last_error END, updated_at = rota.now(),
        next_run_at = CASE WHEN key IS NOT NULL THEN
            rota.now() + greatest(CASE WHEN failed THEN coalesce(delay, pause.rest) WHEN enabled THEN every ELSE delay END,
                                  interval '1 second') END
    WHERE id = s.id;
    RETURN true;
END
$$;

-- Makes a job that is retried the live one of its recurring or init row again: there is never more than one. False when the row
-- has another, or is disabled.
CREATE FUNCTION rota.rejoin_schedule(of_schedule uuid, job uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE rota.schedule SET job_id = job, next_run_at = NULL, updated_at = rota.now()
    WHERE id = of_schedule AND strategy IN ('recurring', 'init') AND enabled AND job_id IS NULL;
    RETURN FOUND OR NOT EXISTS (SELECT FROM rota.schedule WHERE id = of_schedule AND strategy IN ('recurring', 'init'));
END
$$;

-- Makes sure that there are recurring rows of a task, and that they are enabled; new ones run first at `first_run_at`. Of each, its
-- key and payload are given, as [["key", {…}], …]. In the order of keys, so that two who make the same rows do not deadlock.
CREATE FUNCTION rota.ensure_recurring_rows(
    new_task text, new_rows json, new_every interval DEFAULT '1 hour', first_run_at timestamptz DEFAULT NULL,
    new_retry json DEFAULT NULL, new_keep_successes boolean DEFAULT false, new_always boolean DEFAULT false
) RETURNS TABLE (schedule_id uuid, key text, created boolean, next_run_at timestamptz)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    INSERT INTO rota.schedule AS s (task, key, payload, strategy, every, next_run_at, retry, keep_successes, always)
    SELECT new_task, r.key, r.payload, 'recurring', new_every, coalesce(first_run_at, rota.now()), new_retry, new_keep_successes,
           new_always
    FROM (SELECT DISTINCT ON (1) e.value ->> 0 AS key, e.value -> 1 AS payload
          FROM json_array_elements(new_rows) WITH ORDINALITY AS e (value, position) ORDER BY 1, e.position DESC) r
    ON CONFLICT (task, key) WHERE key IS NOT NULL DO UPDATE
    SET payload = excluded.payload, retry = excluded.retry, keep_successes = excluded.keep_successes, always = excluded.always, enabled = true,
        -- It runs when it would have run, or at once if that time has passed.
        next_run_at = CASE WHEN s.job_id IS NULL THEN coalesce(s.next_run_at, rota.now()) END, updated_at = rota.now()
    RETURNING s.id, s.key, s.xmax = 0, s.next_run_at;
END
$$;

-- The same for one row: SELECT * FROM rota.ensure_recurring('fetch_feed', 'feed:7', '{"feed_id": 7}').
CREATE FUNCTION rota.ensure_recurring(
    new_task text, new_key text, new_payload json DEFAULT '{}', new_every interval DEFAULT '1 hour',
    first_run_at timestamptz DEFAULT NULL, new_retry json DEFAULT NULL, new_keep_successes boolean DEFAULT false,
    OUT schedule_id uuid, OUT created boolean, OUT next_run_at timestamptz
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT r.schedule_id, r.created, r.next_run_at INTO schedule_id, created, next_run_at
    FROM rota.ensure_recurring_rows(
        new_task, json_build_array(json_build_array(new_key, new_payload)), new_every, first_run_at, new_retry, new_keep_successes) r;
END
$$;

-- Locks a recurring row for the rest of the transaction, so that what decides over it can be looked at without a race. NULL: there
-- is none.
CREATE FUNCTION rota.lock_recurring(of_task text, of_key text) RETURNS uuid
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT id FROM (SELECT id FROM rota.schedule WHERE task = of_task AND key = of_key FOR UPDATE) s);
END
$$;

-- Has a worker give away the places of a job that is gone, where rota.vacate would lock the task's row: the transaction of whoever
-- cancels may be a long one.
CREATE FUNCTION rota.vacate_later(j rota.job) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF j.line IS NULL OR starts_with(j.line, 'k') THEN RETURN; END IF;
    IF j.limit_key IS NOT NULL THEN PERFORM rota.look_at_lines(ARRAY['k ' || j.task || ' ' || j.limit_key], rota.now()); END IF;
    PERFORM rota.wake();
END
$$;

-- Takes back the job of a recurring row unless it has begun; when it was due, NULL if it stays. It is locked after its row, the
-- other way round than by those who end it, so it is not waited for long: who has it locked is about to begin or to end it.
CREATE FUNCTION rota.withdraw_job(target uuid) RETURNS timestamptz
LANGUAGE plpgsql SET lock_timeout = '100ms' AS $$
DECLARE
    j rota.job;
BEGIN
    DELETE FROM rota.job WHERE id = target AND state <> 'running' RETURNING * INTO j;
    IF j.fanout THEN PERFORM rota.release_children(ARRAY[j.id], 'canceled'); END IF;
    IF j.limited THEN PERFORM rota.vacate_later(j); END IF;
    RETURN j.run_at;
EXCEPTION WHEN lock_not_available THEN
    RETURN NULL;
END
$$;

-- Enables or disables a recurring row; a run that has begun ends normally, one that only waits in the queue does not begin. What
-- it was is kept: enabled again, the row runs when it would have, or at once. Returns the new next_run_at as a row, none if unknown.
-- A row that is always on stays enabled, which the answer says.
CREATE FUNCTION rota.set_recurring(of_task text, of_key text, want boolean)
RETURNS TABLE (schedule_id uuid, enabled boolean, next_run_at timestamptz)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    s rota.schedule;
    waits_since timestamptz;
BEGIN
    SELECT * INTO s FROM rota.schedule t WHERE t.task = of_task AND t.key = of_key FOR UPDATE;
    IF s.id IS NULL THEN RETURN; END IF;
    want := want OR s.always;
    IF NOT want AND s.job_id IS NOT NULL THEN
        waits_since := rota.withdraw_job(s.job_id);
        IF waits_since IS NOT NULL THEN s.job_id := NULL; END IF;
    END IF;
    RETURN QUERY UPDATE rota.schedule t
        SET enabled = want, job_id = s.job_id, updated_at = rota.now(),
            next_run_at = CASE WHEN s.job_id IS NULL THEN coalesce(waits_since, t.next_run_at, rota.now()) END
        WHERE t.id = s.id
        RETURNING t.id, t.enabled, t.next_run_at;
END
$$;

-- The recurring rows of a task, for an application to join to tables of its own instead of copying them: whether a row is enabled,
-- and when it runs next; while its job waits or runs, when that was due. PostgreSQL inlines it into the caller's query, and views
-- that use it do not depend on these tables.
CREATE FUNCTION rota.recurring(of_task text) RETURNS TABLE (key text, enabled boolean, next_run_at timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT s.key, s.enabled, coalesce(s.next_run_at, j.run_at)
    FROM rota.schedule s LEFT JOIN rota.job j ON j.id = s.job_id
    WHERE s.task = of_task AND s.key IS NOT NULL
$$;
