-- Events of the application's own: a task that listens for one is enqueued in the transaction that emits it.

-- Enqueues every task that listens for an event, except those named. A task gets of the payload what it has parameters for.
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
    FOR t IN SELECT * FROM rota.task k WHERE event = ANY (k.listens) AND k.name <> ALL (except_tasks) ORDER BY k.name LOOP
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
