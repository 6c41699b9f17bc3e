-- Jobs that no live worker of their queue can run: its task is not in their code, or their version of it refuses the payload. They
-- wait, uncharged, out of the way of claims.

-- Tasks whose jobs are set aside, per queue and by the versions of the task that have refused their payloads: none, if it is unknown.
CREATE TABLE rota.unknown_task (
    queue      text        NOT NULL,
    task       text        NOT NULL,
    refused_by text[]      NOT NULL DEFAULT '{}',        -- hashes of payload schemas, in order
    since      timestamptz NOT NULL DEFAULT rota.now(),
    look_at    timestamptz NOT NULL DEFAULT rota.now(),  -- when to look for jobs that have waited too long
    PRIMARY KEY (queue, task, refused_by)
);

-- When an application had a live worker. A job's patience with an unknown task is counted in this time only, so that a weekend
-- without workers fails nothing. Kept only while there are unknown tasks.
CREATE TABLE rota.app_uptime (
    app      text        NOT NULL,
    began_at timestamptz NOT NULL,
    seen_at  timestamptz NOT NULL,
    PRIMARY KEY (app, began_at)
);

-- The line in which jobs of an unknown task wait. It sorts after those of limits, which admission walks through.
CREATE FUNCTION rota.unknown_line(of_queue text, of_task text, refused_by text[] DEFAULT '{}') RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT concat_ws(' ', 'unknown', of_queue, of_task, nullif(array_to_string(refused_by, ' '), '')) $$;

-- Whether a live worker of the queue, or of any queue if it is NULL, has this task in a version that is not one of `refused_by`.
CREATE FUNCTION rota.is_known(of_queue text, of_task text, refused_by text[]) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM rota.worker w, unnest(w.tasks, w.schemas) AS k (task, schema)
        WHERE w.stopped_at IS NULL AND w.seen_at > rota.now() - interval '90 seconds'
          AND (of_queue IS NULL OR of_queue = ANY (w.queues)) AND k.task = of_task AND k.schema <> ALL (refused_by))
$$;

-- Moves ready jobs that no claim takes out of the way of claims: those of disabled tasks wait for these to be enabled, those of
-- tasks that no live worker of the queue knows wait for one that does. `known` are the tasks of the worker that calls. Looks at the
-- first `first` jobs of the queue; behind them they are in no claim's way. Returns how many were moved.
CREATE FUNCTION rota.set_aside(of_queue text, known text[], first integer DEFAULT 2000) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    disabled text[] := ARRAY(SELECT t.name FROM rota.task t WHERE NOT t.enabled);
    unknown text[] := '{}';
    moved integer := 0;
    ready integer;
BEGIN
    -- A few rows tell, as a rule: jobs that nobody takes are soon at the head.
    IF EXISTS (
        SELECT FROM (SELECT k.task FROM rota.job k WHERE k.state = 'queued' AND k.queue = of_queue
                     ORDER BY k.priority, k.run_at, k.id LIMIT least(first, 100)) f
        WHERE f.task <> ALL (known))
    THEN
        unknown := ARRAY(
            SELECT u.task FROM (
                SELECT DISTINCT f.task FROM (
                    SELECT k.task FROM rota.job k WHERE k.state = 'queued' AND k.queue = of_queue
                    ORDER BY k.priority, k.run_at, k.id LIMIT first) f
                WHERE f.task <> ALL (known) AND f.task <> ALL (disabled) OFFSET 0) u
            WHERE NOT rota.is_known(of_queue, u.task, '{}'));
        -- Locked until this commits, so that rota.take_back does not forget a task whose jobs it cannot see yet.
        INSERT INTO rota.unknown_task AS k (queue, task) SELECT of_queue, u.task FROM unnest(unknown) AS u (task) ORDER BY 2
        ON CONFLICT (queue, task, refused_by) DO UPDATE SET since = k.since;
    END IF;
    -- Those that wait for a limit would take its places one after the other, and nobody would claim them there.
    unknown := unknown || ARRAY(
        SELECT k.task FROM rota.unknown_task k
        WHERE k.queue = of_queue AND k.refused_by = '{}' AND k.task <> ALL (unknown) AND NOT rota.is_known(of_queue, k.task, '{}'));
    IF cardinality(unknown) > 0 THEN
        UPDATE rota.job SET limit_key = NULL, updated_at = rota.now(), line = rota.unknown_line(queue, task)
        WHERE id = ANY (ARRAY(
            SELECT j.id FROM rota.job j
            WHERE j.limited AND j.state = 'held' AND j.id = ANY (ARRAY(
                SELECT f.id FROM unnest('q ' || of_queue || '{}'::text[] || ARRAY(SELECT 't ' || u.task FROM unnest(unknown) AS u (task)))
                    AS l (line) CROSS JOIN LATERAL (
                        SELECT k.id, k.task, k.queue FROM rota.job k WHERE k.limited AND k.state = 'held' AND k.line = l.line
                        ORDER BY k.priority, k.run_at, k.id LIMIT first) f
                WHERE f.task = ANY (unknown) AND f.queue = of_queue))
            FOR UPDATE SKIP LOCKED));
        GET DIAGNOSTICS moved = ROW_COUNT;
    END IF;
    IF cardinality(disabled) + cardinality(unknown) = 0 THEN RETURN 0; END IF;
    UPDATE rota.job SET state = 'held', limited = true, limit_key = NULL, updated_at = rota.now(),
        line = CASE WHEN task <> ALL (disabled) THEN rota.unknown_line(queue, task) END
    WHERE id = ANY (ARRAY(
        SELECT j.id FROM rota.job j
        WHERE j.state = 'queued' AND j.id = ANY (ARRAY(
            SELECT f.id FROM (
                SELECT k.id, k.task FROM rota.job k WHERE k.state = 'queued' AND k.queue = of_queue
                ORDER BY k.priority, k.run_at, k.id LIMIT first) f
            WHERE f.task = ANY (disabled || unknown)))
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS ready = ROW_COUNT;
    RETURN moved + ready;
END
$$;

-- Sets a running job aside whose payload does not fit its worker's version of the task (`error`, with the hash `schema`): uncharged, until a
-- worker with another version takes it back. False, and the run has failed: there is no other version, neither in a live worker nor in
-- the code that was synced last, and no other one has refused the payload before.
CREATE FUNCTION rota.set_refused_aside(j rota.job, error json) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    versions text[] := ARRAY(
        SELECT json_array_elements_text(j.last_error -> 'refused_by') AS version UNION SELECT error ->> 'schema' ORDER BY version);
BEGIN
    IF j.last_error -> 'refused_by' IS NULL AND NOT rota.is_known(j.queue, j.task, versions) AND NOT EXISTS (
        SELECT FROM rota.task t WHERE t.name = j.task AND t.deleted_from_code_at IS NULL AND t.schema_hash <> ALL (versions))
    THEN
        RETURN false;
    END IF;
    INSERT INTO rota.unknown_task AS k (queue, task, refused_by) VALUES (j.queue, j.task, versions)
    ON CONFLICT (queue, task, refused_by) DO UPDATE SET since = k.since;
    UPDATE rota.job
    SET state = 'held', limited = true, limit_key = NULL, line = rota.unknown_line(queue, task, versions), attempt = attempt - 1,
        worker_id = NULL, lease_until = NULL, progress = NULL, updated_at = rota.now(),
        last_error = (error::jsonb || jsonb_build_object('refused_by', versions))::json
    WHERE id = j.id;
        -- It has not begun, so that no rate counts it.
    IF j.limited THEN PERFORM rota.vacate(ARRAY[j.task], ARRAY[j.queue], ARRAY[j.limit_key], ARRAY['-infinity'::timestamptz]); END IF;
    RETURN true;
END
$$;

-- Puts jobs that were set aside back in line, for a worker that serves these queues and knows these tasks, in versions that have not
-- refused them; about `batch`. Of those that another version has refused, and may claim and refuse again, no more than it has `free` slots
-- for. Returns how many.
CREATE FUNCTION rota.take_back(of_queues text[], known text[], schemas text[], free integer, batch integer DEFAULT 2000) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    u rota.unknown_task;
    is_limited boolean;
    moved integer;
    total integer := 0;
BEGIN
    FOR u IN
        SELECT * FROM rota.unknown_task k
        WHERE k.queue = ANY (of_queues) AND EXISTS (
            SELECT FROM unnest(known, schemas) AS m (task, schema) WHERE m.task = k.task AND m.schema <> ALL (k.refused_by))
        ORDER BY k.queue, k.task, k.refused_by FOR UPDATE SKIP LOCKED
    LOOP
        is_limited := EXISTS (SELECT FROM rota.task t WHERE t.name = u.task AND t.limited)
            OR EXISTS (SELECT FROM rota.queue q WHERE q.name = u.queue AND q.limited);
        UPDATE rota.job
        SET state = CASE WHEN is_limited THEN 'held' ELSE 'queued' END, limited = is_limited, line = NULL, updated_at = rota.now()
        WHERE id = ANY (ARRAY(
            SELECT j.id FROM rota.job j
            WHERE j.limited AND j.state = 'held' AND j.line = rota.unknown_line(u.queue, u.task, u.refused_by)
            ORDER BY j.priority, j.run_at, j.id LIMIT CASE WHEN u.refused_by = '{}' THEN batch ELSE least(free, batch) END
            FOR UPDATE SKIP LOCKED));
        GET DIAGNOSTICS moved = ROW_COUNT;
        total := total + moved;
        IF u.refused_by <> '{}' THEN free := free - moved; END IF;
        IF moved = 0 AND rota.first_of_line(rota.unknown_line(u.queue, u.task, u.refused_by)) IS NULL THEN
            DELETE FROM rota.unknown_task k WHERE (k.queue, k.task, k.refused_by) = (u.queue, u.task, u.refused_by);
        END IF;
        EXIT WHEN total >= batch;
    END LOOP;
    IF total > 0 THEN PERFORM rota.wake(); END IF;
    RETURN total;
END
$$;

-- Called now and then by the workers of an application: notes that it has a live worker, and gives the tasks of which jobs may
-- have waited for longer than `patience` of such time: those that were set aside until `until`. A task belongs to the application
-- that has it in its code, or to all if none has.
CREATE FUNCTION rota.overdue_unknown(of_app text, patience interval)
RETURNS TABLE (queue text, task text, refused_by text[], until timestamptz)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    u rota.unknown_task;
    waited_since timestamptz;
BEGIN
    IF NOT EXISTS (SELECT FROM rota.unknown_task) THEN
        DELETE FROM rota.app_uptime WHERE app = of_app;
        RETURN;
    END IF;
    -- One worker at a time: two that begin a period at once would count it twice.
    IF NOT pg_try_advisory_xact_lock(hashtext('rota.app_uptime'), hashtext(of_app)) THEN RETURN; END IF;
    -- Another worker's note may be from after the beginning of this statement: the last period only, or time would count twice.
    UPDATE rota.app_uptime a SET seen_at = greatest(a.seen_at, rota.now())
    WHERE a.app = of_app AND a.seen_at >= rota.now() - interval '30 seconds'
      AND a.began_at = (SELECT max(l.began_at) FROM rota.app_uptime l WHERE l.app = of_app);
    IF NOT FOUND THEN
        INSERT INTO rota.app_uptime (app, began_at, seen_at) VALUES (of_app, rota.now(), rota.now()) ON CONFLICT DO NOTHING;
    END IF;
    FOR u IN SELECT * FROM rota.unknown_task k ORDER BY k.queue, k.task, k.refused_by FOR UPDATE SKIP LOCKED LOOP
        IF rota.first_of_line(rota.unknown_line(u.queue, u.task, u.refused_by)) IS NULL THEN
            DELETE FROM rota.unknown_task k WHERE (k.queue, k.task, k.refused_by) = (u.queue, u.task, u.refused_by);
        END IF;
    END LOOP;
    SELECT p.began_at + (p.total - patience) INTO waited_since FROM (
        SELECT a.began_at, sum(a.seen_at - a.began_at) OVER (ORDER BY a.began_at DESC) AS total
        FROM rota.app_uptime a WHERE a.app = of_app) p
    WHERE p.total >= patience ORDER BY p.began_at DESC LIMIT 1;
    IF waited_since IS NULL THEN RETURN; END IF;
    DELETE FROM rota.app_uptime a WHERE a.app = of_app AND a.seen_at < waited_since;
    RETURN QUERY
        UPDATE rota.unknown_task k SET look_at = rota.now() + least(patience, interval '1 minute')
        WHERE k.since <= waited_since AND k.look_at <= rota.now()
          AND NOT rota.is_known(NULL, k.task, k.refused_by)
          AND NOT EXISTS (SELECT FROM rota.task t
                          WHERE t.name = k.task AND cardinality(t.apps) > 0 AND NOT t.system AND of_app <> ALL (t.apps))
        RETURNING k.queue, k.task, k.refused_by, waited_since;
END
$$;

-- Fails jobs of an unknown task that were set aside until `until`, some at a time; returns how many. A payload that was refused is the
-- error of its job.
CREATE FUNCTION rota.fail_unknown(
    of_queue text, of_task text, refused_by text[], until timestamptz, error json, batch integer DEFAULT 500
) RETURNS integer LANGUAGE plpgsql SET lock_timeout = '500ms' SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    j rota.job;
    reason json;
    failed integer := 0;
BEGIN
    FOR j IN
        SELECT * FROM rota.job k
        WHERE k.limited AND k.state = 'held' AND k.line = rota.unknown_line(of_queue, of_task, refused_by) AND k.updated_at <= until
        ORDER BY k.priority, k.run_at, k.id LIMIT batch FOR UPDATE SKIP LOCKED
    LOOP
        IF j.schedule_id IS NOT NULL THEN
            -- A row that somebody's transaction has locked keeps only its own job waiting.
            PERFORM FROM rota.schedule s WHERE s.id = j.schedule_id AND s.job_id = j.id FOR NO KEY UPDATE SKIP LOCKED;
            CONTINUE WHEN NOT FOUND AND EXISTS (SELECT FROM rota.schedule s WHERE s.id = j.schedule_id AND s.job_id = j.id);
        END IF;
        reason := CASE WHEN cardinality(refused_by) > 0 THEN j.last_error ELSE error END;
        PERFORM rota.record_run(j, j.attempt + 1, 'failed', true, NULL, rota.now(), reason, NULL);
        IF j.schedule_id IS NOT NULL THEN PERFORM rota.settle_schedule(j, 'failed', reason, NULL, NULL); END IF;
        DELETE FROM rota.job k WHERE k.id = j.id;
        IF j.fanout THEN PERFORM rota.release_children(ARRAY[j.id], 'failed'); END IF;
        failed := failed + 1;
    END LOOP;
    RETURN failed;
END
$$;

-- The tasks that other applications have in their code and none of these has. Rota's own belong to everybody.
CREATE FUNCTION rota.tasks_of_others(of_apps text[]) RETURNS text[]
LANGUAGE sql STABLE AS $$
    SELECT ARRAY(SELECT t.name FROM rota.task t WHERE cardinality(t.apps) > 0 AND NOT t.system AND NOT t.apps && of_apps)
$$;

-- The tasks that have enabled recurring rows with a next time: all, or without those of other applications. One look into the
-- index for each.
CREATE FUNCTION rota.recurring_tasks(of_apps text[] DEFAULT NULL) RETURNS text[]
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    others text[] := rota.tasks_of_others(of_apps);
    found text[] := '{}';
    last text := '';
BEGIN
    LOOP
        SELECT s.task INTO last FROM rota.schedule s
        WHERE s.enabled AND s.key IS NOT NULL AND s.next_run_at IS NOT NULL AND s.task > last ORDER BY s.task LIMIT 1;
        EXIT WHEN last IS NULL;
        IF last <> ALL (others) THEN found := found || last; END IF;
    END LOOP;
    RETURN found;
END
$$;
