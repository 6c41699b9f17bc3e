-- name: accounts_create
-- No row if the address has an account already.
INSERT INTO rota.account (email, role) VALUES (%(email)s, %(role)s) ON CONFLICT (email) DO NOTHING
RETURNING id, email, role, created_at, signed_in_at, disabled_at

-- name: accounts_get
SELECT id, email, role, created_at, signed_in_at, disabled_at FROM rota.account WHERE id = %(id)s

-- name: accounts_find
SELECT id, email, role, created_at, signed_in_at, disabled_at FROM rota.account WHERE email = %(email)s

-- name: accounts_list
SELECT id, email, role, created_at, signed_in_at, disabled_at FROM rota.account
WHERE email > %(after)s ORDER BY email LIMIT %(limit)s

-- name: accounts_lock_admins
-- Everybody who takes an admin away holds all of them, in one order: two of them cannot each leave it to the other to be the last.
SELECT id FROM rota.account WHERE role = 'admin' AND disabled_at IS NULL ORDER BY id FOR UPDATE

-- name: accounts_first_admin
SELECT id, email, role, created_at, signed_in_at, disabled_at FROM rota.account
WHERE role = 'admin' AND disabled_at IS NULL ORDER BY id LIMIT 1

-- name: accounts_set_role
UPDATE rota.account SET role = %(role)s WHERE id = %(id)s
RETURNING id, email, role, created_at, signed_in_at, disabled_at

-- name: accounts_set_disabled
UPDATE rota.account SET disabled_at = CASE WHEN %(disabled)s THEN coalesce(disabled_at, rota.now()) END WHERE id = %(id)s
RETURNING id, email, role, created_at, signed_in_at, disabled_at

-- name: accounts_end_sessions
-- What an account that is disabled has open; enabled again, it has to sign in.
UPDATE rota.session SET ended_at = rota.now() WHERE account_id = %(id)s AND ended_at IS NULL

-- name: accounts_request_link
SELECT rota.request_link(
    %(email)s, %(peer)s, %(hash)s, make_interval(mins => %(minutes)s), %(per_hour)s, %(may_sign_up)s)

-- name: accounts_add_link
-- A link that somebody who has the database makes: without limits. No bootstrap once there is an admin.
INSERT INTO rota.magic_link (token_hash, email, purpose, expires_at)
SELECT %(hash)s, %(email)s, %(purpose)s, rota.now() + make_interval(mins => %(minutes)s)
WHERE %(purpose)s <> 'bootstrap' OR NOT EXISTS (SELECT FROM rota.account WHERE role = 'admin')
RETURNING 1

-- name: accounts_claim_link
SELECT id, email, role, created_at, signed_in_at, disabled_at FROM rota.claim_link(%(hash)s)

-- name: accounts_open_session
INSERT INTO rota.session (id, token_hash, account_id, expires_at)
VALUES (%(id)s, %(hash)s, %(account)s, rota.now() + make_interval(hours => %(hours)s))
RETURNING created_at, expires_at

-- name: accounts_note_source
WITH noted AS (
    INSERT INTO rota.sign_in_source (account_id, source) VALUES (%(account)s, %(source)s)
    ON CONFLICT (account_id, source) DO UPDATE SET signed_in_at = rota.now()
)
DELETE FROM rota.sign_in_source d WHERE d.account_id = %(account)s AND d.source IN (
    SELECT s.source FROM rota.sign_in_source s WHERE s.account_id = %(account)s AND s.source <> %(source)s
    ORDER BY s.signed_in_at DESC OFFSET %(kept)s - 1)

-- name: accounts_by_cookies
SELECT s.token_hash, s.id AS credential, a.id, a.email, a.role, NULL::text[] AS scopes
FROM rota.session s JOIN rota.account a ON a.id = s.account_id
WHERE s.token_hash = ANY (%(hashes)s) AND s.ended_at IS NULL AND s.expires_at > rota.now() AND a.disabled_at IS NULL

-- name: accounts_by_jwts
SELECT s.id, s.id AS credential, a.id, a.email, a.role, NULL::text[] AS scopes
FROM rota.session s JOIN rota.account a ON a.id = s.account_id
WHERE s.id = ANY (%(ids)s) AND s.token_hash IS NULL AND s.ended_at IS NULL AND s.expires_at > rota.now() AND a.disabled_at IS NULL

-- name: accounts_end_session
UPDATE rota.session SET ended_at = rota.now() WHERE id = %(id)s AND ended_at IS NULL
