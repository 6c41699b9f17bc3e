-- The tables of the calendar application, in a schema of its own.
CREATE SCHEMA rota_calendars;

CREATE TABLE rota_calendars.pair (
    id               text        PRIMARY KEY CHECK (id ~ '^[A-Za-z0-9_][A-Za-z0-9_.:@/-]{0,199}$'),
    first_connector  text        NOT NULL,
    first_shown      text        NOT NULL,
    first_sealed     text        NOT NULL,             -- location, user and password, encrypted
    first_cursor     text,
    second_connector text        NOT NULL,
    second_shown     text        NOT NULL,
    second_sealed    text        NOT NULL,
    second_cursor    text,
    direction        text        NOT NULL DEFAULT 'both' CHECK (direction IN ('both', 'to_second', 'to_first')),
    every            interval    CHECK (every > '0'),
    past             interval    NOT NULL,
    future           interval    NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT rota.now()
);

-- What was seen of each calendar. One row for each resource, also for those that could not be read.
CREATE TABLE rota_calendars.resource (
    pair_id    text    NOT NULL REFERENCES rota_calendars.pair ON DELETE CASCADE,
    side       text    NOT NULL CHECK (side IN ('first', 'second')),
    href       text    NOT NULL,
    etag       text    NOT NULL,
    uid        text,
    digest     text,
    core       text,
    stamped_at timestamptz,
    sequence   integer NOT NULL DEFAULT 0,
    starts_at  timestamptz,
    ends_at    timestamptz,
    problem    text,
    PRIMARY KEY (pair_id, side, href),
    CHECK (digest IS NULL OR (uid IS NOT NULL AND starts_at IS NOT NULL AND ends_at IS NOT NULL))
);
CREATE INDEX resource_uid ON rota_calendars.resource (pair_id, uid, side);
CREATE INDEX resource_problem ON rota_calendars.resource (pair_id) WHERE problem IS NOT NULL;

-- What both sides said when they were last alike, and what we were about to do since then.
CREATE TABLE rota_calendars.event (
    pair_id     text  NOT NULL REFERENCES rota_calendars.pair ON DELETE CASCADE,
    uid         text  NOT NULL,
    base_first  text,
    base_second text,
    intents     jsonb NOT NULL DEFAULT '[]',
    PRIMARY KEY (pair_id, uid),
    CHECK (num_nulls(base_first, base_second) <> 1)
);

-- What lost against another version.
CREATE TABLE rota_calendars.conflict (
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pair_id text        NOT NULL REFERENCES rota_calendars.pair ON DELETE CASCADE,
    uid     text        NOT NULL,
    kind    text        NOT NULL CHECK (kind IN ('both_edited', 'edit_over_deletion', 'overruled')),
    winner  text        NOT NULL CHECK (winner IN ('first', 'second')),
    digest  text        NOT NULL,                      -- of what lost; '' for a deletion
    text    text,                                      -- what lost, as it was
    job_id  uuid,
    at      timestamptz NOT NULL DEFAULT rota.now()
);
CREATE UNIQUE INDEX conflict_once ON rota_calendars.conflict (pair_id, uid, kind, digest, job_id);
CREATE INDEX conflict_at ON rota_calendars.conflict (pair_id, at DESC);

-- One summary for each attempt at a job.
CREATE TABLE rota_calendars.summary (
    job_id       uuid        NOT NULL,
    attempt      bigint      NOT NULL,
    pair_id      text        NOT NULL,
    connector    text        NOT NULL,
    window_start timestamptz NOT NULL,
    window_end   timestamptz NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT rota.now(),
    finished_at  timestamptz,
    outcome      text        NOT NULL DEFAULT 'running'
                 CHECK (outcome IN ('running', 'completed', 'partial', 'failed', 'snoozed', 'stopped', 'lost')),
    processed    integer     NOT NULL DEFAULT 0,
    failed       integer     NOT NULL DEFAULT 0,
    error        text,
    details      jsonb       NOT NULL DEFAULT '{}',
    PRIMARY KEY (job_id, attempt),
    CHECK ((outcome = 'running') = (finished_at IS NULL))
);
CREATE INDEX summary_pair ON rota_calendars.summary (pair_id, started_at DESC);
