-- Enqueue: one set of rules for Python, psql and table triggers; and who of those enqueued may run within the limits.

-- A hint to idle workers. When all are busy nobody asks to be woken, and an insert pays nothing for it.
CREATE FUNCTION rota.wake() RETURNS void
LANGUAGE plpgsql AS $$  -- not sql: that would be planned anew at each call from another function
BEGIN
    IF EXISTS (SELECT FROM rota.worker WHERE wants_wake) THEN PERFORM pg_notify('rota_wake', ''); END IF;
END
$$;

-- Limits. A limited job that is due is held and goes from gate to gate: that of its key, of its task, of its queue, as far as these have
-- a limit. Before each there is a line, and `line` says in which it stands: 'k task key', 't task', 'q queue', or 'p queue' when it has
-- all the places it needs and is ready or runs. New ones have none, and line up first. A place of a gate is a limited job that has
-- passed it, so none can leak: what a dead worker ran has its places until it is rescued, and then runs again in them.
--
-- Why there are never too many: nothing else moves a limited job past a gate, and whoever gets here holds the row of the gate, the
-- task's or the queue's, until the end of its transaction. In READ COMMITTED each statement below has a snapshot of its own, taken
-- when the row was ours, so it counts all that those before us have admitted. Elsewhere it would not, and admission is left to
-- others. Why none is forgotten: a place that becomes free while somebody else counts is free when that row is, and whoever frees
-- it comes here for it. Nobody waits long for the row, or a session that hangs would stop all endings of the task: who has to give
-- up leaves word that a worker is to look again. Nobody ever looks at those who wait but for the first of a line.

-- Leaves word that lines are to be looked at from `at` on.
CREATE FUNCTION rota.look_at_lines(of_lines text[], at timestamptz) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_variable
BEGIN
    INSERT INTO rota.limit_look (line, look_at)
    SELECT DISTINCT l.line, at FROM unnest(of_lines) AS l (line)
    WHERE NOT EXISTS (SELECT FROM rota.limit_look k WHERE k.line = l.line AND k.look_at <= at);
END
$$;

-- The key of a job by the template of its task: '{customer_id}', 'tenant-{tenant}/{region}'. An argument that is left out is empty.
-- What is too long to be indexed is cut, and told from others by a hash.
CREATE FUNCTION rota.limit_key(template text, payload json) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    parts text[] := string_to_array(template, '{');
    key text := parts[1];
BEGIN
    FOR n IN 2..cardinality(parts) LOOP
        key := key || coalesce(payload ->> split_part(parts[n], '}', 1), '') || substr(parts[n], strpos(parts[n], '}') + 1);
    END LOOP;
    RETURN CASE WHEN octet_length(key) <= 200 THEN key ELSE left(key, 40) || ' ' || md5(key) END;
END
$$;

-- Who comes next in a line. The order says which index is meant: to a planner that believes the table to be empty all are the same.
CREATE FUNCTION rota.first_of_line(of_line text) RETURNS uuid
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    RETURN (SELECT j.id FROM rota.job j WHERE j.limited AND j.state = 'held' AND j.line = of_line
            ORDER BY j.priority, j.run_at, j.id LIMIT 1);
END
$$;

-- Puts held jobs that have come in since the last time in their first line, and gives the lines; jobs that no limit concerns any more
-- are ready. No gate's row is needed for that, so a locked one keeps nobody else from lining up.
CREATE FUNCTION rota.line_up(batch integer, OUT lines text[], OUT ready bigint, OUT seen bigint)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off AS $$
#variable_conflict use_column
DECLARE
    new uuid[] := ARRAY(SELECT k.id FROM rota.job k WHERE k.limited AND k.state = 'held' AND k.line IS NULL
                        ORDER BY k.line, k.priority, k.run_at, k.id LIMIT batch FOR UPDATE SKIP LOCKED);
BEGIN
    lines := '{}';
    ready := 0;
    seen := cardinality(new);
    IF seen = 0 THEN RETURN; END IF;
    WITH sorted AS MATERIALIZED (
        SELECT k.id, s.key, CASE WHEN s.key IS NOT NULL THEN 'k ' || k.task || ' ' || s.key
                                 WHEN t.max_concurrency IS NOT NULL OR t.rate IS NOT NULL OR NOT t.enabled THEN 't ' || k.task
                                 WHEN q.limited THEN 'q ' || k.queue ELSE 'p ' || k.queue END AS line
        FROM rota.job k
        LEFT JOIN rota.task t ON t.name = k.task
        LEFT JOIN rota.queue q ON q.name = k.queue
        CROSS JOIN LATERAL (SELECT CASE WHEN t.concurrency_key IS NOT NULL THEN rota.limit_key(t.concurrency_key, k.payload) END) AS s (key)
        WHERE k.id = ANY (new)
    ), moved AS (
        UPDATE rota.job j
        SET limit_key = s.key, line = s.line, state = CASE WHEN starts_with(s.line, 'p') THEN 'queued' ELSE 'held' END, updated_at = rota.now()
        FROM sorted s WHERE j.id = s.id
        RETURNING s.line
    )
    SELECT array_agg(DISTINCT m.line), count(*) FILTER (WHERE starts_with(m.line, 'p')) INTO lines, ready FROM moved m;
    -- A place of a key that was made free behind our back, by somebody who deleted jobs, is found by a walk through the lines.
    IF EXISTS (SELECT FROM unnest(lines) AS l (line) WHERE starts_with(l.line, 'k'))
        AND NOT EXISTS (SELECT FROM rota.limit_look w WHERE w.line >= 's' AND w.line < 't')
    THEN
        INSERT INTO rota.limit_look (line, look_at) VALUES ('s', rota.now() + interval '30 seconds');
    END IF;
END
$$;

-- Lets those through the gates of these lines, and of the lines behind them, for whom there is room. Says how many are ready now.
CREATE FUNCTION rota.admit_lines(of_lines text[]) RETURNS integer
LANGUAGE plpgsql
SET lock_timeout = '50ms' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    todo text[] := of_lines;
    gate text;
    this text;
    of_name text;
    of_key text;
    keeper text;            -- the row to hold
    ours text[] := '{}';    -- those that we hold, and those that others have
    theirs text[] := '{}';
    missed text[] := '{}';
    t rota.task;
    q rota.queue;
    most integer;           -- at once
    rate text;
    starts integer;         -- within `per`
    per interval;
    since timestamptz;
    taken bigint;           -- places
    begun bigint;           -- what counts against the rate: has begun within `per`, or is about to
    first_begun timestamptz;
    used bigint;
    first_used timestamptz;
    places bigint;
    next_lines text[];
    moved bigint;
    ready bigint;
    admitted bigint := 0;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM rota.look_at_lines(of_lines, rota.now()), rota.wake();
        RETURN 0;
    END IF;
    -- Keys, tasks, queues, and each in one order, so that two batches of endings do not wait for each other.
    FOREACH gate IN ARRAY '{k,t,q}'::text[] LOOP
        FOR this IN SELECT DISTINCT l.line FROM unnest(todo) AS l (line) WHERE left(l.line, 1) = gate ORDER BY 1 LOOP
            of_name := split_part(this, ' ', 2);
            of_key := substr(this, length(of_name) + 4);
            IF gate = 'q' THEN
                SELECT * INTO q FROM rota.queue WHERE name = of_name;
                most := q.max_concurrency;
                rate := q.rate;
            ELSE
                SELECT * INTO t FROM rota.task WHERE name = of_name;
                most := CASE WHEN gate = 'k' THEN t.key_concurrency WHEN t.enabled THEN t.max_concurrency ELSE 0 END;
                rate := CASE gate WHEN 'k' THEN t.key_rate ELSE t.rate END;
            END IF;
            -- Nothing to keep, and nobody to let through.
            CONTINUE WHEN most IS NULL AND rate IS NULL AND rota.first_of_line(this) IS NULL;
            keeper := CASE gate WHEN 'q' THEN 'queue ' ELSE 'task ' END || of_name;
            IF keeper = ANY (theirs) THEN
                missed := missed || this;
                CONTINUE;
            ELSIF keeper <> ALL (ours) THEN
                BEGIN
                    IF gate = 'q' THEN
                        SELECT * INTO q FROM rota.queue WHERE name = of_name FOR NO KEY UPDATE;
                    ELSE
                        SELECT * INTO t FROM rota.task WHERE name = of_name FOR NO KEY UPDATE;
                    END IF;
                    ours := ours || keeper;
                EXCEPTION WHEN lock_not_available THEN
                    theirs := theirs || keeper;
                    missed := missed || this;
                    CONTINUE;
                END;
                most := CASE WHEN gate = 'q' THEN q.max_concurrency WHEN gate = 'k' THEN t.key_concurrency
                             WHEN t.enabled THEN t.max_concurrency ELSE 0 END;
                rate := CASE gate WHEN 'q' THEN q.rate WHEN 'k' THEN t.key_rate ELSE t.rate END;
            END IF;

            places := 1000;  -- at a time: a limit that was raised or removed must not move a million jobs in one transaction
            starts := split_part(rate, '/', 1);
            per := split_part(rate, '/', 2);
            since := rota.now() - coalesce(per, interval '0');
            IF most IS NULL AND rate IS NULL THEN
                taken := 0;
            ELSIF gate = 'q' THEN
                SELECT count(*), count(*) FILTER (WHERE j.state <> 'running' OR j.claimed_at > since),
                       min(j.claimed_at) FILTER (WHERE j.state = 'running' AND j.claimed_at > since)
                INTO taken, begun, first_begun FROM rota.job j
                WHERE j.limited AND j.state = ANY ('{queued,running}') AND j.line = 'p ' || of_name;
            ELSIF gate = 't' THEN
                SELECT count(*), count(*) FILTER (WHERE j.state <> 'running' OR j.claimed_at > since),
                       min(j.claimed_at) FILTER (WHERE j.state = 'running' AND j.claimed_at > since)
                INTO taken, begun, first_begun
                FROM (VALUES ('held', 'q'), ('queued', 'p'), ('running', 'p')) AS w (state, letter) CROSS JOIN LATERAL (
                    SELECT i.state, i.claimed_at FROM rota.job i
                    WHERE i.limited AND i.task = of_name AND i.state = w.state AND left(i.line, 1) = w.letter OFFSET 0) j;
            ELSE
                SELECT count(*), count(*) FILTER (WHERE j.state <> 'running' OR j.claimed_at > since),
                       min(j.claimed_at) FILTER (WHERE j.state = 'running' AND j.claimed_at > since)
                INTO taken, begun, first_begun
                FROM (VALUES ('held', 'q'), ('held', 't'), ('queued', 'p'), ('running', 'p')) AS w (state, letter) CROSS JOIN LATERAL (
                    SELECT i.state, i.claimed_at FROM rota.job i
                    WHERE i.limited AND i.task = of_name AND i.state = w.state AND left(i.line, 1) = w.letter AND i.limit_key = of_key
                    OFFSET 0) j;
            END IF;
            IF most IS NOT NULL THEN places := least(places, most - taken); END IF;
            IF rate IS NOT NULL THEN
                SELECT coalesce(sum(u.uses), 0), min(u.at) INTO used, first_used FROM rota.limit_use u WHERE u.line = this AND u.at > since;
                places := least(places, starts - begun - used);
            END IF;

            moved := 0;
            IF places > 0 THEN
                WITH through AS (
                    UPDATE rota.job j
                    SET line = n.line, state = CASE WHEN starts_with(n.line, 'p') THEN 'queued' ELSE 'held' END, updated_at = rota.now()
                    FROM (
                        SELECT k.id, CASE
                            WHEN gate = 'k' AND (t.max_concurrency IS NOT NULL OR t.rate IS NOT NULL OR NOT t.enabled) THEN 't ' || of_name
                            WHEN gate <> 'q' AND EXISTS (SELECT FROM rota.queue w WHERE w.name = k.queue AND w.limited) THEN 'q ' || k.queue
                            ELSE 'p ' || k.queue END AS line
                        FROM (SELECT f.id, f.queue FROM rota.job f WHERE f.limited AND f.state = 'held' AND f.line = this
                              ORDER BY f.priority, f.run_at, f.id LIMIT places FOR UPDATE SKIP LOCKED) k
                        OFFSET 0
                    ) n
                    WHERE j.id = n.id
                    RETURNING j.line
                )
                SELECT count(*), count(*) FILTER (WHERE starts_with(h.line, 'p')), array_agg(DISTINCT h.line)
                INTO moved, ready, next_lines FROM through h;
                admitted := admitted + ready;
                todo := todo || next_lines;
            ELSIF taken > most THEN
                -- The limit was lowered, or the task disabled: what runs may end, what does not run yet waits again.
                UPDATE rota.job SET state = 'held', line = this, updated_at = rota.now()
                WHERE id = ANY (ARRAY(
                    SELECT k.id FROM rota.job k WHERE k.limited AND k.state IN ('held', 'queued') AND k.id = ANY (ARRAY(
                        SELECT j.id FROM (VALUES ('held', 'q'), ('held', 't'), ('queued', 'p')) AS w (state, letter) CROSS JOIN LATERAL (
                            SELECT i.id, i.limit_key FROM rota.job i
                            WHERE i.limited AND i.task = of_name AND i.state = w.state AND left(i.line, 1) = w.letter OFFSET 0) j
                        WHERE gate = 'k' AND j.limit_key = of_key OR gate = 't' AND w.letter <> 't'))
                    ORDER BY k.priority DESC, k.run_at DESC, k.id DESC LIMIT least(taken - most, 1000) FOR UPDATE SKIP LOCKED))
                OR id = ANY (ARRAY(
                    SELECT k.id FROM rota.job k
                    WHERE k.limited AND gate = 'q' AND k.state = 'queued' AND k.line = 'p ' || of_name
                    ORDER BY k.priority DESC, k.run_at DESC, k.id DESC LIMIT least(taken - most, 1000) FOR UPDATE SKIP LOCKED));
            END IF;
            -- Time will let the next one through: somebody has to look then.
            IF rate IS NOT NULL AND starts - begun - used <= moved AND (most IS NULL OR taken + moved < most)
                AND rota.first_of_line(this) IS NOT NULL
            THEN
                PERFORM rota.look_at_lines(ARRAY[this], greatest(
                    coalesce(least(first_begun, first_used) + per, rota.now() + per / starts), rota.now() + interval '5 milliseconds'));
            END IF;
        END LOOP;
    END LOOP;
    IF cardinality(missed) > 0 THEN PERFORM rota.look_at_lines(missed, rota.now() + interval '20 milliseconds'); END IF;
    IF admitted > 0 OR cardinality(missed) > 0 THEN PERFORM rota.wake(); END IF;
    RETURN admitted;
END
$$;

-- Admits what it can of these tasks' jobs, after a change of their limits.
CREATE FUNCTION rota.admit_jobs(of_tasks text[]) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    n record;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM rota.wake();
        RETURN 0;
    END IF;
    SELECT * INTO n FROM rota.line_up(1000);
    RETURN n.ready + rota.admit_lines(n.lines || ARRAY(SELECT 't ' || t.name FROM unnest(of_tasks) AS t (name)));
END
$$;

-- Gives away the places of limited jobs that have just ended or been put off, in the transaction that did so. `begun` is when they
-- began, which rates count on for a while.
CREATE FUNCTION rota.vacate(tasks text[], queues text[], keys text[], begun timestamptz[]) RETURNS bigint
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    blind boolean := current_setting('transaction_isolation') <> 'read committed';  -- cannot see what others have done
    u record;
    n record;
    lines text[] := ARRAY(
        SELECT l.line FROM unnest(tasks, queues, keys) AS j (task, queue, key),
            LATERAL (VALUES ('k ' || j.task || ' ' || j.key), ('t ' || j.task), ('q ' || j.queue)) AS l (line)
        WHERE l.line IS NOT NULL);
BEGIN
    FOR u IN
        SELECT s.line, s.at, s.per, count(*) AS uses, s.coarse FROM (
            SELECT r.line, p.per, p.starts > 100 AS coarse,
                   -- By the hundredth of the period where there may be very many, and never too early.
                   CASE WHEN p.starts <= 100 THEN j.at ELSE date_bin(p.per / 100, j.at, '2000-01-01+0') + p.per / 100 END AS at, j.at AS began
            FROM unnest(tasks, queues, keys, begun) AS j (task, queue, key, at)
            LEFT JOIN rota.task t ON t.name = j.task AND num_nonnulls(t.rate, t.key_rate) > 0
            LEFT JOIN rota.queue q ON q.name = j.queue AND q.rate IS NOT NULL,
            LATERAL (VALUES ('k ' || j.task || ' ' || j.key, t.key_rate), ('t ' || j.task, t.rate), ('q ' || j.queue, q.rate)) AS r (line, rate),
            LATERAL (SELECT split_part(r.rate, '/', 1)::integer AS starts, split_part(r.rate, '/', 2)::interval AS per) AS p
            WHERE r.rate IS NOT NULL AND r.line IS NOT NULL AND j.at > rota.now() - p.per
        ) s GROUP BY 1, 2, 3, 5
    LOOP
        IF u.coarse AND NOT blind THEN
            UPDATE rota.limit_use SET uses = limit_use.uses + u.uses WHERE id = (
                SELECT x.id FROM rota.limit_use x WHERE x.line = u.line AND x.at = u.at LIMIT 1 FOR UPDATE SKIP LOCKED);
            CONTINUE WHEN FOUND;
        END IF;
        INSERT INTO rota.limit_use (line, at, uses, expires_at) VALUES (u.line, u.at, u.uses, u.at + u.per);
    END LOOP;
    IF blind THEN
        RETURN rota.admit_lines(lines);  -- which leaves it to others
    END IF;
    SELECT * INTO n FROM rota.line_up(100);
    IF n.ready > 0 THEN PERFORM rota.wake(); END IF;
    RETURN n.ready + rota.admit_lines(lines || n.lines);
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
    new_digests text[] DEFAULT NULL,
    OUT job_id uuid, OUT outcome text
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    due timestamptz := coalesce(new_run_at, rota.now() + coalesce(new_delay, interval '0'));
    pending integer := 0;
    known record;
BEGIN
    job_id := new_id;
    IF cardinality(parents) > 0 THEN
        SELECT p.pending, p.culprit, p.refusal INTO pending, job_id, outcome FROM rota.lock_parents(parents, new_on_parent_failure) p;
        IF outcome IS NOT NULL THEN
            -- Who asks again, not knowing that it worked the first time, gets that job, whatever became of its parents since.
            SELECT k.job_id, CASE WHEN k.payload_hash = ANY (coalesce(new_digests, ARRAY[md5(new_payload::jsonb::text)])) THEN 'existing' ELSE 'key_reused' END AS outcome
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
        -- jsonb, so that the same payload from Python and from SQL has the same hash. One with secrets has digests, the newest key's first.
        new_digests := coalesce(new_digests, ARRAY[md5(new_payload::jsonb::text)]);
        INSERT INTO rota.job_key AS k (owner, task, key, job_id, payload_hash, expires_at)
        VALUES (coalesce(new_owner, ''), new_task, new_key, new_id, new_digests[1], rota.now() + new_key_ttl)
        ON CONFLICT (task, key, owner) DO UPDATE
            SET job_id = excluded.job_id, payload_hash = excluded.payload_hash, expires_at = excluded.expires_at
            WHERE k.expires_at <= rota.now() AND NOT EXISTS (SELECT FROM rota.job j WHERE j.id = k.job_id);
        IF NOT FOUND THEN
            SELECT k.job_id, CASE WHEN k.payload_hash = ANY (new_digests) THEN 'existing' ELSE 'key_reused' END INTO job_id, outcome
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
