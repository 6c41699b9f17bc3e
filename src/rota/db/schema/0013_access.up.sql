-- What operators may do to jobs without the right to write to the history: edit, retry, cancel.

-- What a job's payload was before somebody changed it. The key of a job stays that of the payload it was enqueued with: who asks
-- for the same again still gets this job.
CREATE TABLE rota.job_edit (
    id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id    uuid        NOT NULL,
    attempt   bigint      NOT NULL,                 -- the last one that had the old payload
    payload   json        NOT NULL,                 -- the old one
    edited_at timestamptz NOT NULL DEFAULT rota.now(),
    edited_by json        NOT NULL
);
CREATE INDEX job_edit_job ON rota.job_edit (job_id, id);
CREATE INDEX job_edit_age ON rota.job_edit (edited_at);

-- Retries a job, as rota.retry_job does, with another payload, and writes down who changed it and what it was. Nothing happens to
-- a job that runs or has completed; one whose payload is no longer the `expected` one is an error. Returns what rota.retry_job does,
-- or 'recurring': the payload of such a job is its row's.
CREATE FUNCTION rota.edit_job(target uuid, new_payload json, editor json DEFAULT NULL, expected json DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    was text;
    j rota.job;
    of_schema json;
BEGIN
    IF EXISTS (SELECT FROM rota.schedule s
               WHERE s.strategy = 'recurring' AND s.id = coalesce(
                   (SELECT k.schedule_id FROM rota.job k WHERE k.id = target),
                   (SELECT r.schedule_id FROM rota.run r WHERE r.job_id = target AND r.final))) THEN
        RETURN 'recurring';
    END IF;
    was := rota.retry_job(target);
    IF was IS NULL OR was NOT IN ('queued', 'failed', 'canceled') THEN RETURN was; END IF;
    -- Somebody else's retry may have come first, and a worker then: what runs keeps the payload it was claimed with.
    SELECT * INTO j FROM rota.job WHERE id = target FOR UPDATE;
    IF j.id IS NULL OR j.state = 'running' THEN RETURN 'running'; END IF;
    IF expected::text <> j.payload::text THEN
        RAISE EXCEPTION 'the payload of job % is another one by now', target USING ERRCODE = 'RT409',
            HINT = 'Somebody has edited it: look at it again.';
    END IF;
    IF j.task = 'http_call' OR EXISTS (SELECT FROM rota.task t WHERE t.name = j.task AND t.system) THEN PERFORM rota.expect_owner(j.task); END IF;
    SELECT t.payload_schema INTO of_schema FROM rota.task t WHERE t.name = j.task;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown task "%"', j.task USING ERRCODE = 'RT404', HINT = 'A worker makes its tasks known when it starts.';
    END IF;
    PERFORM rota.check_payload(j.task, of_schema, new_payload::jsonb);
    INSERT INTO rota.job_edit (job_id, attempt, payload, edited_by)
    VALUES (target, j.attempt, j.payload, coalesce(editor, json_build_object('kind', 'sql', 'user', session_user)));
    IF j.limited AND j.line IS NOT NULL THEN
        -- What its limits go by may be another key now: it gives up its place and lines up again.
        UPDATE rota.job SET payload = new_payload, state = 'held', line = NULL, limit_key = NULL WHERE id = target;
        PERFORM rota.vacate_later(j);
    ELSE
        UPDATE rota.job SET payload = new_payload WHERE id = target;
    END IF;
    PERFORM rota.wake();
    RETURN was;
END
$$;

-- Forgets edits of jobs that are in no table any more, some at a time; the oldest first.
CREATE FUNCTION rota.forget_edits(most integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    forgotten integer;
BEGIN
    DELETE FROM rota.job_edit WHERE id = ANY (ARRAY(
        SELECT e.id FROM (SELECT * FROM rota.job_edit ORDER BY edited_at LIMIT most * 10) e
        WHERE NOT EXISTS (SELECT FROM rota.job j WHERE j.id = e.job_id) AND NOT EXISTS (SELECT FROM rota.run r WHERE r.job_id = e.job_id)
        LIMIT most));
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    RETURN forgotten;
END
$$;

-- History is written by the system only, and what a job runs is decided by functions only. So these run with the rights of the
-- schema's owner, for roles that `rota migrate grant --as operate` names.
ALTER FUNCTION rota.cancel_job(uuid, text) SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION rota.retry_job(uuid) SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION rota.edit_job(uuid, json, json, json) SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
REVOKE ALL ON FUNCTION rota.cancel_job(uuid, text), rota.retry_job(uuid), rota.edit_job(uuid, json, json, json) FROM PUBLIC;
