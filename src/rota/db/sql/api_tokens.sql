-- name: api_tokens_add
-- A token created by another one ends with that one at the latest.
INSERT INTO rota.api_token (token_hash, hint, account_id, parent_id, name, scopes, created_by, expires_at)
SELECT %(hash)s, %(hint)s, a.id, p.id, %(name)s, %(scopes)s, %(created_by)s,
       least(rota.now() + %(good_for)s::interval, p.expires_at)
FROM rota.account a LEFT JOIN rota.api_token p ON p.id = %(parent)s::bigint
WHERE a.id = %(account)s
RETURNING id

-- name: api_tokens_lock_family
-- Creating a token with another one and revoking tokens wait for each other: a token that is being created is not missed.
SELECT FROM rota.account a
WHERE a.id = (SELECT t.account_id FROM rota.api_token t
              WHERE t.id = %(id)s AND (%(account)s::uuid IS NULL OR t.account_id = %(account)s))
FOR NO KEY UPDATE

-- name: api_tokens_parent
SELECT t.account_id, t.scopes, t.expires_at, coalesce(t.expires_at < rota.now() + %(good_for)s::interval, false) AS outlived
FROM rota.api_token t WHERE t.id = %(id)s AND t.revoked_at IS NULL AND coalesce(t.expires_at > rota.now(), true)

-- name: api_tokens_list
SELECT t.id, t.name, t.hint, t.account_id, a.email, t.parent_id, t.scopes, t.created_at, t.created_by, t.expires_at, t.revoked_at, t.last_used_at
FROM rota.api_token t JOIN rota.account a ON a.id = t.account_id
WHERE (%(account)s::uuid IS NULL OR t.account_id = %(account)s) AND (%(before)s::bigint IS NULL OR t.id < %(before)s)
ORDER BY t.id DESC LIMIT %(limit)s

-- name: api_tokens_get
SELECT t.id, t.name, t.hint, t.account_id, a.email, t.parent_id, t.scopes, t.created_at, t.created_by, t.expires_at, t.revoked_at, t.last_used_at
FROM rota.api_token t JOIN rota.account a ON a.id = t.account_id
WHERE t.id = %(id)s AND (%(account)s::uuid IS NULL OR t.account_id = %(account)s)

-- name: api_tokens_revoke
-- A token with all that were created with it, directly or not.
WITH RECURSIVE family (account_id, id) AS (
    SELECT t.account_id, t.id FROM rota.api_token t
    WHERE t.id = %(id)s AND (%(account)s::uuid IS NULL OR t.account_id = %(account)s)
    UNION ALL
    SELECT t.account_id, t.id FROM rota.api_token t JOIN family f ON (t.account_id, t.parent_id) = (f.account_id, f.id)
)
UPDATE rota.api_token t SET revoked_at = rota.now() FROM family f WHERE t.id = f.id AND t.revoked_at IS NULL RETURNING t.id

-- name: api_tokens_find
SELECT t.token_hash, t.id AS credential, a.id, a.email, a.role, t.scopes, coalesce(t.last_used_at < rota.now() - interval '1 minute', true)
FROM rota.api_token t JOIN rota.account a ON a.id = t.account_id
WHERE t.token_hash = ANY (%(hashes)s)
  AND t.revoked_at IS NULL AND coalesce(t.expires_at > rota.now(), true) AND a.disabled_at IS NULL

-- name: api_tokens_use
-- That they are used: written down once a minute at most, and never waited for.
UPDATE rota.api_token SET last_used_at = rota.now() WHERE id IN (
    SELECT u.id FROM rota.api_token u
    WHERE u.id = ANY (%(ids)s) AND coalesce(u.last_used_at < rota.now() - interval '1 minute', true)
    FOR UPDATE SKIP LOCKED)
