-- The queue engine: live jobs, finished runs, keys, edges, queues, tasks and workers.

-- The one clock that decides due times, leases and limits. Tests replace it to move time (rota.contrib.pytest_plugin).
CREATE FUNCTION rota.now() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT now()';

-- The smallest UUIDv7 of an instant: what runs are partitioned by.
CREATE FUNCTION rota.uuid7_floor(at timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT (substr(h, 1, 8) || '-' || substr(h, 9, 4) || '-7000-8000-000000000000')::uuid
    FROM lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0') AS h
$$;

CREATE FUNCTION rota.uuid7() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT (substr(t, 1, 8) || '-' || substr(t, 9, 4) || '-7' || substr(r, 16, 3) || substr(r, 19))::uuid
    FROM lpad(to_hex(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') AS t,
         CAST(gen_random_uuid() AS text) AS r
$$;


-- The rules of rota.job's single columns are domains, those that tie columns together its CHECKs: PostgreSQL reads and plans each
-- CHECK anew for every statement that writes to the table, and the longer it is the longer that takes; a domain's once per session.
CREATE DOMAIN rota.job_state AS text CONSTRAINT job_state CHECK (VALUE IN ('waiting', 'delayed', 'held', 'queued', 'running'));
CREATE DOMAIN rota.job_run_at AS timestamptz
    CONSTRAINT job_run_at CHECK (VALUE BETWEEN '1970-01-01' AND '9999-12-31');  -- what every client can read
CREATE DOMAIN rota.job_payload AS json CONSTRAINT job_payload CHECK (json_typeof(VALUE) = 'object')
    CONSTRAINT job_payload_sealed CHECK (strpos(VALUE::text, '"rota-draft-') = 0);  -- a secret that was not encrypted (model/secret.py)
CREATE DOMAIN rota.job_forgiven AS bigint CONSTRAINT job_forgiven CHECK (VALUE >= 0);
CREATE DOMAIN rota.job_max_attempts AS integer CONSTRAINT job_max_attempts CHECK (VALUE BETWEEN 1 AND 1000);
CREATE DOMAIN rota.job_crashes AS smallint CONSTRAINT job_crashes CHECK (VALUE >= 0);
CREATE DOMAIN rota.job_timeout AS interval CONSTRAINT job_timeout CHECK (VALUE > interval '0');
CREATE DOMAIN rota.job_pending_parents AS integer CONSTRAINT job_pending_parents CHECK (VALUE >= 0);
CREATE DOMAIN rota.job_on_parent_failure AS text CONSTRAINT job_on_parent_failure CHECK (VALUE IN ('cancel', 'fail', 'ignore'));

-- Live work only: what finishes leaves this table for rota.run, so it stays small and hot.
CREATE TABLE rota.job (
    id                  uuid        PRIMARY KEY,
    task                text        NOT NULL,
    queue               text        NOT NULL DEFAULT 'default',
    priority            smallint    NOT NULL DEFAULT 0,         -- smaller runs first
    state               rota.job_state NOT NULL DEFAULT 'queued',  -- 'delayed' is a queued job that is not due yet, 'held' one that
                                                                -- is due and waits for a limit, for its task to be enabled, or for
                                                                -- a worker that knows its task
    payload             rota.job_payload NOT NULL DEFAULT '{}',  -- json, not jsonb: comes back exactly as it went in
    run_at              rota.job_run_at NOT NULL DEFAULT rota.now(),
    attempt             bigint      NOT NULL DEFAULT 0,         -- number of the current or last run
    forgiven            rota.job_forgiven NOT NULL DEFAULT 0,   -- runs that do not count against max_attempts
    token               bigint      NOT NULL DEFAULT 0,         -- of the current claim; never repeats for a job
    max_attempts        rota.job_max_attempts NOT NULL DEFAULT 4,
    crashes             rota.job_crashes NOT NULL DEFAULT 0,    -- its workers that died: while > 0 it runs in quarantine
    culprit             boolean     NOT NULL DEFAULT false,     -- it died alone: the crashes are its own
    worker_id           uuid,
    claimed_at          timestamptz,
    lease_until         timestamptz,
    timeout             rota.job_timeout,                       -- of its own, else the task's
    retry               json,                                   -- a policy of its own, else the task's
    key                 text,
    owner               text,
    schedule_id         uuid,
    scheduled_for       timestamptz,
    triggered_by        json,
    pending_parents     rota.job_pending_parents NOT NULL DEFAULT 0,
    fanout              boolean     NOT NULL DEFAULT false,     -- jobs wait for this one
    limited             boolean     NOT NULL DEFAULT false,     -- its task or queue has a limit, or its task is disabled: only
                                                                -- rota.admit_lines makes it ready; or its task is unknown
    limit_key           text,                                   -- what its task's concurrency_key says, once it has lined up
    line                text        COLLATE "C",                -- of a limited job: where it waits, or the queue in which it has a place
    on_parent_failure   rota.job_on_parent_failure NOT NULL DEFAULT 'cancel',
    cancel_requested_at timestamptz,
    last_error          json,
    progress            json,                                   -- of the current run, as far as its handler has told
    created_at          timestamptz NOT NULL DEFAULT rota.now(),
    updated_at          timestamptz NOT NULL DEFAULT rota.now(),

    CONSTRAINT job_held_is_limited CHECK (limited OR state <> 'held'),
    CONSTRAINT job_running_has_worker CHECK ((state = 'running') = (worker_id IS NOT NULL)),
    CONSTRAINT job_worker_has_lease CHECK (num_nulls(worker_id, lease_until) <> 1),
    CONSTRAINT job_worker_has_claimed CHECK (worker_id IS NULL OR (claimed_at IS NOT NULL AND attempt > 0)),
    CONSTRAINT job_waiting_has_parents CHECK ((state = 'waiting') = (pending_parents > 0)),
    CONSTRAINT job_attempt CHECK (forgiven <= attempt)
) WITH (
    -- The table turns over completely all the time: vacuum it early and without pausing.
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 5000
);

-- What a claim walks, in its order.
CREATE INDEX job_ready ON rota.job (queue, priority, run_at, id) WHERE state = 'queued';
-- Jobs that are not due stay out of job_ready, so that a million of them cost a claim nothing.
CREATE INDEX job_delayed ON rota.job (run_at) WHERE state = 'delayed';
CREATE INDEX job_running ON rota.job (lease_until) WHERE state = 'running';
CREATE INDEX job_waiting ON rota.job (queue) WHERE state = 'waiting';
-- Who waits in a line, in the order in which they get a place, and who has one in a queue; who has one of a task, or of a key of it.
-- No condition on the state: jobs that are not limited, which is nearly all of them, pay least for it.
CREATE INDEX job_line ON rota.job (state, line, priority, run_at, id) WHERE limited;
CREATE INDEX job_place ON rota.job (task, state, left(line, 1), limit_key) WHERE limited;
CREATE INDEX job_schedule ON rota.job (schedule_id) WHERE schedule_id IS NOT NULL;
CREATE INDEX job_cancel_requested ON rota.job (worker_id) WHERE cancel_requested_at IS NOT NULL;

CREATE FUNCTION rota.refuse_transition() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'job % cannot go from % to %', OLD.id, OLD.state, NEW.state USING ERRCODE = 'RT409';
END
$$;

-- Written as a list for the reason given above: this, too, is read anew for every statement that changes states.
CREATE TRIGGER job_transition BEFORE UPDATE OF state ON rota.job FOR EACH ROW
WHEN (OLD.state <> NEW.state AND OLD.state || ' ' || NEW.state <> ALL (
    '{waiting queued, waiting delayed, waiting held, delayed queued, delayed held, held queued, queued running, queued delayed,
      queued held, running queued, running delayed, running held}'::text[]))
EXECUTE FUNCTION rota.refuse_transition();


-- One row per finished attempt, append-only. The finished job is its last run (`final`); the open attempt is the job row itself.
CREATE TABLE rota.run (
    job_id            uuid        NOT NULL,
    attempt           bigint      NOT NULL,
    task              text        NOT NULL,
    queue             text        NOT NULL,
    outcome           text        NOT NULL,
    final             boolean     NOT NULL,
    started_at        timestamptz,                  -- NULL: ended without having run
    finished_at       timestamptz NOT NULL,
    worker_id         uuid,
    error             json,
    result            json,
    payload           json,                         -- kept with the final run only
    priority          smallint,
    run_at            timestamptz,
    token             bigint,
    max_attempts      integer,
    timeout           interval,
    retry             json,
    key               text,
    owner             text,
    schedule_id       uuid,
    scheduled_for     timestamptz,
    triggered_by      json,
    on_parent_failure text,
    created_at        timestamptz,
    progress          json,                         -- how far it had come
    fingerprint       text,                         -- of what went wrong: failed and lost runs have one

    CONSTRAINT run_outcome CHECK (outcome IN ('completed', 'failed', 'canceled', 'snoozed', 'released', 'lost')),
    CONSTRAINT run_final CHECK (NOT final OR (outcome IN ('completed', 'failed', 'canceled') AND payload IS NOT NULL)),
    PRIMARY KEY (job_id, attempt)
) PARTITION BY RANGE (job_id);

CREATE TABLE rota.run_default PARTITION OF rota.run DEFAULT;

-- The dead letters, newest first: of all tasks, and of one. Completions, which are nearly all runs, pay for neither.
CREATE INDEX run_failed ON rota.run (job_id) WHERE final AND outcome <> 'completed';
CREATE INDEX run_failed_task ON rota.run (task, job_id) WHERE final AND outcome <> 'completed';
CREATE INDEX run_key ON rota.run (key, job_id) WHERE final AND key IS NOT NULL;
-- Groups of failures: from one to the next and how often, and the jobs of one, newest first. Nothing else counts them, so that a
-- storm of failures has no row in common.
CREATE INDEX run_error_group ON rota.run (fingerprint, task, finished_at) WHERE fingerprint IS NOT NULL;
CREATE INDEX run_error_job ON rota.run (fingerprint, job_id, attempt) WHERE fingerprint IS NOT NULL;
CREATE INDEX run_error ON rota.run (job_id, attempt) WHERE fingerprint IS NOT NULL;
-- The runs of one task, however few of all they are. The one index beside the key that every completion pays for.
CREATE INDEX run_task ON rota.run (task, job_id, attempt);

-- Makes the weekly partitions from this week to `ahead` weeks on. Ids with a time outside them go to run_default. A transaction
-- that has read run_default makes this wait, and others wait behind it: hence the lock_timeout.
CREATE FUNCTION rota.make_run_partitions(ahead integer DEFAULT 4) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
DECLARE
    week timestamptz;
    name text;
    low uuid;
    high uuid;
    made integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('rota.make_run_partitions'));
    FOR n IN 0..ahead LOOP
        week := date_trunc('week', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + n * interval '168 hours';
        name := 'run_' || to_char(week AT TIME ZONE 'UTC', 'YYYYMMDD');
        CONTINUE WHEN to_regclass('rota.' || name) IS NOT NULL;
        low := rota.uuid7_floor(week);
        high := rota.uuid7_floor(week + interval '168 hours');
        -- Attached, not created as a partition: that would lock rota.run against every completion. Runs of this week that are
        -- in run_default already (a client's clock was ahead) would forbid it, so they move.
        EXECUTE format('CREATE TABLE rota.%I (LIKE rota.run INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)', name);
        EXECUTE format('WITH moved AS (DELETE FROM rota.run_default WHERE job_id >= %L AND job_id < %L RETURNING *) '
                       'INSERT INTO rota.%I SELECT * FROM moved', low, high, name);
        EXECUTE format('ALTER TABLE rota.run ATTACH PARTITION rota.%I FOR VALUES FROM (%L) TO (%L)', name, low, high);
        made := made + 1;
    END LOOP;
    RETURN made;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;  -- there are weeks left to try again
END
$$;


-- Idempotency: only jobs with a key pay for uniqueness.
CREATE TABLE rota.job_key (
    owner        text        NOT NULL DEFAULT '',
    task         text        NOT NULL,
    key          text        NOT NULL,
    job_id       uuid        NOT NULL,
    payload_hash text        NOT NULL,
    expires_at   timestamptz NOT NULL,      -- from then on free again, unless the job is still live
    PRIMARY KEY (key, task, owner),          -- the key first: people look for it without knowing the task
    CONSTRAINT job_key_length CHECK (octet_length(key) BETWEEN 1 AND 512)
);
CREATE INDEX job_key_expiry ON rota.job_key (expires_at);

CREATE TABLE rota.job_edge (
    parent_id uuid NOT NULL,
    child_id  uuid NOT NULL,
    settled   boolean NOT NULL DEFAULT false,  -- the child knows what became of the parent
    PRIMARY KEY (parent_id, child_id),
    CONSTRAINT job_edge_not_itself CHECK (parent_id <> child_id)
);
CREATE INDEX job_edge_child ON rota.job_edge (child_id);

CREATE TABLE rota.queue (
    name         text        PRIMARY KEY,
    paused_at    timestamptz,
    pause_reason text,
    max_concurrency integer,                            -- of its jobs that may run at once, over all workers
    rate         text,                                  -- how many of its jobs may start: '50/1s'
    definition   json,                                  -- what code says of these two, as of the last sync; NULL: nothing
    app          text,                                  -- the application whose code says it
    overrides    json,                                  -- what operators have said of them, which has the last word; NULL: nothing
    limited      boolean     NOT NULL GENERATED ALWAYS AS (max_concurrency IS NOT NULL OR rate IS NOT NULL) STORED,
    created_at   timestamptz NOT NULL DEFAULT rota.now(),
    CONSTRAINT queue_max_concurrency CHECK (max_concurrency BETWEEN 1 AND 100000),
    CONSTRAINT queue_rate CHECK (rate ~ '^[1-9][0-9]{0,6}/[0-9]{1,7}([.][0-9]{1,3})?s$'),
    CONSTRAINT queue_overrides CHECK (json_typeof(overrides) = 'object'),
    CONSTRAINT queue_name CHECK (name ~ '^[a-z0-9_][a-z0-9_.-]{0,62}$'),
    CONSTRAINT queue_pause_reason CHECK (pause_reason IS NULL OR paused_at IS NOT NULL)
);

-- Tasks as their code defines them, for those who cannot see the code, and as operators have set them: those have the last word.
-- The columns are what holds now; `definition` is what code said at the last sync, `overrides` what operators changed of it.
CREATE TABLE rota.task (
    name            text        PRIMARY KEY,
    queue           text        NOT NULL,
    priority        smallint    NOT NULL,
    max_attempts    integer     NOT NULL,
    timeout         interval,
    retry           json,
    max_concurrency integer,                        -- of its jobs that may run at once, over all workers
    rate            text,                           -- how many of its jobs may start: '100/60s'
    concurrency_key text,                           -- '{customer_id}': the next two are of each key
    key_concurrency integer,
    key_rate        text,
    retention_days  integer,                        -- this and the next: how much of its history is kept; NULL: as of all others
    retention_count integer,
    payload_schema  json        NOT NULL,
    schema_hash     text,                           -- of it, without its words
    default_payload json        NOT NULL DEFAULT '{}',  -- of its schedules, and of who triggers it by hand
    listens         text[]      NOT NULL DEFAULT '{}',  -- events that enqueue it
    description     text        NOT NULL DEFAULT '',
    tags            text[]      NOT NULL DEFAULT '{}',
    fields          json        NOT NULL DEFAULT '{}',  -- of the users' own: {"team": "billing"}
    strategy        text        NOT NULL DEFAULT 'on_demand',
    system          boolean     NOT NULL DEFAULT false,  -- one of Rota's own
    run_once        boolean     NOT NULL DEFAULT false,
    enabled         boolean     NOT NULL DEFAULT true,  -- the operators' alone after the first sync: disabled, its jobs wait
    disabled_at     timestamptz,
    disabled_by     text,
    disable_reason  text,
    schedule_deleted_at timestamptz,                    -- an operator has deleted the schedule that code gives it
    overrides       json,                               -- NULL: none
    definition      json,                               -- NULL: no code has been seen yet
    definition_hash text,
    apps            text[]      NOT NULL DEFAULT '{}',  -- applications that have it in their code; the first one defines it
    deleted_from_code_at timestamptz,                   -- since when none has it
    created_at      timestamptz NOT NULL DEFAULT rota.now(),
    synced_at       timestamptz NOT NULL DEFAULT rota.now(),
    limited         boolean     NOT NULL GENERATED ALWAYS AS (
        max_concurrency IS NOT NULL OR rate IS NOT NULL OR concurrency_key IS NOT NULL OR NOT enabled) STORED,
    CONSTRAINT task_max_concurrency CHECK (max_concurrency BETWEEN 1 AND 100000 AND key_concurrency BETWEEN 1 AND 100000),
    CONSTRAINT task_rate CHECK (rate ~ '^[1-9][0-9]{0,6}/[0-9]{1,7}([.][0-9]{1,3})?s$'
        AND key_rate ~ '^[1-9][0-9]{0,6}/[0-9]{1,7}([.][0-9]{1,3})?s$'),
    CONSTRAINT task_concurrency_key CHECK (octet_length(concurrency_key) BETWEEN 1 AND 200),
    CONSTRAINT task_retention CHECK (retention_days BETWEEN 1 AND 36500 AND retention_count BETWEEN 1 AND 100000000),
    CONSTRAINT task_strategy CHECK (strategy IN ('on_demand', 'cron', 'interval', 'init', 'event', 'recurring')),
    CONSTRAINT task_default_payload CHECK (json_typeof(default_payload) = 'object'),
    CONSTRAINT task_fields CHECK (json_typeof(fields) = 'object'),
    CONSTRAINT task_overrides CHECK (json_typeof(overrides) = 'object')
);
-- What claims, schedulers and workers look at each time: as a rule there is nothing in them.
CREATE INDEX task_disabled ON rota.task (name) WHERE NOT enabled;
CREATE INDEX task_resting ON rota.task (name) WHERE NOT enabled OR deleted_from_code_at IS NOT NULL;
CREATE INDEX task_overridden ON rota.task (name) WHERE overrides IS NOT NULL;

-- Which lines somebody should look at, and when: what was given up, what a cancel has made free, what a rate will let through. The
-- lines of tasks and queues, which are few, are looked at by every poll all the same; those of keys only if they are here.
CREATE TABLE rota.limit_look (
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    line    text        COLLATE "C" NOT NULL,
    look_at timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX limit_look_line ON rota.limit_look (line, look_at);
CREATE INDEX limit_look_at ON rota.limit_look (look_at);

-- Runs that have ended, by the gate and the time at which they began, for as long as that counts: what a rate is measured by, together
-- with the live jobs. Time alone removes them.
CREATE TABLE rota.limit_use (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    line       text        COLLATE "C" NOT NULL,
    at         timestamptz NOT NULL,
    uses       integer     NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX limit_use_line ON rota.limit_use (line, at);
CREATE INDEX limit_use_expiry ON rota.limit_use (expires_at);

-- A worker is one boot of one process: its id is never used again.
CREATE TABLE rota.worker (
    id            uuid        PRIMARY KEY,
    host          text        NOT NULL,
    pid           integer     NOT NULL,
    version       text        NOT NULL,
    app           text        NOT NULL DEFAULT 'default',  -- whose code it runs
    queues        text[]      NOT NULL,
    tasks         text[]      NOT NULL,
    schemas       text[]      NOT NULL DEFAULT '{}',  -- of their payloads, in the same order: hashes
    slots         integer     NOT NULL,
    wants_wake    boolean     NOT NULL DEFAULT false,  -- idle: an enqueue should NOTIFY
    backend_pid   integer,                             -- of its heartbeat's session; NULL behind a pooler
    backend_start timestamptz,
    started_at    timestamptz NOT NULL DEFAULT rota.now(),
    seen_at       timestamptz NOT NULL DEFAULT rota.now(),
    stopped_at    timestamptz,
    stop_reason   text
);
CREATE INDEX worker_live ON rota.worker (id) WHERE stopped_at IS NULL;
CREATE INDEX worker_idle ON rota.worker (id) WHERE wants_wake;


-- Return JSON without the secrets in it. Every payload that leaves the database to be read by people goes through this function:
-- ciphertext is shown to no caller. Only the statements named in model/vault.py read payloads as they are stored.
CREATE FUNCTION rota.shown(stored json) RETURNS json
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN strpos(stored::text, '"rota-') > 0
           THEN regexp_replace(stored::text, '"rota-(secret|open):[A-Za-z0-9:_=-]*"', '"[redacted]"', 'g')::json ELSE stored END
$$;

-- Live and finished jobs as one, in the public states and without secrets.
CREATE VIEW rota.jobs AS
SELECT id, task, queue, priority, CASE WHEN state IN ('delayed', 'held') THEN 'queued' ELSE state END AS state,
       rota.shown(payload) AS payload, run_at, lease_until, worker_id, attempt, max_attempts, last_error,
       claimed_at AS last_run_at, key, owner, schedule_id, scheduled_for, triggered_by, timeout, retry, NULL::json AS result, cancel_requested_at,
       created_at, updated_at, NULL::timestamptz AS completed_at, NULL::timestamptz AS canceled_at, NULL::timestamptz AS finished_at,
       progress
FROM rota.job
UNION ALL
SELECT job_id, task, queue, priority, outcome,
       rota.shown(payload), run_at, NULL, worker_id, attempt, max_attempts, error, started_at, key, owner,
       schedule_id, scheduled_for, triggered_by, timeout, retry, result, NULL,
       created_at, finished_at, CASE outcome WHEN 'completed' THEN finished_at END,
       CASE outcome WHEN 'canceled' THEN finished_at END, finished_at, progress
FROM rota.run
WHERE final;

SELECT rota.make_run_partitions();
