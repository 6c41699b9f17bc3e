-- Retention: what removes old history, a bounded piece at a time. Nothing that is live is ever touched.

-- Each statement below has one right plan, which a planner that believes a table to be empty, as it was when the session began, must not
-- miss: OFFSET 0 makes a look of what could be a join, and a pair of columns leaves one index to walk by.

-- Removes the history of these jobs of a task: runs, lines of the log, edges. Not of those that are live, whose child is, of whose
-- deadline the scheduler has yet to judge, or that somebody is retrying right now. Returns how many jobs went.
CREATE FUNCTION rota.prune_jobs(of_task text, ids uuid[], with_logs boolean) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '500ms' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    lowest uuid := (SELECT i.id FROM unnest(ids) AS i (id) ORDER BY 1 LIMIT 1);  -- so that only their partitions are looked at
    highest uuid := (SELECT i.id FROM unnest(ids) AS i (id) ORDER BY 1 DESC LIMIT 1);
    held uuid[];
    awaited uuid[];
    doomed uuid[];
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);  -- what a crash of the server brings back goes the next time
    -- Who retries a job locks its last run first: what is ours now cannot come alive before we have committed.
    SELECT coalesce(array_agg(r.job_id), '{}'), coalesce(array_agg(r.job_id) FILTER (WHERE r.schedule_id IS NOT NULL AND EXISTS (
               SELECT FROM rota.occurrence o
               WHERE o.schedule_id = r.schedule_id AND o.instant = r.scheduled_for AND num_nonnulls(o.start_by, o.finish_by) > 0
               OFFSET 0)), '{}')
    INTO held, awaited
    FROM (SELECT f.job_id, f.schedule_id, f.scheduled_for FROM rota.run f
          WHERE f.task = of_task AND f.job_id = ANY (ids) AND f.job_id BETWEEN lowest AND highest AND f.final
          FOR UPDATE SKIP LOCKED) r;
    IF cardinality(held) < cardinality(ids) THEN
        -- Jobs without one have been removed by hand.
        held := held || ARRAY(
            SELECT i.id FROM (SELECT unnest(ids) EXCEPT SELECT unnest(held)) AS i (id)
            WHERE NOT EXISTS (SELECT FROM rota.run r WHERE r.task = of_task AND r.job_id = i.id AND r.final OFFSET 0));
    END IF;
    -- A statement of its own, which sees who came alive before the lock was ours.
    doomed := ARRAY(
        SELECT i.id FROM unnest(held) AS i (id)
        WHERE NOT EXISTS (SELECT FROM rota.job j WHERE j.id = i.id OFFSET 0)
          AND NOT EXISTS (
              SELECT FROM rota.job_edge e
              WHERE e.parent_id = i.id AND EXISTS (SELECT FROM rota.job c WHERE c.id = e.child_id OFFSET 0) OFFSET 0)
          AND (awaited = '{}' OR i.id <> ALL (awaited)));
    DELETE FROM rota.run r WHERE r.task = of_task AND r.job_id = ANY (doomed) AND r.job_id BETWEEN lowest AND highest;
    IF with_logs THEN DELETE FROM rota.log WHERE job_id = ANY (doomed); END IF;
    DELETE FROM rota.job_edge WHERE parent_id = ANY (doomed);
    DELETE FROM rota.job_edge WHERE child_id = ANY (doomed);
    RETURN cardinality(doomed);
END
$$;

-- Looks at the next runs of a task, from the oldest job on, and removes those of jobs that ended before `ended_before`; with `upto`
-- those of all jobs up to that one. `reached` is where to go on, NULL at the end.
CREATE FUNCTION rota.prune_runs(
    of_task text, after uuid, ended_before timestamptz, upto uuid, with_logs boolean, batch integer,
    OUT reached uuid, OUT pruned integer
) LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_sort = off AS $$
DECLARE
    last uuid := coalesce(upto, rota.uuid7_floor(ended_before));
    looked integer;
    ids uuid[];
BEGIN
    SELECT count(*), (array_agg(w.job_id ORDER BY w.job_id DESC))[1],
           array_agg(DISTINCT w.job_id) FILTER (WHERE upto IS NOT NULL OR (w.finished_at < ended_before AND (w.final OR NOT EXISTS (
               SELECT FROM rota.run f
               WHERE f.task = of_task AND f.job_id = w.job_id AND f.final AND f.finished_at >= ended_before OFFSET 0))))
    INTO looked, reached, ids
    FROM (SELECT r.job_id, r.final, r.finished_at FROM rota.run r
          WHERE (r.task, r.job_id) > (of_task, after) AND (r.task, r.job_id) <= (of_task, last)
            AND r.job_id > after AND r.job_id <= last  -- for the choice of partitions
          ORDER BY r.task, r.job_id, r.attempt LIMIT batch) w;
    IF looked < batch THEN reached := NULL; END IF;
    pruned := CASE WHEN cardinality(ids) > 0 THEN rota.prune_jobs(of_task, ids, with_logs) ELSE 0 END;
END
$$;

-- The tasks that have runs: from one to the next, a look into the index each.
CREATE FUNCTION rota.run_tasks() RETURNS SETOF text
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    name text := '';
BEGIN
    LOOP
        SELECT r.task INTO name FROM rota.run r WHERE r.task > name ORDER BY r.task LIMIT 1;
        EXIT WHEN name IS NULL;
        RETURN NEXT name;
    END LOOP;
END
$$;

-- The same of the lines of logs.
CREATE FUNCTION rota.log_tasks() RETURNS SETOF text
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    name text := '';
BEGIN
    LOOP
        SELECT l.task INTO name FROM rota.log l WHERE l.task > name ORDER BY l.task LIMIT 1;
        EXIT WHEN name IS NULL;
        RETURN NEXT name;
    END LOOP;
END
$$;

-- Partitions whose time is over, of the table run (weeks) or log (days). One that is detached was being dropped when
-- somebody was killed.
CREATE FUNCTION rota.old_partitions(of_table text, older_than timestamptz)
RETURNS TABLE (name text, low timestamptz, high timestamptz, attached boolean)
LANGUAGE sql STABLE AS $$
    SELECT c.relname::text, d.low, d.high, EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid)
    FROM pg_class c
    CROSS JOIN LATERAL (
        SELECT to_timestamp(right(c.relname, 8), 'YYYYMMDD')::timestamp AT TIME ZONE 'UTC' AS low) l
    CROSS JOIN LATERAL (
        SELECT l.low, l.low + CASE of_table WHEN 'run' THEN interval '168 hours' ELSE interval '24 hours' END AS high) d
    WHERE c.relnamespace = 'rota'::regnamespace AND c.relkind = 'r' AND c.relname ~ ('^' || of_table || '_[0-9]{8}$')
      AND d.high <= older_than
    ORDER BY c.relname
$$;

-- Whether no job of that time is live, nor a child of one, nor has a deadline that is to be judged.
CREATE FUNCTION rota.is_over(low timestamptz, high timestamptz) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    RETURN NOT EXISTS (SELECT FROM rota.job j WHERE j.id >= rota.uuid7_floor(low) AND j.id < rota.uuid7_floor(high))
        AND NOT EXISTS (SELECT FROM rota.job_edge e
                        WHERE e.parent_id >= rota.uuid7_floor(low) AND e.parent_id < rota.uuid7_floor(high)
                          AND EXISTS (SELECT FROM rota.job c WHERE c.id = e.child_id OFFSET 0))
        AND NOT EXISTS (SELECT FROM rota.occurrence o WHERE o.start_by IS NOT NULL
                        AND o.job_id >= rota.uuid7_floor(low) AND o.job_id < rota.uuid7_floor(high))
        AND NOT EXISTS (SELECT FROM rota.occurrence o WHERE o.finish_by IS NOT NULL
                        AND o.job_id >= rota.uuid7_floor(low) AND o.job_id < rota.uuid7_floor(high));
END
$$;

-- Takes a week of runs out of the history, which hides it from everybody; false when it has to stay: a job of that week is live, or
-- a child of one is, or a deadline is yet to be judged. Completions wait meanwhile, so it does not wait for others itself.
CREATE FUNCTION rota.detach_run_partition(of_name text, low timestamptz, high timestamptz) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '100ms' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    IF NOT rota.is_over(low, high) THEN RETURN false; END IF;
    LOCK TABLE rota.run IN ACCESS EXCLUSIVE MODE;
    -- Once more, quickly: nobody can retry a job of it now.
    IF EXISTS (SELECT FROM rota.job j WHERE j.id >= rota.uuid7_floor(low) AND j.id < rota.uuid7_floor(high)) THEN RETURN false; END IF;
    EXECUTE format('ALTER TABLE rota.run DETACH PARTITION rota.%I', of_name);
    RETURN true;
END
$$;

-- Drops a day of logs, unless a live job has lines in it.
CREATE FUNCTION rota.drop_log_partition(of_name text, high timestamptz) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '100ms' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    has_live boolean;
    look text := format('SELECT EXISTS (SELECT FROM rota.job j WHERE j.id < rota.uuid7_floor(%L) AND j.attempt > 0
                         AND EXISTS (SELECT FROM rota.%I l WHERE l.job_id = j.id))', high, of_name);
BEGIN
    EXECUTE look INTO has_live;
    IF has_live THEN RETURN false; END IF;
    LOCK TABLE rota.log IN ACCESS EXCLUSIVE MODE;
    EXECUTE look INTO has_live;
    IF has_live THEN RETURN false; END IF;
    EXECUTE format('DROP TABLE rota.%I', of_name);
    RETURN true;
END
$$;

-- Removes lines of a task's logs that are older than that, not those of live jobs.
CREATE FUNCTION rota.prune_log_lines(of_task text, before timestamptz, batch integer) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '500ms' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off AS $$
DECLARE
    old record;
    pruned integer := 0;
    removed integer;
BEGIN
    -- By run, for that is how a line can be found again.
    FOR old IN
        SELECT l.job_id, l.attempt, max(l.at) AS at FROM (
            SELECT k.job_id, k.attempt, k.at FROM rota.log k
            WHERE k.task >= of_task AND (k.task, k.at) < (of_task, before) AND k.at < before
              AND NOT EXISTS (SELECT FROM rota.job j WHERE j.id = k.job_id OFFSET 0)
            ORDER BY k.task, k.at LIMIT batch) l
        GROUP BY l.job_id, l.attempt
    LOOP
        DELETE FROM rota.log k WHERE k.job_id = old.job_id AND k.attempt = old.attempt AND k.at <= old.at;
        GET DIAGNOSTICS removed = ROW_COUNT;
        pruned := pruned + removed;
    END LOOP;
    RETURN pruned;
END
$$;

-- Removes the lines of jobs of which there is nothing else: neither live nor in the history, although their task's runs are kept
-- there. Looks at the next jobs that have lines; `reached` is where to go on, NULL at the end.
CREATE FUNCTION rota.prune_orphaned_logs(after uuid, batch integer, OUT reached uuid, OUT pruned integer)
LANGUAGE plpgsql SET lock_timeout = '500ms' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET enable_sort = off AS $$
DECLARE
    removed integer;
    of_task text;
BEGIN
    reached := after;
    pruned := 0;
    FOR n IN 1..batch LOOP
        -- Young ones may have a run that is just being written.
        SELECT l.job_id, l.task INTO reached, of_task FROM rota.log l
        WHERE l.job_id > reached AND l.job_id < rota.uuid7_floor(rota.now() - interval '1 hour') ORDER BY l.job_id LIMIT 1;
        EXIT WHEN reached IS NULL;
        CONTINUE WHEN EXISTS (SELECT FROM rota.job j WHERE j.id = reached) OR EXISTS (SELECT FROM rota.run r WHERE r.task = of_task AND r.job_id = reached)
            OR EXISTS (SELECT FROM rota.schedule s WHERE s.task = of_task AND s.key IS NOT NULL AND NOT s.keep_successes)
            OR starts_with(of_task, 'rota.');
        DELETE FROM rota.log WHERE job_id = reached;
        GET DIAGNOSTICS removed = ROW_COUNT;
        pruned := pruned + removed;
    END LOOP;
END
$$;
