-- Tasks as operators see and switch them.

-- A task as those see it who cannot see the table: durations in seconds, times in ISO form. Secrets are shown to those only who
-- write the row back (`as_stored`).
CREATE FUNCTION rota.show_task(t rota.task, as_stored boolean DEFAULT false) RETURNS json
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN json_build_object(
        'name', t.name, 'queue', t.queue, 'priority', t.priority, 'max_attempts', t.max_attempts,
        'timeout_s', extract(epoch FROM t.timeout)::float8, 'retry', t.retry, 'max_concurrency', t.max_concurrency,
        'rate', t.rate, 'concurrency_key', t.concurrency_key, 'key_concurrency', t.key_concurrency, 'key_rate', t.key_rate,
        'retention_days', t.retention_days, 'retention_count', t.retention_count, 'payload_schema', t.payload_schema,
        'default_payload', CASE WHEN as_stored THEN t.default_payload ELSE rota.shown(t.default_payload) END, 'listens', t.listens, 'description', t.description, 'tags', t.tags, 'fields', t.fields,
        'strategy', t.strategy, 'system', t.system, 'run_once', t.run_once, 'enabled', t.enabled, 'disabled_at', t.disabled_at,
        'disabled_by', t.disabled_by, 'disable_reason', t.disable_reason, 'overrides', CASE WHEN as_stored THEN t.overrides ELSE rota.shown(t.overrides) END, 'definition', CASE WHEN as_stored THEN t.definition ELSE rota.shown(t.definition) END,
        'definition_hash', t.definition_hash, 'apps', t.apps, 'deleted_from_code_at', t.deleted_from_code_at,
        'created_at', t.created_at, 'synced_at', t.synced_at, 'schedule_deleted_at', t.schedule_deleted_at);
END
$$;

-- Enables or disables a task: SELECT rota.set_task('send_welcome', false, 'ann', 'the provider is down'). Disabled, its schedules do
-- not fire and its jobs wait; what runs already may end. False: there is none of that name.
CREATE FUNCTION rota.set_task(of_name text, want boolean, who text DEFAULT NULL, why text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE rota.task
    SET enabled = want, disabled_at = CASE WHEN NOT want THEN coalesce(disabled_at, rota.now()) END,
        disabled_by = CASE WHEN NOT want THEN coalesce(who, session_user) END, disable_reason = CASE WHEN NOT want THEN why END
    WHERE name = of_name;
    IF NOT FOUND THEN RETURN false; END IF;
    PERFORM rota.admit_jobs(ARRAY[of_name]);
    RETURN true;
END
$$;
