-- People: who has an account, how they sign in, and what they have changed. Of every secret only the SHA-256 is stored.

CREATE TABLE rota.account (
    id           uuid        PRIMARY KEY DEFAULT rota.uuid7(),
    email        text        NOT NULL UNIQUE,                   -- in small letters
    role         text        NOT NULL DEFAULT 'user',
    created_at   timestamptz NOT NULL DEFAULT rota.now(),
    signed_in_at timestamptz,                                   -- the last time
    disabled_at  timestamptz,                                   -- set: nothing of theirs is good any more
    CONSTRAINT account_role CHECK (role IN ('admin', 'operator', 'read_only', 'user')),
    CONSTRAINT account_email CHECK (octet_length(email) <= 254 AND email ~ '^[^@[:space:]]+@[^@[:space:]]+$')
);
CREATE INDEX account_admin ON rota.account (id) WHERE role = 'admin';

-- A link that was mailed, or printed: good for one sign-in. One for an address without an account, where such may not sign up, is
-- mailed to nobody; that it is stored all the same makes both cases the same work.
CREATE TABLE rota.magic_link (
    token_hash bytea       PRIMARY KEY,
    email      text        NOT NULL,
    purpose    text        NOT NULL DEFAULT 'sign_in',
    requested  boolean     NOT NULL DEFAULT false,              -- by `request_link`, and mailed if the address may sign in
    signs_up   boolean     NOT NULL DEFAULT false,              -- whether it makes an account where there is none
    created_at timestamptz NOT NULL DEFAULT rota.now(),
    expires_at timestamptz NOT NULL,
    used_at    timestamptz,
    CONSTRAINT magic_link_hash CHECK (octet_length(token_hash) = 32),
    CONSTRAINT magic_link_purpose CHECK (purpose IN ('sign_in', 'bootstrap')),
    CONSTRAINT magic_link_expiry CHECK (expires_at > created_at)
);
CREATE INDEX magic_link_age ON rota.magic_link (expires_at);
CREATE INDEX magic_link_email ON rota.magic_link (email, expires_at) WHERE requested;

-- The networks from which an account has signed in, the last 20: requests for links from there do not compete with strangers'.
CREATE TABLE rota.sign_in_source (
    account_id   uuid        NOT NULL REFERENCES rota.account ON DELETE CASCADE,
    source       text        NOT NULL,
    signed_in_at timestamptz NOT NULL DEFAULT rota.now(),       -- the last time
    PRIMARY KEY (account_id, source)
);
CREATE INDEX sign_in_source_age ON rota.sign_in_source (signed_in_at);

-- Somebody who is signed in: a browser with its cookie, or a JWT, which carries the id and has no hash.
CREATE TABLE rota.session (
    id         uuid        PRIMARY KEY,
    token_hash bytea       UNIQUE,
    account_id uuid        NOT NULL REFERENCES rota.account ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT rota.now(),
    expires_at timestamptz NOT NULL,
    ended_at   timestamptz,                                     -- signed out before that
    CONSTRAINT session_hash CHECK (octet_length(token_hash) = 32)
);
CREATE INDEX session_account ON rota.session (account_id);
CREATE INDEX session_age ON rota.session (expires_at);

-- A token for programs.
CREATE TABLE rota.api_token (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    token_hash   bytea       NOT NULL UNIQUE,
    hint         text        NOT NULL,                          -- how it begins, to tell it from others
    account_id   uuid        NOT NULL REFERENCES rota.account ON DELETE CASCADE,
    parent_id    bigint,                                        -- the token that created this one, of the same account
    name         text        NOT NULL,
    scopes       text[],                                        -- the operations it is for; NULL: all that the account may do
    created_at   timestamptz NOT NULL DEFAULT rota.now(),
    created_by   text        NOT NULL,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz,                                   -- to the minute
    UNIQUE (account_id, id),
    CONSTRAINT api_token_parent FOREIGN KEY (account_id, parent_id) REFERENCES rota.api_token (account_id, id) ON DELETE CASCADE,
    CONSTRAINT api_token_hash CHECK (octet_length(token_hash) = 32),
    CONSTRAINT api_token_name CHECK (octet_length(name) BETWEEN 1 AND 800)
);
CREATE INDEX api_token_parent ON rota.api_token (account_id, parent_id) WHERE parent_id IS NOT NULL;

-- How often something was asked for lately, by address or by computer. `full_at` is when a whole hour's worth may be asked for
-- again: each request moves it on by its share of an hour, and is refused when that would be more than an hour ahead.
CREATE TABLE rota.allowance (
    key     text        PRIMARY KEY,
    full_at timestamptz NOT NULL,
    allowed boolean     NOT NULL DEFAULT true,                  -- what the last request was told
    refused bigint      NOT NULL DEFAULT 0
);
CREATE INDEX allowance_age ON rota.allowance (full_at);

-- Takes one of so many an hour, over all processes; false if there is none left. Either way something is written.
CREATE FUNCTION rota.take_allowance(of_key text, per_hour integer) RETURNS boolean
LANGUAGE sql AS $$
    INSERT INTO rota.allowance AS a (key, full_at) VALUES (of_key, rota.now() + interval '1 hour' / per_hour)
    ON CONFLICT (key) DO UPDATE
    SET (full_at, allowed, refused) = (
        SELECT CASE WHEN fits THEN next_full_at ELSE a.full_at END, fits, a.refused + (NOT fits)::integer
        FROM (SELECT greatest(a.full_at, rota.now()) + interval '1 hour' / per_hour AS next_full_at) n,
             LATERAL (SELECT next_full_at <= rota.now() + interval '1 hour 1 second' AS fits) f)
    RETURNING allowed
$$;

-- Store a link for an address; return whether to mail it. Limits per source (a network, see `peer_of`), per source and address, and
-- per address keep strangers from flooding a mailbox. They must not keep its owner from signing in either: sources from which the
-- account has signed in are exempt from the limits that strangers can use up, and beyond a limit per address a link is still stored
-- when no other one is good for at least half of its time. So whoever asks has a link in the mailbox, or gets one.
--
-- Known and unknown addresses are the same work in each case: one call that writes.
CREATE FUNCTION rota.request_link(
    for_email text, from_source text, hash bytea, good_for interval, per_hour integer, may_sign_up boolean
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    account     uuid;
    enabled     boolean;
    familiar    boolean;
    source_left boolean;
    own_left    boolean;  -- of this address from this source
    all_left    boolean;  -- of this address from all sources together
BEGIN
    SELECT a.id, a.disabled_at IS NULL INTO account, enabled FROM rota.account a WHERE a.email = for_email;
    familiar := EXISTS (SELECT FROM rota.sign_in_source s WHERE s.account_id = account AND s.source = from_source);
    source_left := rota.take_allowance('links from ' || from_source, 10 * per_hour);
    IF NOT (source_left OR familiar) THEN
        RETURN false;
    END IF;
    own_left := rota.take_allowance('links for ' || for_email || ' from ' || from_source, per_hour);
    all_left := own_left AND rota.take_allowance('links for ' || for_email, 3 * per_hour);  -- what is refused costs nobody else
    IF NOT (all_left OR (own_left AND familiar)) THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('links for ' || for_email, 0));  -- of several at once, one sees no other link
        IF EXISTS (SELECT FROM rota.magic_link m
                   WHERE m.email = for_email AND m.requested AND m.used_at IS NULL AND m.expires_at > rota.now() + good_for / 2) THEN
            RETURN false;
        END IF;
    END IF;
    INSERT INTO rota.magic_link (token_hash, email, requested, signs_up, expires_at)
    VALUES (hash, for_email, true, may_sign_up, rota.now() + good_for);
    RETURN coalesce(enabled, may_sign_up);
END
$$;

-- Uses a link, once: the account that it signs in, which it may make. No row if the link was used, is too old, or is good for
-- nothing. A link of the purpose `bootstrap` makes the first admin, and none once there is one.
CREATE FUNCTION rota.claim_link(hash bytea) RETURNS SETOF rota.account
LANGUAGE plpgsql AS $$
DECLARE
    l rota.magic_link;
BEGIN
    UPDATE rota.magic_link m SET used_at = rota.now()
    WHERE m.token_hash = hash AND m.used_at IS NULL AND m.expires_at > rota.now()
    RETURNING * INTO l;
    IF l.token_hash IS NULL THEN RETURN; END IF;
    IF l.purpose = 'bootstrap' THEN
        LOCK TABLE rota.account IN SHARE ROW EXCLUSIVE MODE;  -- another one that is at it must be seen
        IF EXISTS (SELECT FROM rota.account a WHERE a.role = 'admin') THEN RETURN; END IF;
        RETURN QUERY
        INSERT INTO rota.account AS a (email, role, signed_in_at) VALUES (l.email, 'admin', rota.now())
        ON CONFLICT (email) DO UPDATE SET role = 'admin', signed_in_at = rota.now() WHERE a.disabled_at IS NULL
        RETURNING a.*;
    ELSIF l.signs_up THEN
        RETURN QUERY
        INSERT INTO rota.account AS a (email, signed_in_at) VALUES (l.email, rota.now())
        ON CONFLICT (email) DO UPDATE SET signed_in_at = rota.now() WHERE a.disabled_at IS NULL
        RETURNING a.*;
    ELSE
        RETURN QUERY
        UPDATE rota.account a SET signed_in_at = rota.now() WHERE a.email = l.email AND a.disabled_at IS NULL RETURNING a.*;
    END IF;
END
$$;

-- Who has changed what. Nothing refers to an account: what somebody did stays when they are gone.
CREATE TABLE rota.audit (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL DEFAULT rota.now(),
    account_id uuid,
    actor      text        NOT NULL,
    role       text        NOT NULL,
    via        text,
    operation  text        NOT NULL,
    target     text        NOT NULL,
    detail     json        NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_age ON rota.audit (at);
CREATE INDEX audit_actor ON rota.audit (actor, id);
CREATE INDEX audit_operation ON rota.audit (operation, id);
CREATE INDEX audit_target ON rota.audit (target, id);
