-- name: api_tokens_add
INSERT INTO rota.api_token (token_hash, hint, account_id, name, scopes, created_by, expires_at)
SELECT %(hash)s, %(hint)s, a.id, %(name)s, %(scopes)s, %(created_by)s, rota.now() + %(good_for)s::interval
FROM rota.account a WHERE a.id = %(account)s
RETURNING id

-- name: api_tokens_list
SELECT t.id, t.name, t.hint, t.account_id, a.email, t.scopes, t.created_at, t.created_by, t.expires_at, t.revoked_at, t.last_used_at
FROM rota.api_token t JOIN rota.account a ON a.id = t.account_id
WHERE (%(account)s::uuid IS NULL OR t.account_id = %(account)s) AND (%(before)s::bigint IS NULL OR t.id < %(before)s)
ORDER BY t.id DESC LIMIT %(limit)s

-- name: api_tokens_get
SELECT t.id, t.name, t.hint, t.account_id, a.email, t.scopes, t.created_at, t.created_by, t.expires_at, t.revoked_at, t.last_used_at
FROM rota.api_token t JOIN rota.account a ON a.id = t.account_id
WHERE t.id = %(id)s AND (%(account)s::uuid IS NULL OR t.account_id = %(account)s)

-- name: api_tokens_revoke
UPDATE rota.api_token SET revoked_at = coalesce(revoked_at, rota.now())
WHERE id = %(id)s AND (%(account)s::uuid IS NULL OR account_id = %(account)s) RETURNING 1

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
