-- What ends, returns or releases a job. Plain completions take a faster lane (db/sql/runs.sql, runs_complete);
-- everything else goes through these functions, in the one transaction that changes the job.

-- Runs of a job that count against max_attempts. A crash of its worker counts only once the job is known to be the culprit,
-- or when it has happened too often to be somebody else's fault.
CREATE FUNCTION rota.charged(attempt bigint, forgiven bigint, crashes integer, culprit boolean) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT attempt - forgiven - CASE WHEN culprit THEN 0 ELSE least(crashes, 3) END
$$;

-- What somebody should hear of, told in the transaction in which it happens: a line here is written without waiting for anybody,
-- cannot be lost, and is taken once, when it is counted into an alert (0012_alerts).
CREATE TABLE rota.signal (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind        text        NOT NULL,
    subject     text        NOT NULL,
    fingerprint text        NOT NULL DEFAULT '',
    details     json        NOT NULL DEFAULT '{}',
    at          timestamptz NOT NULL DEFAULT rota.now()
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);

-- What a failure is grouped by: what the worker found (type and frames, model/fingerprint.py), else the task, the type of the error
-- and its message without whatever has a digit in it: ids, counts, times.
CREATE FUNCTION rota.fingerprint(of_task text, error json) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(error ->> 'fingerprint', substr(encode(sha256(convert_to(concat_ws(E'\n',
        of_task, error ->> 'type', regexp_replace(left(error ->> 'message', 300), '[A-Za-z0-9_.:-]*[0-9][A-Za-z0-9_.:-]*', '#', 'g')
    ), 'UTF8')), 'hex'), 1, 16))
$$;

-- How often a job may be tried: as it says itself, unless that is what its code says of all jobs of the task and an operator has
-- said otherwise since.
CREATE FUNCTION rota.allowed_attempts(j rota.job) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce((
        SELECT t.max_attempts FROM rota.task t
        WHERE t.name = j.task AND t.overrides IS NOT NULL AND (t.overrides -> 'max_attempts') IS NOT NULL
          AND (t.definition ->> 'max_attempts')::integer = j.max_attempts), j.max_attempts);
END
$$;

-- Whether a limit on starts concerns a job: one that has begun and is to begin again lines up again.
CREATE FUNCTION rota.is_rated(of_task text, of_queue text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM rota.task t WHERE t.name = of_task AND num_nonnulls(t.rate, t.key_rate) > 0)
        OR EXISTS (SELECT FROM rota.queue q WHERE q.name = of_queue AND q.rate IS NOT NULL);
END
$$;

-- Writes the run that ends a job for good, or one attempt at it.
CREATE FUNCTION rota.record_run(
    j rota.job, run_attempt bigint, run_outcome text, is_final boolean, run_started_at timestamptz, run_finished_at timestamptz,
    run_error json, run_result json
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, started_at, finished_at, worker_id, error, result,
                          payload, priority, run_at, max_attempts, token, timeout, retry, key, owner, schedule_id, scheduled_for,
                          triggered_by, on_parent_failure, created_at, fingerprint, progress)
    VALUES (j.id, run_attempt, j.task, j.queue, run_outcome, is_final, run_started_at, run_finished_at, j.worker_id, run_error, run_result,
            CASE WHEN is_final THEN j.payload END, j.priority, j.run_at, j.max_attempts, j.token, j.timeout, j.retry, j.key, j.owner,
            j.schedule_id, j.scheduled_for, j.triggered_by, j.on_parent_failure, j.created_at,
            CASE WHEN run_outcome IN ('failed', 'lost') THEN rota.fingerprint(j.task, run_error) END,
            CASE WHEN run_started_at IS NOT NULL THEN j.progress END);
    -- A recurring row tries again by itself: of that, its schedule tells when it keeps failing.
    IF is_final AND run_outcome = 'failed' AND NOT (j.schedule_id IS NOT NULL AND EXISTS (
        SELECT FROM rota.schedule s WHERE s.id = j.schedule_id AND s.key IS NOT NULL)) THEN
        INSERT INTO rota.signal (kind, subject, fingerprint, details)
        VALUES ('job_failed', j.task, rota.fingerprint(j.task, run_error), json_build_object(
            'job_id', j.id, 'attempt', run_attempt, 'queue', j.queue,
            'type', run_error ->> 'type', 'message', left(run_error ->> 'message', 1000)));
    END IF;
END
$$;

-- Tells the children of finished jobs, level by level: a completed parent lets them go, a failed or canceled one cancels or
-- fails them by their policy, which ends jobs that have children of their own.
CREATE FUNCTION rota.release_children(parents uuid[], parents_outcome text) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    good uuid[] := CASE WHEN parents_outcome = 'completed' THEN parents ELSE '{}' END;
    bad uuid[] := CASE WHEN parents_outcome = 'completed' THEN '{}' ELSE parents END;
    doomed uuid[];
    c rota.job;
    reason json;
BEGIN
    WHILE cardinality(good) + cardinality(bad) > 0 LOOP
        -- Children are locked in one order, so that parents that finish at once do not deadlock.
        PERFORM FROM rota.job
        WHERE id = ANY (ARRAY(SELECT child_id FROM rota.job_edge WHERE parent_id = ANY (good || bad))) ORDER BY id FOR UPDATE;

        UPDATE rota.job j
        SET pending_parents = pending_parents - d.done, updated_at = rota.now(),
            state = CASE WHEN pending_parents > d.done THEN 'waiting' WHEN run_at > rota.now() THEN 'delayed'
                         WHEN limited THEN 'held' ELSE 'queued' END
        FROM (SELECT e.child_id, count(*) AS done
              FROM rota.job_edge e JOIN rota.job k ON k.id = e.child_id
              WHERE e.parent_id = ANY (good || bad) AND NOT e.settled
                AND (e.parent_id = ANY (good) OR k.on_parent_failure = 'ignore')
              GROUP BY e.child_id) d
        WHERE j.id = d.child_id AND j.state = 'waiting';
        WITH told AS (
            UPDATE rota.job_edge SET settled = true WHERE parent_id = ANY (good || bad) AND NOT settled RETURNING parent_id, child_id
        )
        SELECT array_agg(child_id) FILTER (WHERE parent_id = ANY (bad)) INTO doomed FROM told;

        reason := json_build_object('type', 'ParentFailed', 'message', 'parent ' || coalesce(bad[1]::text, '') || ' did not complete');
        good := '{}';
        FOR c IN
            DELETE FROM rota.job j
            WHERE j.id = ANY (doomed) AND j.state = 'waiting' AND j.on_parent_failure <> 'ignore'
            RETURNING *
        LOOP
            PERFORM rota.record_run(c, c.attempt + 1, CASE c.on_parent_failure WHEN 'fail' THEN 'failed' ELSE 'canceled' END,
                                    true, NULL, rota.now(), reason, NULL);
            IF c.fanout THEN good := good || c.id; END IF;
        END LOOP;
        bad := good;
        good := '{}';
    END LOOP;
    PERFORM rota.wake();
END
$$;

-- Ends one run of a job that this worker holds: NULL when it does not (LeaseLost), and then nothing has changed; else the
-- state the job is in now. Outcomes: completed, canceled, snoozed, released (the worker stopped), failed, crashed (the process
-- it ran alone in died), refused (its payload does not fit the worker's version of the task: back, uncharged and unrecorded, to wait
-- for another version, or else failed). For the job of a recurring row `delay` or `next_at` is when that runs next; neither: as its row says.
CREATE FUNCTION rota.finish_run(
    run_job uuid, run_token bigint, run_worker uuid, run_outcome text, waited double precision, took double precision,
    run_error json DEFAULT NULL, run_result json DEFAULT NULL, delay interval DEFAULT '0', can_retry boolean DEFAULT true,
    next_at timestamptz DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    j rota.job;
    -- The present, also late in the handler's own transaction; with the shift of a clock that a test has moved.
    present timestamptz := rota.now() + (clock_timestamp() - now());
    started timestamptz;
    is_final boolean;
    is_kept boolean := true;
    recorded text := CASE run_outcome WHEN 'crashed' THEN 'failed' ELSE run_outcome END;
    next_state text;
BEGIN
    SELECT * INTO j FROM rota.job
    WHERE id = run_job AND token = run_token AND worker_id = run_worker AND state = 'running' FOR UPDATE;
    IF j.id IS NULL THEN RETURN NULL; END IF;

    IF run_outcome = 'refused' THEN
        IF NOT rota.is_unwanted(j) AND rota.set_refused_aside(j, run_error) THEN RETURN 'refused'; END IF;
        run_outcome := 'failed';
        recorded := 'failed';
    END IF;

    started := j.claimed_at + make_interval(secs => waited);
    j.culprit := j.culprit OR run_outcome = 'crashed';
    is_final := recorded IN ('completed', 'canceled')
        OR (recorded = 'failed' AND (NOT can_retry OR rota.charged(j.attempt, j.forgiven, j.crashes, j.culprit) >= rota.allowed_attempts(j)));
    -- Whoever asked for the end of this job, or disabled its row, does not want another attempt at it.
    IF NOT is_final AND rota.is_unwanted(j) THEN
        recorded := 'canceled';
        is_final := true;
    END IF;
    IF j.schedule_id IS NOT NULL AND is_final THEN
        is_kept := rota.settle_schedule(j, recorded, run_error, delay, next_at);
    ELSIF j.schedule_id IS NOT NULL AND recorded = 'snoozed' THEN
        is_kept := NOT EXISTS (
            SELECT FROM rota.schedule s WHERE s.id = j.schedule_id AND s.job_id = j.id AND NOT s.keep_successes);
    END IF;
    IF is_kept THEN
        PERFORM rota.record_run(j, j.attempt, recorded, is_final, least(started, present), least(started + make_interval(secs => took), present), run_error, run_result);
    END IF;

    IF is_final THEN
        DELETE FROM rota.job WHERE id = j.id;
        IF j.fanout THEN PERFORM rota.release_children(ARRAY[j.id], recorded); END IF;
        IF j.limited THEN PERFORM rota.vacate(ARRAY[j.task], ARRAY[j.queue], ARRAY[j.limit_key], ARRAY[j.claimed_at]); END IF;
        RETURN recorded;
    END IF;
    -- What was cut short keeps its place, in the queue and within the limits; who comes back for another attempt lines up again, and
    -- so does everybody where starts are counted.
    next_state := CASE WHEN delay > interval '0' THEN 'delayed'
                       WHEN j.limited AND (run_outcome <> 'released' OR rota.is_rated(j.task, j.queue)) THEN 'held' ELSE 'queued' END;
    UPDATE rota.job
    SET state = next_state, run_at = CASE WHEN run_outcome = 'released' THEN run_at ELSE rota.now() + coalesce(delay, '0') END,
        line = CASE next_state WHEN 'queued' THEN line END, limit_key = CASE next_state WHEN 'queued' THEN limit_key END, worker_id = NULL, lease_until = NULL,
        last_error = coalesce(run_error, last_error), progress = NULL, updated_at = rota.now(), culprit = j.culprit,
        -- It ended by itself, so the crashes it was in were not its own: acquitted, unless it is the culprit or was cut short.
        forgiven = forgiven + CASE WHEN run_outcome IN ('snoozed', 'released') THEN 1 ELSE 0 END
                            + CASE WHEN j.culprit OR run_outcome = 'released' THEN 0 ELSE least(crashes, 3) END,
        crashes = CASE WHEN j.culprit OR run_outcome = 'released' THEN crashes ELSE 0 END
    WHERE id = j.id;
    IF j.limited AND next_state <> 'queued' THEN
        PERFORM rota.vacate(ARRAY[j.task], ARRAY[j.queue], ARRAY[j.limit_key], ARRAY[j.claimed_at]);
    END IF;
    PERFORM rota.wake();
    RETURN 'queued';
END
$$;

-- Takes jobs from workers that died (`dead`) or let their lease run out, a bounded number at a time; several rescuers at once
-- are safe. The jobs go back to the queue as suspects, or end: failed when no attempt is left, canceled when that was asked for.
-- A child that somebody's transaction has locked is for the next time, also behind a pooler, where sessions have no settings.
CREATE FUNCTION rota.rescue_runs(dead uuid[], batch integer DEFAULT 500, rescuer uuid DEFAULT NULL)
RETURNS TABLE (job_id uuid, task text, queue text, attempt bigint, worker_id uuid, state text)
LANGUAGE plpgsql SET lock_timeout = '500ms' AS $$
#variable_conflict use_column
DECLARE
    j rota.job;
    lost json;
    ended text;
    vacated rota.job[] := '{}';
    is_rated boolean;
BEGIN
    FOR j IN
        SELECT * FROM rota.job k
        WHERE k.state = 'running'
          -- A lease of the rescuer's own has run out because the job was locked: its heartbeat is about to renew it.
          AND ((k.lease_until < rota.now() AND k.worker_id IS DISTINCT FROM rescuer) OR k.worker_id = ANY (dead))
          -- Only a dead worker makes it worth looking past the leases that have run out.
          AND k.lease_until < CASE WHEN cardinality(dead) > 0 THEN 'infinity' ELSE rota.now() END
        ORDER BY k.lease_until LIMIT batch FOR UPDATE SKIP LOCKED
    LOOP
        lost := json_build_object('type', 'WorkerCrashed', 'message', CASE
            WHEN j.worker_id = ANY (dead) THEN 'its worker ' || j.worker_id || ' died while it held the job'
            ELSE 'its worker ' || j.worker_id || ' let the lease run out' END);
        job_id := j.id; task := j.task; queue := j.queue; attempt := j.attempt; worker_id := j.worker_id;
        IF j.schedule_id IS NOT NULL THEN
            -- A row that somebody's transaction has locked keeps only its own job waiting.
            PERFORM FROM rota.schedule s WHERE s.id = j.schedule_id AND s.job_id = j.id FOR NO KEY UPDATE SKIP LOCKED;
            CONTINUE WHEN NOT FOUND AND EXISTS (SELECT FROM rota.schedule s WHERE s.id = j.schedule_id AND s.job_id = j.id);
        END IF;
        ended := CASE WHEN rota.is_unwanted(j) THEN 'canceled'
                      WHEN rota.charged(j.attempt, j.forgiven, j.crashes + 1, j.culprit) >= rota.allowed_attempts(j) THEN 'failed' END;
        IF ended IS NOT NULL THEN
            PERFORM rota.record_run(j, j.attempt, ended, true, least(j.claimed_at, rota.now()), rota.now(), lost, NULL);
            IF j.schedule_id IS NOT NULL THEN PERFORM rota.settle_schedule(j, ended, lost, NULL, NULL); END IF;
            DELETE FROM rota.job k WHERE k.id = j.id;
            IF j.fanout THEN PERFORM rota.release_children(ARRAY[j.id], ended); END IF;
            IF j.limited THEN vacated := vacated || j; END IF;
            state := ended;
        ELSE
            PERFORM rota.record_run(j, j.attempt, 'lost', false, least(j.claimed_at, rota.now()), rota.now(), lost, NULL);
            is_rated := j.limited AND rota.is_rated(j.task, j.queue);
            UPDATE rota.job k
            SET state = CASE WHEN is_rated THEN 'held' ELSE 'queued' END, line = CASE WHEN NOT is_rated THEN line END,
                worker_id = NULL, lease_until = NULL,  -- run_at stays: it has waited its turn already
                crashes = crashes + 1, last_error = lost, progress = NULL, updated_at = rota.now()
            WHERE k.id = j.id;
            IF is_rated THEN vacated := vacated || j; END IF;
            state := 'queued';
        END IF;
        RETURN NEXT;
    END LOOP;
    IF FOUND THEN PERFORM rota.wake(); END IF;
    IF cardinality(vacated) > 0 THEN
        PERFORM rota.vacate(array_agg(v.task), array_agg(v.queue), array_agg(v.limit_key), array_agg(v.claimed_at)) FROM unnest(vacated) v;
    END IF;
END
$$;

-- Ends a job that is not running; asks a running one to stop. Returns the state the job was in, NULL if it is not live.
CREATE FUNCTION rota.cancel_job(target uuid, why text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    j rota.job;
BEGIN
    SELECT * INTO j FROM rota.job WHERE id = target FOR UPDATE;
    IF j.id IS NULL THEN RETURN NULL; END IF;
    IF j.state = 'running' THEN
        UPDATE rota.job SET cancel_requested_at = coalesce(cancel_requested_at, rota.now()), updated_at = rota.now() WHERE id = target;
        RETURN 'running';
    END IF;
    PERFORM rota.record_run(j, j.attempt + 1, 'canceled', true, NULL, rota.now(),
                            json_build_object('type', 'Canceled', 'message', coalesce(why, 'canceled')), NULL);
    IF j.schedule_id IS NOT NULL THEN PERFORM rota.settle_schedule(j, 'canceled', NULL, NULL, NULL); END IF;
    DELETE FROM rota.job WHERE id = target;
    IF j.fanout THEN PERFORM rota.release_children(ARRAY[target], 'canceled'); END IF;
    IF j.limited THEN PERFORM rota.vacate_later(j); END IF;
    RETURN j.state;
END
$$;

-- An error without the versions of the task that have refused the payload.
CREATE FUNCTION rota.without_refusals(error json) RETURNS json
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN error -> 'refused_by' IS NULL THEN error ELSE (error::jsonb - 'refused_by')::json END
$$;

-- Puts a failed or canceled job back in the queue with its attempts forgiven and its history kept; a queued one that waits for
-- its backoff runs at once. Parents that are live (again) are waited for. Returns the state the job was in, NULL if there is none,
-- or 'superseded': its recurring row has gone on to another job, or is disabled.
CREATE FUNCTION rota.retry_job(target uuid) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    was rota.job;
    live text;
    r rota.run;
    parents uuid[];
    is_limited boolean;
BEGIN
    SELECT * INTO was FROM rota.job WHERE id = target FOR UPDATE;
    live := was.state;
    is_limited := EXISTS (SELECT FROM rota.task t WHERE t.name = was.task AND t.limited)
        OR EXISTS (SELECT FROM rota.queue q WHERE q.name = was.queue AND q.limited);
    IF starts_with(was.line, 'unknown ') THEN
        -- Set aside because no worker could run it: every one may try again.
        UPDATE rota.job
        SET state = CASE WHEN is_limited THEN 'held' ELSE 'queued' END, limited = is_limited, line = NULL,
            run_at = least(run_at, rota.now()), last_error = rota.without_refusals(last_error), updated_at = rota.now()
        WHERE id = target;
        PERFORM rota.wake();
        RETURN 'queued';
    ELSIF live IN ('delayed', 'held', 'queued') THEN
        UPDATE rota.job
        SET state = CASE WHEN limited AND state <> 'queued' THEN 'held' ELSE 'queued' END, run_at = least(run_at, rota.now()),
            updated_at = rota.now()
        WHERE id = target;
        PERFORM rota.wake();
        RETURN 'queued';
    ELSIF live IS NOT NULL THEN
        RETURN live;
    END IF;
    SELECT * INTO r FROM rota.run WHERE job_id = target AND final FOR UPDATE;
    IF r.job_id IS NULL THEN
        -- Another retry has put it back while we waited for the row, or there is no such job.
        RETURN (SELECT CASE WHEN j.state IN ('delayed', 'held') THEN 'queued' ELSE j.state END FROM rota.job j WHERE j.id = target);
    ELSIF r.outcome = 'completed' THEN
        RETURN r.outcome;
    ELSIF r.schedule_id IS NOT NULL AND NOT rota.rejoin_schedule(r.schedule_id, target) THEN
        RETURN 'superseded';
    END IF;
    -- As in insert_job: live parents are locked, so that none can finish between this look and our insert. In steps, because a
    -- join of the two tables may read all of one.
    parents := ARRAY(SELECT e.parent_id FROM rota.job_edge e WHERE e.child_id = target);
    PERFORM FROM rota.job WHERE id = ANY (parents) ORDER BY id FOR UPDATE;
    parents := ARRAY(SELECT j.id FROM rota.job j WHERE j.id = ANY (parents));
    UPDATE rota.job SET fanout = true WHERE id = ANY (parents) AND NOT fanout;
    UPDATE rota.job_edge SET settled = false WHERE parent_id = ANY (parents) AND child_id = target AND settled;
    is_limited := EXISTS (SELECT FROM rota.task t WHERE t.name = r.task AND t.limited)
        OR EXISTS (SELECT FROM rota.queue q WHERE q.name = r.queue AND q.limited);
    UPDATE rota.run SET final = false WHERE job_id = target AND attempt = r.attempt;
    INSERT INTO rota.job (id, task, queue, priority, payload, run_at, attempt, forgiven, max_attempts, token, timeout, retry, key,
                          owner, schedule_id, scheduled_for, triggered_by, last_error, created_at, claimed_at,
                          pending_parents, on_parent_failure, limited, state)
    VALUES (r.job_id, r.task, r.queue, r.priority, r.payload, rota.now(), r.attempt, r.attempt, r.max_attempts, r.token, r.timeout,
            r.retry, r.key, r.owner, r.schedule_id, r.scheduled_for, r.triggered_by, rota.without_refusals(r.error), r.created_at, r.started_at,
            cardinality(parents), coalesce(r.on_parent_failure, 'cancel'), is_limited,
            CASE WHEN cardinality(parents) > 0 THEN 'waiting' WHEN is_limited THEN 'held' ELSE 'queued' END);
    PERFORM rota.wake();
    RETURN r.outcome;
END
$$;
