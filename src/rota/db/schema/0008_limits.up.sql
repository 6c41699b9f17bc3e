-- Limits as workers look at them, and as code and operators set them. The gates themselves are in 0002_enqueue.

-- Some lines of keys after one, which are to be looked at although nothing is known to have happened there; and sees to it that
-- the walk goes on in a while, from the beginning when it is at the end.
CREATE FUNCTION rota.walk_lines(after_line text, steps integer DEFAULT 500) RETURNS text[]
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    lines text[] := '{}';
    next_line text := greatest(after_line, 'k');
BEGIN
    WHILE cardinality(lines) < steps LOOP
        SELECT j.line INTO next_line FROM rota.job j
        WHERE j.limited AND j.state = 'held' AND j.line > next_line AND j.line < 'l' ORDER BY j.line LIMIT 1;
        EXIT WHEN next_line IS NULL;
        lines := lines || next_line;
    END LOOP;
    IF cardinality(lines) > 0 OR after_line <> '' THEN
        INSERT INTO rota.limit_look (line, look_at) VALUES ('s' || coalesce(next_line, ''), rota.now() + interval '30 seconds');
    END IF;
    RETURN lines;
END
$$;

-- What every worker does at each poll: admits what it can of all lines of tasks and queues, and of those lines of keys that somebody
-- should look at. Says how many are ready now, and in how many seconds to look again.
CREATE FUNCTION rota.admit_due(batch integer DEFAULT 1000, OUT admitted bigint, OUT look_in double precision)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    lines text[] := '{}';
    at_once CONSTANT integer := 200;  -- lines: who admits holds rows that endings wait for
    next_line text := 'p';
    walked text;
    n record;
BEGIN
    -- From line to line: however many jobs one has, finding the next is one look into the index.
    LOOP
        SELECT j.line INTO next_line FROM rota.job j WHERE j.limited AND j.state = 'held' AND j.line > next_line AND j.line < 'u'
        ORDER BY j.line LIMIT 1;
        EXIT WHEN next_line IS NULL;
        IF starts_with(next_line, 'p') THEN
            -- Somebody has held jobs that had places: they line up again.
            UPDATE rota.job SET line = NULL, limit_key = NULL WHERE id = ANY (ARRAY(
                SELECT j.id FROM rota.job j WHERE j.limited AND j.state = 'held' AND j.line = next_line
                ORDER BY j.priority, j.run_at, j.id LIMIT batch FOR UPDATE SKIP LOCKED));
        ELSE
            lines := lines || next_line;
        END IF;
    END LOOP;
    SELECT * INTO n FROM rota.line_up(batch);
    lines := lines || n.lines;
    IF EXISTS (SELECT FROM rota.limit_look l WHERE l.look_at <= rota.now()) THEN
        WITH due AS (
            DELETE FROM rota.limit_look WHERE id = ANY (ARRAY(
                SELECT l.id FROM rota.limit_look l WHERE l.look_at <= rota.now() ORDER BY l.look_at LIMIT batch FOR UPDATE SKIP LOCKED))
            RETURNING line
        )
        SELECT lines || coalesce(array_agg(DISTINCT d.line), '{}') INTO lines FROM due d;
        FOR walked IN SELECT l.line FROM unnest(lines) AS l (line) WHERE starts_with(l.line, 's') LIMIT 1 LOOP
            lines := lines || rota.walk_lines(substr(walked, 2));
        END LOOP;
    END IF;
    admitted := n.ready;
    IF cardinality(lines) > at_once THEN PERFORM rota.look_at_lines(lines[at_once + 1:], rota.now()); END IF;
    IF cardinality(lines) > 0 THEN admitted := admitted + rota.admit_lines(lines[:at_once]); END IF;
    IF EXISTS (SELECT FROM rota.limit_use u WHERE u.expires_at <= rota.now()) THEN
        DELETE FROM rota.limit_use WHERE id = ANY (ARRAY(
            SELECT u.id FROM rota.limit_use u WHERE u.expires_at <= rota.now() ORDER BY u.expires_at LIMIT batch FOR UPDATE SKIP LOCKED));
    END IF;
    IF n.seen = batch THEN
        look_in := 0;  -- there are more who want to line up
    ELSE
        SELECT greatest(extract(epoch FROM l.look_at - rota.now()), 0) INTO look_in FROM rota.limit_look l ORDER BY l.look_at LIMIT 1;
    END IF;
END
$$;

CREATE FUNCTION rota.admit_held() RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT d.admitted FROM rota.admit_due() d);
END
$$;

-- A changed key or limit of keys concerns lines that no poll looks at. Those who stand in the lines of another key line up anew.
CREATE FUNCTION rota.limits_changed() RETURNS trigger
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    next_line text := 'k ' || NEW.name || ' ';
    lines text[] := '{}';
BEGIN
    IF NEW.concurrency_key IS DISTINCT FROM OLD.concurrency_key THEN
        UPDATE rota.job SET line = NULL, limit_key = NULL, state = 'held'
        WHERE limited AND task = NEW.name AND state IN ('held', 'queued') AND line IS NOT NULL;
        UPDATE rota.job SET limit_key = rota.limit_key(NEW.concurrency_key, payload)
        WHERE limited AND task = NEW.name AND state = 'running';
    ELSE
        LOOP
            SELECT j.line INTO next_line FROM rota.job j
            WHERE j.limited AND j.state = 'held' AND j.line > next_line AND j.line < 'k ' || NEW.name || '!' ORDER BY j.line LIMIT 1;
            EXIT WHEN next_line IS NULL;
            lines := lines || next_line;
        END LOOP;
        PERFORM rota.look_at_lines(lines, rota.now());
    END IF;
    PERFORM rota.wake();
    RETURN NULL;
END
$$;
CREATE TRIGGER task_limits_changed AFTER UPDATE OF concurrency_key, key_concurrency, key_rate ON rota.task FOR EACH ROW
WHEN ((OLD.concurrency_key, OLD.key_concurrency, OLD.key_rate) IS DISTINCT FROM (NEW.concurrency_key, NEW.key_concurrency, NEW.key_rate))
EXECUTE FUNCTION rota.limits_changed();

-- Sets what code and what operators say of a queue's limits, '{"max_concurrency": 20, "rate": "50/1s"}' each; the operators have the last
-- word, also where they say null, which is no limit. It holds at once. False: that is so already, or there is no such queue.
CREATE FUNCTION rota.set_queue_limits(of_name text, code json, operators json, of_app text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    held jsonb := coalesce(code, '{}')::jsonb || coalesce(operators, '{}')::jsonb;
BEGIN
    UPDATE rota.queue
    SET definition = code, app = CASE WHEN code IS NOT NULL THEN coalesce(of_app, app) END, overrides = operators, max_concurrency = (held ->> 'max_concurrency')::integer, rate = held ->> 'rate'
    WHERE name = of_name AND (definition::jsonb, overrides::jsonb, app) IS DISTINCT FROM
        (code::jsonb, operators::jsonb, CASE WHEN code IS NOT NULL THEN coalesce(of_app, app) END);
    IF NOT FOUND THEN RETURN false; END IF;
    PERFORM rota.admit_lines(ARRAY['q ' || of_name]), rota.wake();
    RETURN true;
END
$$;

-- What holds a job back, gate by gate: `gate` is key, task or queue, `taken` its places, `begun` the starts that count against its rate,
-- `free_at` when the oldest of those counts no more, `holders` some jobs that have places, those that have run longest first.
CREATE FUNCTION rota.explain_limits(of_job uuid)
RETURNS TABLE (gate text, name text, key text, waits_here boolean, most integer, rate text, taken bigint, begun bigint,
               free_at timestamptz, holders uuid[])
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_variable
DECLARE
    j rota.job;
    t rota.task;
    q rota.queue;
    of_key text;
    since timestamptz;
    used record;
    g record;
BEGIN
    SELECT * INTO j FROM rota.job w WHERE w.id = of_job;
    SELECT * INTO t FROM rota.task w WHERE w.name = j.task;
    SELECT * INTO q FROM rota.queue w WHERE w.name = j.queue;
    of_key := CASE WHEN t.concurrency_key IS NOT NULL THEN rota.limit_key(t.concurrency_key, j.payload) END;
    FOR g IN
        SELECT * FROM (VALUES
            ('k', 'key', t.name, of_key, 'k ' || t.name || ' ' || of_key, t.key_concurrency, t.key_rate),
            ('t', 'task', t.name, NULL, 't ' || t.name, t.max_concurrency, t.rate),
            ('q', 'queue', q.name, NULL, 'q ' || q.name, q.max_concurrency, q.rate)
        ) AS v (letter, gate, name, key, line, most, rate)
        WHERE v.line IS NOT NULL AND num_nonnulls(v.most, v.rate) > 0
    LOOP
        gate := g.gate; name := g.name; key := g.key; most := g.most; rate := g.rate;
        waits_here := coalesce(j.line = g.line, false);
        since := rota.now() - coalesce(split_part(g.rate, '/', 2)::interval, interval '0');
        SELECT coalesce(sum(u.uses), 0) AS uses, min(u.at) AS at INTO used FROM rota.limit_use u WHERE u.line = g.line AND u.at > since;
        IF g.letter = 'q' THEN
            SELECT count(*), count(*) FILTER (WHERE o.state <> 'running' OR o.claimed_at > since),
                   min(o.claimed_at) FILTER (WHERE o.state = 'running' AND o.claimed_at > since),
                   (array_agg(o.id ORDER BY o.state DESC, o.claimed_at))[1:10]
            INTO taken, begun, free_at, holders FROM rota.job o
            WHERE o.limited AND o.state = ANY ('{queued,running}') AND o.line = 'p ' || g.name;
        ELSE
            SELECT count(*), count(*) FILTER (WHERE o.state <> 'running' OR o.claimed_at > since),
                   min(o.claimed_at) FILTER (WHERE o.state = 'running' AND o.claimed_at > since),
                   (array_agg(o.id ORDER BY o.state DESC, o.claimed_at))[1:10]
            INTO taken, begun, free_at, holders
            FROM (VALUES ('held', 'q'), ('held', 't'), ('queued', 'p'), ('running', 'p')) AS w (state, letter) CROSS JOIN LATERAL (
                SELECT i.id, i.state, i.claimed_at FROM rota.job i
                WHERE i.limited AND i.task = g.name AND i.state = w.state AND left(i.line, 1) = w.letter
                  AND (g.letter = 't' OR i.limit_key = g.key) OFFSET 0) o
            WHERE g.letter = 'k' OR w.letter <> 't';
        END IF;
        begun := CASE WHEN g.rate IS NOT NULL THEN begun + used.uses END;
        free_at := CASE WHEN g.rate IS NOT NULL THEN least(free_at, used.at) + split_part(g.rate, '/', 2)::interval END;
        RETURN NEXT;
    END LOOP;
END
$$;
