-- name: requests_begin
-- Nothing when the key has been used, and may still be. Somebody who is just using it is waited for.
INSERT INTO rota.request AS r (owner, operation, key, body_hash, expires_at)
VALUES (%(owner)s, %(operation)s, %(key)s, %(body_hash)s, rota.now() + %(kept_for)s)
ON CONFLICT (owner, operation, key) DO UPDATE
    SET body_hash = excluded.body_hash, answer = NULL, expires_at = excluded.expires_at
    WHERE r.expires_at <= rota.now()
RETURNING true

-- name: requests_get
SELECT body_hash, answer::text FROM rota.request WHERE owner = %(owner)s AND operation = %(operation)s AND key = %(key)s

-- name: requests_answer
UPDATE rota.request SET answer = %(answer)s::json WHERE owner = %(owner)s AND operation = %(operation)s AND key = %(key)s
