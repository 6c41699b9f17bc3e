-- Answers that were given to requests with an Idempotency-Key, for as long as the request may be repeated.
CREATE TABLE rota.request (
    owner      text        NOT NULL,                            -- who asked
    operation  text        NOT NULL,
    key        text        NOT NULL,
    body_hash  bytea       NOT NULL,                            -- another request with the same key is not a repetition
    answer     json,                                            -- NULL within the transaction that answers it only
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (owner, operation, key),
    CONSTRAINT request_key CHECK (octet_length(key) BETWEEN 1 AND 255),
    CONSTRAINT request_hash CHECK (octet_length(body_hash) = 32)
);
CREATE INDEX request_age ON rota.request (expires_at);

-- What lists leave out.
CREATE INDEX task_system ON rota.task (name) WHERE system;

-- Servers that are running. Commands on the same machine read here where people reach the server, whatever port it took.
CREATE TABLE rota.server (
    id         uuid        NOT NULL PRIMARY KEY,
    machine    text        NOT NULL,                            -- its host name
    url        text        NOT NULL,
    port       integer     NOT NULL,
    env        text        NOT NULL,                            -- app.env
    started_at timestamptz NOT NULL DEFAULT rota.now(),
    seen_at    timestamptz NOT NULL DEFAULT rota.now(),         -- an old time means that it was killed
    CONSTRAINT server_port CHECK (port BETWEEN 1 AND 65535)
);
