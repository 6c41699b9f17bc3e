-- What became of tasks' runs, added up: each worker appends what it has counted in its last seconds, a system task makes minutes and
-- then hours of that (db/sql/stats.sql). Nothing is updated, so nobody waits for anybody. Histograms have fixed buckets, eight to an
-- octave (model/histogram.py): those that are not empty, and how much is in them.
CREATE TABLE rota.task_stat (
    id               bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task             text        NOT NULL,
    grain            text        NOT NULL DEFAULT 'flush',  -- flush: of one worker; minute and hour: of all
    at               timestamptz NOT NULL,                  -- when that began
    completed        bigint      NOT NULL DEFAULT 0,
    failed           bigint      NOT NULL DEFAULT 0,
    canceled         bigint      NOT NULL DEFAULT 0,
    snoozed          bigint      NOT NULL DEFAULT 0,
    released         bigint      NOT NULL DEFAULT 0,
    lost             bigint      NOT NULL DEFAULT 0,
    duration_buckets smallint[]  NOT NULL DEFAULT '{}',     -- of completed and failed runs
    duration_counts  bigint[]    NOT NULL DEFAULT '{}',
    wait_buckets     smallint[]  NOT NULL DEFAULT '{}',     -- from due to claimed
    wait_counts      bigint[]    NOT NULL DEFAULT '{}',
    CONSTRAINT task_stat_grain CHECK (grain IN ('flush', 'minute', 'hour')),
    CONSTRAINT task_stat_durations CHECK (cardinality(duration_buckets) = cardinality(duration_counts)),
    CONSTRAINT task_stat_waits CHECK (cardinality(wait_buckets) = cardinality(wait_counts))
);
CREATE INDEX task_stat_task ON rota.task_stat (task, at);
CREATE INDEX task_stat_grain_at ON rota.task_stat (grain, at);

-- How many live jobs there are by state, queue and task, of the states that have too many to count while a caller waits. A worker or
-- server counts them now and then (db/sql/job_counts.sql): nothing on the way of a job pays for it.
CREATE TABLE rota.job_count (
    state      text        NOT NULL,
    queue      text        NOT NULL,
    task       text        NOT NULL,
    jobs       bigint      NOT NULL,
    counted_at timestamptz NOT NULL DEFAULT rota.now(),
    PRIMARY KEY (state, queue, task)
);
