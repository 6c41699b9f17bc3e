-- Enqueue: one set of rules for Python, psql and table triggers; and who of those enqueued may run within a task's limit.

-- A hint to idle workers. When all are busy nobody asks to be woken, and an insert pays nothing for it.
CREATE FUNCTION rota.wake() RETURNS void
LANGUAGE plpgsql AS $$  -- not sql: that would be planned anew at each call from another function
BEGIN
    IF EXISTS (SELECT FROM rota.worker WHERE wants_wake) THEN PERFORM pg_notify('rota_wake', ''); END IF;
END
$$;

-- Lets held jobs of limited tasks into the ready line, as many as there are places, and says how many. A place is a limited job
-- that is queued or running, so none can leak: what a dead worker ran has its place until it is rescued, and then runs again in it.
--
-- Why there are never too many: nothing else makes a limited job queued that was neither queued nor running, and whoever gets here
-- holds the task's row until the end of its transaction. In READ COMMITTED each statement below has a snapshot of its own, taken
-- when the row was ours, so it counts all that those before us have admitted. Elsewhere it would not, and admission is left to
-- others. Why none is forgotten: a place that becomes free while somebody else counts is free when that row is, and whoever frees
-- it comes here for it. Nobody waits long for the row, or a session that hangs would stop all endings of the task: who has to give
-- up wakes a worker to try again.
CREATE FUNCTION rota.admit_jobs(of_tasks text[]) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '50ms' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    of_task text;
    most integer;
    places integer;
    moved integer;
    admitted integer := 0;
    missed boolean := current_setting('transaction_isolation') <> 'read committed';
BEGIN
    -- In one order, so that two batches of endings do not wait for each other.
    FOR of_task IN SELECT DISTINCT t.name FROM unnest(of_tasks) AS t (name) WHERE NOT missed ORDER BY 1 LOOP
        BEGIN
            SELECT max_concurrency INTO most FROM rota.task WHERE name = of_task FOR NO KEY UPDATE;
        EXCEPTION WHEN lock_not_available THEN
            missed := true;
            CONTINUE;
        END;
        places := 1000;  -- at a time: a limit that was raised or removed must not move a million jobs in one transaction
        IF most IS NOT NULL THEN
            places := least(places, most - (
                SELECT count(*) FROM rota.job j WHERE j.limited AND j.state IN ('queued', 'running') AND j.task = of_task));
        END IF;
        IF places > 0 THEN
            UPDATE rota.job SET state = 'queued', updated_at = rota.now()
            WHERE id = ANY (ARRAY(
                SELECT k.id FROM rota.job k WHERE k.limited AND k.state = 'held' AND k.task = of_task
                ORDER BY k.priority, k.run_at, k.id LIMIT places FOR UPDATE SKIP LOCKED));
            GET DIAGNOSTICS moved = ROW_COUNT;
            admitted := admitted + moved;
        ELSIF places < 0 THEN
            -- The limit was lowered: what runs may end, what does not run yet waits again.
            UPDATE rota.job SET state = 'held', updated_at = rota.now()
            WHERE id = ANY (ARRAY(
                SELECT k.id FROM rota.job k WHERE k.limited AND k.state = 'queued' AND k.task = of_task
                ORDER BY k.priority DESC, k.run_at DESC, k.id DESC LIMIT -places FOR UPDATE SKIP LOCKED));
        END IF;
    END LOOP;
    IF admitted > 0 OR missed THEN PERFORM rota.wake(); END IF;
    RETURN admitted;
END
$$;

-- Admits what it can of all tasks that have held jobs.
CREATE FUNCTION rota.admit_held() RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    of_tasks text[] := '{}';
    next_task text := '';
BEGIN
    -- From task to task: however many jobs one has, finding the next task is one look into the index.
    LOOP
        SELECT j.task INTO next_task FROM rota.job j WHERE j.limited AND j.state = 'held' AND j.task > next_task
        ORDER BY j.task LIMIT 1;
        EXIT WHEN next_task IS NULL;
        of_tasks := of_tasks || next_task;
    END LOOP;
    RETURN CASE WHEN cardinality(of_tasks) > 0 THEN rota.admit_jobs(of_tasks) ELSE 0 END;
END
$$;

-- Locks a new job's live parents, so that none can finish between this look and the insert, and counts them. `refusal` is
-- parent_not_found or parent_failed, for the parent `culprit`. The settings: a batch of jobs grows the tables under plans that were
-- made when they were empty.
CREATE FUNCTION rota.lock_parents(
    parents uuid[], policy text, OUT pending integer, OUT culprit uuid, OUT refusal text
) LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    PERFORM FROM rota.job WHERE id = ANY (parents) ORDER BY id FOR UPDATE;
    UPDATE rota.job SET fanout = true WHERE id = ANY (parents) AND NOT fanout;
    SELECT count(*) INTO pending FROM rota.job WHERE id = ANY (parents);
    SELECT p.id, CASE WHEN r.job_id IS NULL THEN 'parent_not_found' ELSE 'parent_failed' END INTO culprit, refusal
    FROM unnest(parents) AS p (id) LEFT JOIN rota.run r ON r.job_id = p.id AND r.final
    WHERE NOT EXISTS (SELECT FROM rota.job j WHERE j.id = p.id)
      AND (r.job_id IS NULL OR (r.outcome <> 'completed' AND policy <> 'ignore'))
    LIMIT 1;
END
$$;

-- Writes down who waits for whom. Finished parents are part of the lineage too.
CREATE FUNCTION rota.link_parents(child uuid, parents uuid[]) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    INSERT INTO rota.job_edge (parent_id, child_id, settled)
    SELECT DISTINCT p.id, child, NOT EXISTS (SELECT FROM rota.job j WHERE j.id = p.id) FROM unnest(parents) AS p (id);
END
$$;

-- Inserts one job whose values have been validated. `outcome` is created, existing (same key, same payload), key_reused,
-- parent_not_found or parent_failed; job_id is then the job or parent in question. Refusals are values and not exceptions,
-- so that the caller's transaction stays usable.
CREATE FUNCTION rota.insert_job(
    new_id uuid, new_task text, new_payload json, new_queue text, new_priority integer, new_run_at timestamptz,
    new_delay interval, new_max_attempts integer, new_timeout interval, new_retry json, new_key text, new_key_ttl interval,
    new_owner text, new_triggered_by json, parents uuid[], new_on_parent_failure text,
    new_schedule uuid DEFAULT NULL, new_scheduled_for timestamptz DEFAULT NULL, new_limited boolean DEFAULT false,
    OUT job_id uuid, OUT outcome text
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    due timestamptz := coalesce(new_run_at, rota.now() + coalesce(new_delay, interval '0'));
    hash text;
    pending integer := 0;
    known record;
BEGIN
    job_id := new_id;
    IF cardinality(parents) > 0 THEN
        SELECT p.pending, p.culprit, p.refusal INTO pending, job_id, outcome FROM rota.lock_parents(parents, new_on_parent_failure) p;
        IF outcome IS NOT NULL THEN
            -- Who asks again, not knowing that it worked the first time, gets that job, whatever became of its parents since.
            SELECT k.job_id, CASE WHEN k.payload_hash = md5(new_payload::jsonb::text) THEN 'existing' ELSE 'key_reused' END AS outcome
            INTO known FROM rota.job_key k
            WHERE k.task = new_task AND k.key = new_key AND k.owner = coalesce(new_owner, '')
              AND (k.expires_at > rota.now() OR EXISTS (SELECT FROM rota.job j WHERE j.id = k.job_id));
            IF FOUND THEN
                job_id := known.job_id;
                outcome := known.outcome;
            END IF;
            RETURN;
        END IF;
        job_id := new_id;
    END IF;

    IF new_key IS NOT NULL THEN
        -- jsonb, so that the same payload from Python and from SQL has the same hash.
        hash := md5(new_payload::jsonb::text);
        INSERT INTO rota.job_key AS k (owner, task, key, job_id, payload_hash, expires_at)
        VALUES (coalesce(new_owner, ''), new_task, new_key, new_id, hash, rota.now() + new_key_ttl)
        ON CONFLICT (task, key, owner) DO UPDATE
            SET job_id = excluded.job_id, payload_hash = excluded.payload_hash, expires_at = excluded.expires_at
            WHERE k.expires_at <= rota.now() AND NOT EXISTS (SELECT FROM rota.job j WHERE j.id = k.job_id);
        IF NOT FOUND THEN
            SELECT k.job_id, CASE WHEN k.payload_hash = hash THEN 'existing' ELSE 'key_reused' END INTO job_id, outcome
            FROM rota.job_key k WHERE k.task = new_task AND k.key = new_key AND k.owner = coalesce(new_owner, '');
            RETURN;
        END IF;
    END IF;

    INSERT INTO rota.job (id, task, payload, queue, priority, run_at, max_attempts, timeout, retry, key, owner, triggered_by, schedule_id, scheduled_for,
                          pending_parents, on_parent_failure, limited, state)
    VALUES (new_id, new_task, new_payload, new_queue, new_priority, due, new_max_attempts, new_timeout, new_retry, new_key,
            new_owner, new_triggered_by, new_schedule, new_scheduled_for, pending, new_on_parent_failure, new_limited,
            CASE WHEN pending > 0 THEN 'waiting' WHEN due > rota.now() THEN 'delayed' WHEN new_limited THEN 'held' ELSE 'queued' END);
    IF cardinality(parents) > 0 THEN PERFORM rota.link_parents(new_id, parents); END IF;
    PERFORM rota.wake();
    outcome := 'created';
END
$$;

-- The door for SQL: SELECT rota.enqueue('send_welcome', '{"user_id": 7}'). Settings left out are the task's.
CREATE FUNCTION rota.enqueue(
    task text, payload jsonb DEFAULT '{}', queue text DEFAULT NULL, priority integer DEFAULT NULL,
    run_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL, key text DEFAULT NULL, key_ttl interval DEFAULT '1 day',
    strict boolean DEFAULT false, max_attempts integer DEFAULT NULL, timeout interval DEFAULT NULL, owner text DEFAULT NULL,
    parents uuid[] DEFAULT '{}', on_parent_failure text DEFAULT 'cancel', triggered_by json DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    t rota.task;
    missing text;
    made record;
BEGIN
    SELECT * INTO t FROM rota.task k WHERE k.name = enqueue.task;
    IF t.name IS NULL THEN
        RAISE EXCEPTION 'unknown task "%"', task USING ERRCODE = 'RT404',
            HINT = 'A worker makes its tasks known when it starts. Known: ' ||
                   coalesce((SELECT string_agg(k.name, ', ' ORDER BY k.name) FROM rota.task k WHERE NOT starts_with(k.name, 'rota.')),
                            'none') || '.';
    END IF;
    IF payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
        RAISE EXCEPTION 'payload of "%" must be a JSON object, not %', task, coalesce(jsonb_typeof(payload), 'NULL') USING ERRCODE = 'RT422';
    END IF;
    IF octet_length(payload::text) > 1048576 THEN
        RAISE EXCEPTION 'payload of "%" is % bytes, more than the 1048576 allowed', task, octet_length(payload::text) USING ERRCODE = 'RT422',
            HINT = 'Store the data elsewhere and enqueue a reference to it.';
    END IF;
    SELECT string_agg(quote_ident(r.name), ', ') INTO missing
    FROM json_array_elements_text(coalesce(t.payload_schema -> 'required', '[]')) AS r (name) WHERE NOT payload ? r.name;
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION 'payload of "%" lacks %', task, missing USING ERRCODE = 'RT422';
    END IF;
    SELECT string_agg(quote_ident(k.name), ', ') INTO missing
    FROM jsonb_object_keys(payload) AS k (name)
    WHERE (t.payload_schema ->> 'additionalProperties') = 'false'
      AND (t.payload_schema -> 'properties' -> k.name) IS NULL;
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION 'task "%" has no parameter %', task, missing USING ERRCODE = 'RT422';
    END IF;
    IF queue IS NOT NULL AND NOT EXISTS (SELECT FROM rota.queue q WHERE q.name = queue) THEN
        RAISE EXCEPTION 'unknown queue "%"', queue USING ERRCODE = 'RT404',
            HINT = 'Known: ' || coalesce((SELECT string_agg(q.name, ', ' ORDER BY q.name) FROM rota.queue q), 'none') || '.';
    END IF;
    IF run_at IS NOT NULL AND delay IS NOT NULL THEN
        RAISE EXCEPTION 'give run_at or delay, not both' USING ERRCODE = 'RT422';
    END IF;
    IF run_at NOT BETWEEN '1970-01-01' AND '9999-12-31' OR delay NOT BETWEEN interval '0' AND interval '3660 days' THEN
        RAISE EXCEPTION 'run_at % or delay % is out of range', run_at, delay USING ERRCODE = 'RT422',
            HINT = 'run_at is from 1970 to 9999, delay from 0 to 3660 days; a small priority puts a job first in line.';
    END IF;
    SELECT * INTO made FROM rota.insert_job(
        rota.uuid7(), task, payload::json, coalesce(queue, t.queue), coalesce(priority, t.priority), run_at, delay,
        coalesce(max_attempts, t.max_attempts), coalesce(timeout, t.timeout), NULL, key, key_ttl, owner,
        coalesce(triggered_by, json_build_object('kind', 'sql', 'user', session_user)), parents, on_parent_failure,
        new_limited => t.max_concurrency IS NOT NULL);
    IF made.outcome = 'key_reused' THEN
        RAISE EXCEPTION 'key "%" of task "%" belongs to job % with another payload', key, task, made.job_id USING ERRCODE = 'RT409';
    ELSIF made.outcome = 'existing' AND strict THEN
        RAISE EXCEPTION 'a job with key "%" of task "%" exists: %', key, task, made.job_id USING ERRCODE = 'RT409';
    ELSIF made.outcome = 'parent_not_found' THEN
        RAISE EXCEPTION 'parent job % does not exist', made.job_id USING ERRCODE = 'RT422';
    ELSIF made.outcome = 'parent_failed' THEN
        RAISE EXCEPTION 'parent job % has failed or was canceled', made.job_id USING ERRCODE = 'RT409',
            HINT = 'on_parent_failure => ''ignore'' runs the job all the same.';
    END IF;
    RETURN made.job_id;
END
$$;
