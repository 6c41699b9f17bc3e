-- What SQL can do: enqueue jobs, and tell events of the application's own, for which tasks listen.

-- Whether a value has a secret in clear, by its JSON schema; `root` has what that refers to.
CREATE FUNCTION rota.has_plain_secret(schema jsonb, root jsonb, value jsonb, depth integer DEFAULT 0) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    each record;
BEGIN
    IF jsonb_typeof(schema) IS DISTINCT FROM 'object' OR coalesce(jsonb_typeof(value), 'null') = 'null' THEN RETURN false; END IF;
    IF depth > 600 THEN RETURN true; END IF;
    IF schema ? 'x-rota-secret' THEN
        RETURN jsonb_path_exists(value, '$.** ? (@.type() == "string" && !(@ starts with "rota-secret:" || @ starts with "rota-open:"))');
    END IF;
    IF schema ? '$ref' AND rota.has_plain_secret(root #> string_to_array(substr(schema ->> '$ref', 3), '/'), root, value, depth + 1) THEN
        RETURN true;
    END IF;
    FOR each IN SELECT a.value AS schema FROM jsonb_array_elements(
            coalesce(schema -> 'anyOf', '[]') || coalesce(schema -> 'oneOf', '[]') || coalesce(schema -> 'allOf', '[]')) a (value) LOOP
        IF rota.has_plain_secret(each.schema, root, value, depth + 1) THEN RETURN true; END IF;
    END LOOP;
    IF jsonb_typeof(value) = 'object' THEN
        FOR each IN SELECT m.value, coalesce(schema -> 'properties' -> m.key, schema -> 'additionalProperties') AS schema
                    FROM jsonb_each(value) m LOOP
            IF rota.has_plain_secret(each.schema, root, each.value, depth + 1) THEN RETURN true; END IF;
        END LOOP;
    ELSIF jsonb_typeof(value) = 'array' THEN
        FOR each IN SELECT m.value, coalesce(schema -> 'prefixItems' -> (m.at - 1)::integer, schema -> 'items') AS schema
                    FROM jsonb_array_elements(value) WITH ORDINALITY m (value, at) LOOP
            IF rota.has_plain_secret(each.schema, root, each.value, depth + 1) THEN RETURN true; END IF;
        END LOOP;
    END IF;
    RETURN false;
END
$$;

-- Refuses a payload that a task with this schema could not take, as far as SQL can tell: its names, not its types.
CREATE FUNCTION rota.check_payload(of_task text, of_schema json, payload jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    missing text;
BEGIN
    IF payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
        RAISE EXCEPTION 'payload of "%" must be a JSON object, not %', of_task, coalesce(jsonb_typeof(payload), 'NULL') USING ERRCODE = 'RT422';
    END IF;
    IF octet_length(payload::text) > 1048576 THEN
        RAISE EXCEPTION 'payload of "%" is % bytes, more than the 1048576 allowed', of_task, octet_length(payload::text) USING ERRCODE = 'RT422',
            HINT = 'Store the data elsewhere and enqueue a reference to it.';
    END IF;
    SELECT string_agg(quote_ident(r.name), ', ') INTO missing
    FROM json_array_elements_text(coalesce(of_schema -> 'required', '[]')) AS r (name) WHERE NOT payload ? r.name;
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION 'payload of "%" lacks %', of_task, missing USING ERRCODE = 'RT422';
    END IF;
    SELECT string_agg(quote_ident(k.name), ', ') INTO missing
    FROM jsonb_object_keys(payload) AS k (name)
    WHERE (of_schema ->> 'additionalProperties') = 'false'
      AND (of_schema -> 'properties' -> k.name) IS NULL;
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION 'task "%" has no parameter %', of_task, missing USING ERRCODE = 'RT422';
    END IF;
    -- What is marked as a secret (model/secret.py) is encrypted by the task's own code, and must not be stored without.
    IF strpos(of_schema::text, 'x-rota-secret') > 0 THEN
        SELECT string_agg(quote_ident(p.key), ', ' ORDER BY p.key) INTO missing
        FROM jsonb_each(of_schema::jsonb -> 'properties') AS p
        WHERE rota.has_plain_secret(p.value, of_schema::jsonb, payload -> p.key);
        IF missing IS NOT NULL THEN
            RAISE EXCEPTION 'payload of "%" has a secret that is not encrypted: %', of_task, missing USING ERRCODE = 'RT422',
                HINT = 'Only the application can encrypt it: do this where its code is at hand.';
        END IF;
    END IF;
END
$$;

-- Refuses who does not own the schema, whatever else they were granted. The functions that ask run with the owner's rights, so the
-- caller is known by the session only.
CREATE FUNCTION rota.expect_owner(of_task text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    caller name := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
BEGIN
    IF NOT pg_has_role(caller, (SELECT c.relowner FROM pg_class c WHERE c.oid = 'rota.job'::regclass), 'USAGE') THEN
        RAISE EXCEPTION 'permission denied for task "%"', of_task USING ERRCODE = 'insufficient_privilege',
            HINT = 'HTTP calls and Rota''s own tasks are enqueued and edited by the owner of the schema only: use the API.';
    END IF;
END
$$;

-- For roles that it was granted to, with the rights of the schema's owner: they need none to write to the tables. The door for SQL:
-- SELECT rota.enqueue('send_welcome', '{"user_id": 7}'). Settings left out are the task's.
CREATE FUNCTION rota.enqueue(
    task text, payload jsonb DEFAULT '{}', queue text DEFAULT NULL, priority integer DEFAULT NULL,
    run_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL, key text DEFAULT NULL, key_ttl interval DEFAULT '1 day',
    strict boolean DEFAULT false, max_attempts integer DEFAULT NULL, timeout interval DEFAULT NULL, owner text DEFAULT NULL,
    parents uuid[] DEFAULT '{}', on_parent_failure text DEFAULT 'cancel', triggered_by json DEFAULT NULL,
    id uuid DEFAULT NULL, digests text[] DEFAULT NULL  -- of a job with secrets, which are sealed for this id
) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    t rota.task;
    made record;
BEGIN
    SELECT * INTO t FROM rota.task k WHERE k.name = enqueue.task;
    IF t.name IS NULL THEN
        RAISE EXCEPTION 'unknown task "%"', task USING ERRCODE = 'RT404',
            HINT = 'A worker makes its tasks known when it starts. Known: ' ||
                   coalesce((SELECT string_agg(k.name, ', ' ORDER BY k.name) FROM rota.task k WHERE NOT k.system),
                            'none') || '.';
    END IF;
    IF t.system OR task = 'http_call' THEN PERFORM rota.expect_owner(task); END IF;
    IF id IS NOT NULL AND EXISTS (SELECT FROM rota.jobs j WHERE j.id = enqueue.id) THEN
        RAISE EXCEPTION 'job % exists', id USING ERRCODE = 'RT409';
    END IF;
    PERFORM rota.check_payload(task, t.payload_schema, payload);
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
        coalesce(id, rota.uuid7()), task, payload::json, coalesce(queue, t.queue), coalesce(priority, t.priority), run_at, delay,
        coalesce(max_attempts, t.max_attempts), timeout, NULL, key, key_ttl, owner,
        coalesce(triggered_by, json_build_object('kind', 'sql', 'user', session_user)), parents, on_parent_failure,
        new_limited => t.limited OR EXISTS (SELECT FROM rota.queue q WHERE q.name = coalesce(enqueue.queue, t.queue) AND q.limited),
        new_digests => digests);
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
REVOKE ALL ON FUNCTION rota.enqueue(text, jsonb, text, integer, timestamptz, interval, text, interval, boolean, integer, interval, text,
                                    uuid[], text, json, uuid, text[]) FROM PUBLIC;

-- Enqueues every task that listens for an event, except those named and those that no code has any more. A task gets of the payload
-- what it has parameters for.
CREATE FUNCTION rota.emit(
    event text, payload jsonb DEFAULT '{}', triggered_by json DEFAULT NULL, except_tasks text[] DEFAULT '{}'
) RETURNS TABLE (task text, job_id uuid)
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    t rota.task;
BEGIN
    IF payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
        RAISE EXCEPTION 'payload of event "%" must be a JSON object, not %', event, coalesce(jsonb_typeof(payload), 'NULL') USING ERRCODE = 'RT422';
    END IF;
    FOR t IN
        SELECT * FROM rota.task k
        WHERE event = ANY (k.listens) AND k.name <> ALL (except_tasks) AND k.deleted_from_code_at IS NULL ORDER BY k.name
    LOOP
        task := t.name;
        job_id := rota.enqueue(
            t.name,
            CASE WHEN (t.payload_schema ->> 'additionalProperties') = 'false'
            THEN coalesce((SELECT jsonb_object_agg(e.key, e.value) FROM jsonb_each(payload) e
                           WHERE (t.payload_schema -> 'properties' -> e.key) IS NOT NULL), '{}')
            ELSE payload END,
            triggered_by => coalesce(triggered_by, json_build_object('kind', 'hook', 'hook', event, 'operation', 'emit')));
        RETURN NEXT;
    END LOOP;
END
$$;

-- The trigger behind rota.on_change: emits the event named in its argument with what has changed.
CREATE FUNCTION rota.emit_change() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    changed text := format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME);
BEGIN
    PERFORM rota.emit(
        TG_ARGV[0],
        jsonb_build_object('table', changed, 'operation', lower(TG_OP),
                           'new', CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END,
                           'old', CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END),
        json_build_object('kind', 'hook', 'hook', TG_ARGV[0], 'operation', lower(TG_OP), 'table', changed));
    RETURN NULL;
END
$$;

-- From now on every changed row of a table emits an event: SELECT rota.on_change('orders', 'order_changed', '{insert,update}').
CREATE FUNCTION rota.on_change(target regclass, event text, operations text[] DEFAULT '{insert,update,delete}') RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF event !~ '^[A-Za-z_][A-Za-z0-9_.:-]{0,49}$' OR event IS NULL THEN
        RAISE EXCEPTION 'event name "%" is not allowed', event USING ERRCODE = 'RT422',
            HINT = 'Letters, digits and _ . : - only, at most 50, no digit first.';
    END IF;
    IF cardinality(operations) = 0 OR operations IS NULL OR NOT operations <@ '{insert,update,delete}' THEN
        RAISE EXCEPTION 'operations % are not allowed', operations USING ERRCODE = 'RT422', HINT = 'Give some of insert, update, delete.';
    END IF;
    EXECUTE format('CREATE OR REPLACE TRIGGER %I AFTER %s ON %s FOR EACH ROW EXECUTE FUNCTION rota.emit_change(%L)',
                   'rota ' || event, array_to_string(operations, ' OR '), target, event);
END
$$;

-- Takes that back.
CREATE FUNCTION rota.off_change(target regclass, event text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', 'rota ' || event, target);
END
$$;
