-- Alerts: what somebody should look at, one row per trouble however often it happens; and webhooks that are told of them.

CREATE TABLE rota.alert (
    id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind            text        NOT NULL,
    subject         text        NOT NULL,                       -- a task, queue, schedule, host or session, by the kind
    fingerprint     text        NOT NULL DEFAULT '',            -- tells troubles of one kind with one subject from each other
    severity        text        NOT NULL,
    summary         text        NOT NULL,
    details         json        NOT NULL DEFAULT '{}',          -- of the last time
    state           text        NOT NULL DEFAULT 'open',
    count           bigint      NOT NULL DEFAULT 1,             -- how often it has happened, ever
    times_opened    integer     NOT NULL DEFAULT 1,
    first_seen_at   timestamptz NOT NULL,
    last_seen_at    timestamptz NOT NULL,
    opened_at       timestamptz NOT NULL DEFAULT rota.now(),    -- this time
    acknowledged_at timestamptz,
    acknowledged_by text,
    note            text,
    resolved_at     timestamptz,

    CONSTRAINT alert_state CHECK (state IN ('open', 'acknowledged', 'resolved')),
    CONSTRAINT alert_severity CHECK (severity IN ('warning', 'error', 'critical')),
    CONSTRAINT alert_resolved CHECK ((state = 'resolved') = (resolved_at IS NOT NULL)),
    CONSTRAINT alert_acknowledged CHECK (state <> 'acknowledged' OR acknowledged_at IS NOT NULL),
    CONSTRAINT alert_note CHECK (note IS NULL OR acknowledged_at IS NOT NULL),
    CONSTRAINT alert_sizes CHECK (octet_length(subject) <= 1000 AND octet_length(fingerprint) <= 200
        AND octet_length(summary) <= 4000 AND octet_length(note) <= 4000),
    UNIQUE (kind, subject, fingerprint)
);
CREATE INDEX alert_seen ON rota.alert (state, last_seen_at);

-- Who is told when an alert opens. `secret` is sealed (model/secret.py), bound to the id: the whole URL, whose path and query are as
-- good as a password with many services, and what messages are signed with. `url` is as much of it as others may see.
CREATE TABLE rota.webhook (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    url        text        NOT NULL,
    secret     text        NOT NULL,
    kinds      text[]      NOT NULL DEFAULT '{}',               -- of the alerts it wants; none: all
    enabled    boolean     NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT rota.now(),
    CONSTRAINT webhook_url CHECK (url ~ '^https?://[^/?#@[:space:]]+([/?#][^[:space:]]*)?$' AND octet_length(url) <= 2000),
    CONSTRAINT webhook_secret CHECK (octet_length(secret) BETWEEN 16 AND 8000)
);

-- One message to one webhook, and what became of the last try to bring it there.
CREATE TABLE rota.webhook_delivery (
    id         uuid        PRIMARY KEY,
    webhook_id bigint      NOT NULL REFERENCES rota.webhook ON DELETE CASCADE,
    alert_id   bigint,                                          -- NULL: a test
    body       json        NOT NULL,
    state      text        NOT NULL DEFAULT 'pending',
    attempt    integer     NOT NULL DEFAULT 0,
    status     integer,                                         -- of the answer
    took       interval,
    error      text,
    created_at timestamptz NOT NULL DEFAULT rota.now(),
    tried_at   timestamptz,
    CONSTRAINT webhook_delivery_state CHECK (state IN ('pending', 'delivered', 'failed'))
);
CREATE INDEX webhook_delivery_age ON rota.webhook_delivery (created_at);
CREATE INDEX webhook_delivery_webhook ON rota.webhook_delivery (webhook_id, id);

-- Enqueues a message to one webhook, in the transaction of whoever has something to say.
CREATE FUNCTION rota.send_webhook(to_webhook bigint, about_alert bigint, message json) RETURNS uuid
LANGUAGE plpgsql AS $$
DECLARE
    delivery uuid := rota.uuid7();
BEGIN
    INSERT INTO rota.webhook_delivery (id, webhook_id, alert_id, body) VALUES (delivery, to_webhook, about_alert, message);
    -- What rota.enqueue would do, also where no worker has made the task known yet.
    PERFORM rota.insert_job(
        rota.uuid7(), 'rota.deliver_webhook', json_build_object('delivery', delivery), 'default', 0, NULL, NULL,
        8, interval '1 minute', NULL, NULL, NULL, NULL, json_build_object('kind', 'alert', 'alert', about_alert), '{}', 'cancel');
    RETURN delivery;
END
$$;

-- Counts an alert, or makes it; what was resolved opens again, and what was acknowledged stays so. Whoever has a webhook for it is
-- told when it opens, in the same transaction. A subject with very many alerts gets one for all the rest.
CREATE FUNCTION rota.raise_alert(
    of_kind text, of_subject text, of_fingerprint text, how_bad text, in_words text, with_details json,
    times bigint, first_at timestamptz, last_at timestamptz, OUT alert_id bigint, OUT opened boolean
) LANGUAGE plpgsql AS $$
DECLARE
    a rota.alert;
BEGIN
    LOOP
        SELECT * INTO a FROM rota.alert t
        WHERE t.kind = of_kind AND t.subject = of_subject AND t.fingerprint = of_fingerprint FOR UPDATE;
        IF a.id IS NOT NULL THEN
            opened := a.state = 'resolved';
            UPDATE rota.alert t
            SET severity = how_bad, summary = in_words, details = with_details, count = count + times,
                last_seen_at = greatest(last_seen_at, last_at)
            WHERE id = a.id RETURNING * INTO a;
            IF opened THEN
                UPDATE rota.alert
                SET state = 'open', times_opened = times_opened + 1, opened_at = rota.now(), resolved_at = NULL,
                    acknowledged_at = NULL, acknowledged_by = NULL, note = NULL
                WHERE id = a.id RETURNING * INTO a;
            END IF;
            EXIT;
        END IF;
        IF of_fingerprint <> 'others' AND 50 <= (
            SELECT count(*) FROM rota.alert t WHERE t.kind = of_kind AND t.subject = of_subject AND t.state <> 'resolved') THEN
            of_fingerprint := 'others';
            CONTINUE;
        END IF;
        INSERT INTO rota.alert (kind, subject, fingerprint, severity, summary, details, count, first_seen_at, last_seen_at)
        VALUES (of_kind, of_subject, of_fingerprint, how_bad, in_words, with_details, times, first_at, last_at)
        ON CONFLICT (kind, subject, fingerprint) DO NOTHING RETURNING * INTO a;
        opened := true;
        EXIT WHEN a.id IS NOT NULL;  -- else somebody else has just made it
    END LOOP;
    alert_id := a.id;
    IF opened AND of_subject <> 'rota.deliver_webhook' THEN  -- that a webhook does not work cannot be told by one
        PERFORM rota.send_webhook(w.id, a.id, json_build_object(
            'version', 1, 'event', 'alert.opened', 'alert', json_build_object(
                'id', a.id, 'kind', a.kind, 'subject', a.subject, 'severity', a.severity, 'summary', a.summary,
                'details', a.details, 'count', a.count, 'times_opened', a.times_opened,
                'first_seen_at', a.first_seen_at, 'last_seen_at', a.last_seen_at, 'opened_at', a.opened_at)))
        FROM rota.webhook w
        WHERE w.enabled AND (w.kinds = '{}' OR a.kind = ANY (w.kinds));
    END IF;
END
$$;
