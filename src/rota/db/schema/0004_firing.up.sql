-- What becomes of the instants of named schedules: fired or passed over, in time or too late.

-- Enqueues one job of a schedule with what the schedule and its task say. `parents` are the jobs it has to wait for. What its
-- payload does not name comes from the task's default one.
CREATE FUNCTION rota.enqueue_scheduled(
    s rota.schedule, instant timestamptz, run_at timestamptz, triggered_by json, parents uuid[] DEFAULT '{}'
) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    t rota.task;
    payload json := s.payload;
    made uuid;
BEGIN
    SELECT * INTO t FROM rota.task WHERE name = s.task;
    IF t.default_payload::text <> '{}' THEN
        payload := CASE WHEN payload::text = '{}' THEN t.default_payload ELSE (t.default_payload::jsonb || payload::jsonb)::json END;
    END IF;
    SELECT i.job_id INTO made FROM rota.insert_job(
        rota.uuid7(), s.task, payload, coalesce(s.queue, t.queue, 'default'), coalesce(s.priority, t.priority, 0::smallint), run_at,
        NULL, coalesce(s.max_attempts, t.max_attempts, 4), NULL, NULL, NULL, NULL, NULL, triggered_by, parents, 'ignore',
        new_schedule => s.id, new_scheduled_for => instant, new_limited => coalesce(t.limited, false)
            OR EXISTS (SELECT FROM rota.queue q WHERE q.name = coalesce(s.queue, t.queue, 'default') AND q.limited)) i;
    RETURN made;
END
$$;

-- Writes a line about instants that were passed over, one or so many from `first` to `last`. Where the first has been decided before,
-- as after a clock was set back, the line is about the others.
CREATE FUNCTION rota.pass_over(of_schedule uuid, first timestamptz, last timestamptz, instants bigint, why text) RETURNS uuid
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    from_here timestamptz := first;
BEGIN
    WHILE EXISTS (SELECT FROM rota.occurrence o WHERE o.schedule_id = of_schedule AND o.instant = from_here) LOOP
        IF from_here >= coalesce(last, first) THEN RETURN of_schedule; END IF;
        from_here := CASE WHEN instants = 2 THEN last ELSE from_here + interval '1 microsecond' END;
    END LOOP;
    INSERT INTO rota.occurrence (schedule_id, instant, until, instants, outcome, reason)
    VALUES (of_schedule, from_here, nullif(last, from_here),
            nullif(instants - CASE WHEN from_here > first THEN 1 ELSE 0 END, 1), 'skipped', why);
    RETURN of_schedule;
END
$$;

-- Fires a due cron, interval or init schedule as planned: `fire` are the instants to enqueue for, `skip` those passed over, and
-- `next` when to look again. NULLs when there is nothing to do any more, because somebody else did it or it was disabled
-- meanwhile, or not yet: one job has to follow another, which somebody's transaction has locked. While the task is disabled, or no
-- code has it, the instants to enqueue for are passed over too; what runs once ever waits for it.
CREATE FUNCTION rota.fire_schedule(
    schedule_id uuid, planned_at timestamptz, fire timestamptz[], skip json, next timestamptz,
    OUT fired integer, OUT skipped integer
) LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    s rota.schedule;
    instant timestamptz;
    waiting integer;
    running uuid[];
    job uuid;
    resting text;
BEGIN
    SELECT * INTO s FROM rota.schedule t
    WHERE t.id = schedule_id AND t.enabled AND t.next_run_at = planned_at AND t.next_run_at <= rota.now() FOR UPDATE;
    IF s.id IS NULL THEN RETURN; END IF;
    IF s.overlap = 'queue_one' AND
        (SELECT count(*) FROM (SELECT FROM rota.job j WHERE j.schedule_id = s.id AND j.state = 'running' FOR UPDATE SKIP LOCKED) l)
        < (SELECT count(*) FROM rota.job j WHERE j.schedule_id = s.id AND j.state = 'running')
    THEN RETURN; END IF;
    SELECT CASE WHEN t.enabled THEN 'not_in_code' ELSE 'disabled' END INTO resting
    FROM rota.task t WHERE t.name = s.task AND (NOT t.enabled OR t.deleted_from_code_at IS NOT NULL);
    UPDATE rota.schedule t
    SET next_run_at = CASE WHEN resting IS NOT NULL AND strategy = 'init' THEN rota.now() + interval '10 seconds' ELSE next END,
        last_run_at = CASE WHEN cardinality(fire) > 0 AND resting IS NULL THEN rota.now() ELSE last_run_at END, updated_at = rota.now()
    WHERE t.id = s.id;
    fired := 0;
    SELECT count(rota.pass_over(s.id, k.instant, k.until, k.instants, k.reason)) INTO skipped
    FROM json_to_recordset(skip) AS k (instant timestamptz, until timestamptz, instants bigint, reason text);

    FOREACH instant IN ARRAY fire LOOP
        CONTINUE WHEN EXISTS (SELECT FROM rota.occurrence o WHERE o.schedule_id = s.id AND o.instant = instant);
        IF resting IS NOT NULL THEN
            CONTINUE WHEN s.strategy = 'init';
            INSERT INTO rota.occurrence (schedule_id, instant, outcome, reason) VALUES (s.id, instant, 'skipped', resting);
            skipped := skipped + 1;
            CONTINUE;
        END IF;
        running := '{}';
        IF s.overlap <> 'allow' THEN
            SELECT count(*) FILTER (WHERE j.state <> 'running'), coalesce(array_agg(j.id) FILTER (WHERE j.state = 'running'), '{}')
            INTO waiting, running FROM rota.job j WHERE j.schedule_id = s.id;
            IF waiting > 0 OR (s.overlap = 'skip' AND cardinality(running) > 0) THEN
                INSERT INTO rota.occurrence (schedule_id, instant, outcome, reason) VALUES (s.id, instant, 'skipped', 'overlap');
                skipped := skipped + 1;
                CONTINUE;
            END IF;
        END IF;
        -- The same instant has the same jitter, whoever fires it.
        job := rota.enqueue_scheduled(
            s, instant,
            greatest(instant, rota.now()) + s.jitter * (abs(hashtext(s.id || ' ' || extract(epoch FROM instant)) % 1000) / 1000.0),
            json_build_object('kind', 'scheduler', 'schedule', s.name), running);
        INSERT INTO rota.occurrence (schedule_id, instant, outcome, job_id, start_by, finish_by)
        VALUES (s.id, instant, 'fired', job, instant + s.start_within, instant + s.finish_within);
        IF s.strategy = 'init' THEN UPDATE rota.schedule t SET job_id = job WHERE t.id = s.id; END IF;
        fired := fired + 1;
    END LOOP;
END
$$;

-- Enables or disables a named schedule. Enabled, it goes on from now: what it missed is one line in its ledger, and the scheduler
-- computes the next time. Disabled, it keeps its history and its next time. False: there is none of that name.
CREATE FUNCTION rota.set_schedule(of_name text, want boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    s rota.schedule;
BEGIN
    SELECT * INTO s FROM rota.schedule WHERE name = of_name FOR UPDATE;
    IF s.id IS NULL OR s.enabled = want THEN RETURN s.id IS NOT NULL; END IF;
    IF want AND s.strategy <> 'init' AND s.next_run_at <= rota.now() THEN
        PERFORM rota.pass_over(s.id, s.next_run_at, nullif(rota.now(), s.next_run_at), NULL, 'disabled');
    END IF;
    UPDATE rota.schedule
    SET enabled = want, updated_at = rota.now(), next_run_at = CASE WHEN want AND strategy <> 'init' THEN NULL ELSE next_run_at END
    WHERE id = s.id;
    RETURN true;
END
$$;

-- What has a deadline that has passed: those that were missed. Each is told once, whoever looks.
CREATE FUNCTION rota.check_deadlines(batch integer DEFAULT 500)
RETURNS TABLE (schedule_id uuid, name text, task text, instant timestamptz, job_id uuid, deadline text, due timestamptz)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH late AS (
        SELECT o.schedule_id, o.instant, o.job_id, o.start_by FROM rota.occurrence o
        WHERE o.start_by <= rota.now() ORDER BY o.start_by LIMIT batch FOR UPDATE SKIP LOCKED
    ), judged AS (
        UPDATE rota.occurrence o
        SET start_by = NULL, missed = CASE WHEN rota.first_start(l.job_id) <= l.start_by THEN missed ELSE missed || 'start'::text END
        FROM late l WHERE o.schedule_id = l.schedule_id AND o.instant = l.instant
        RETURNING o.schedule_id, o.instant, o.job_id, l.start_by AS due, 'start' = ANY (o.missed) AS is_missed
    )
    SELECT j.schedule_id, s.name, s.task, j.instant, j.job_id, 'start', j.due
    FROM judged j JOIN rota.schedule s ON s.id = j.schedule_id WHERE j.is_missed;
    RETURN QUERY
    WITH late AS (
        SELECT o.schedule_id, o.instant, o.job_id, o.finish_by FROM rota.occurrence o
        WHERE o.finish_by <= rota.now() ORDER BY o.finish_by LIMIT batch FOR UPDATE SKIP LOCKED
    ), judged AS (
        UPDATE rota.occurrence o
        SET finish_by = NULL,
            missed = CASE WHEN EXISTS (SELECT FROM rota.run r WHERE r.job_id = l.job_id AND r.final AND r.finished_at <= l.finish_by)
                     THEN missed ELSE missed || 'finish'::text END
        FROM late l WHERE o.schedule_id = l.schedule_id AND o.instant = l.instant
        RETURNING o.schedule_id, o.instant, o.job_id, l.finish_by AS due, 'finish' = ANY (o.missed) AS is_missed
    )
    SELECT j.schedule_id, s.name, s.task, j.instant, j.job_id, 'finish', j.due
    FROM judged j JOIN rota.schedule s ON s.id = j.schedule_id WHERE j.is_missed;
END
$$;

-- When a job was begun for the first time; infinity: not yet.
CREATE FUNCTION rota.first_start(of_job uuid) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce(
        (SELECT min(r.started_at) FROM rota.run r WHERE r.job_id = of_job),
        (SELECT j.claimed_at FROM rota.job j WHERE j.id = of_job AND j.state = 'running'), 'infinity');
END
$$;
