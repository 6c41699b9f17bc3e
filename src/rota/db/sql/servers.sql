-- name: servers_beat
-- Also forget servers that were killed a day ago.
WITH killed AS (DELETE FROM rota.server WHERE seen_at < rota.now() - interval '1 day' AND id <> %(id)s)
INSERT INTO rota.server (id, machine, url, port, env) VALUES (%(id)s, %(machine)s, %(url)s, %(port)s, %(env)s)
ON CONFLICT (id) DO UPDATE SET seen_at = rota.now()

-- name: servers_remove
DELETE FROM rota.server WHERE id = %(id)s

-- name: servers_on
-- The newest first.
SELECT url, port, env FROM rota.server
WHERE machine = %(machine)s AND seen_at > rota.now() - %(silent)s::interval ORDER BY started_at DESC, id DESC
