-- name: webhooks_add
INSERT INTO rota.webhook (id, url, secret, kinds) OVERRIDING SYSTEM VALUE VALUES (%(id)s, %(url)s, %(secret)s, %(kinds)s)

-- name: webhooks_new_id
SELECT nextval(pg_get_serial_sequence('rota.webhook', 'id'))

-- name: webhooks_lock
SELECT FROM rota.webhook WHERE id = %(id)s FOR UPDATE

-- name: webhooks_list
SELECT w.id, w.url, w.kinds, w.enabled, w.created_at, d.state AS last_state, d.status AS last_status, d.tried_at AS last_tried_at
FROM rota.webhook w
LEFT JOIN LATERAL (
    SELECT v.state, v.status, v.tried_at FROM rota.webhook_delivery v
    WHERE v.webhook_id = w.id AND v.tried_at IS NOT NULL ORDER BY v.id DESC LIMIT 1) d ON true
WHERE %(id)s::bigint IS NULL OR w.id = %(id)s
ORDER BY w.id

-- name: webhooks_set_enabled
UPDATE rota.webhook SET enabled = %(enabled)s WHERE id = %(id)s RETURNING 1

-- name: webhooks_remove
DELETE FROM rota.webhook WHERE id = %(id)s RETURNING 1

-- name: webhooks_test
SELECT rota.send_webhook(w.id, NULL, %(body)s::json) FROM rota.webhook w WHERE w.id = %(id)s

-- name: webhooks_to_deliver
-- What is to be sent, and with what; none when it has arrived, or its webhook is gone or switched off.
SELECT d.id, w.id, d.body::text, w.url, w.secret, extract(epoch FROM rota.now())::bigint
FROM rota.webhook_delivery d JOIN rota.webhook w ON w.id = d.webhook_id
WHERE d.id = %(id)s AND d.state <> 'delivered' AND w.enabled

-- name: webhooks_record
UPDATE rota.webhook_delivery
SET state = %(state)s, attempt = attempt + 1, status = %(status)s, took = make_interval(secs => %(took_s)s), error = %(error)s,
    tried_at = rota.now()
WHERE id = %(id)s AND state <> 'delivered'

-- name: webhooks_deliveries
SELECT d.id, d.webhook_id, d.alert_id, d.state, d.attempt, d.status, d.took, d.error, d.created_at, d.tried_at
FROM rota.webhook_delivery d
WHERE (%(webhook)s::bigint IS NULL OR d.webhook_id = %(webhook)s) AND (%(before)s::uuid IS NULL OR d.id < %(before)s)
ORDER BY d.id DESC LIMIT %(limit)s

-- name: webhooks_prune
-- What is still to be delivered is kept for a week at least: by then its job has given up, or was canceled.
DELETE FROM rota.webhook_delivery WHERE id = ANY (ARRAY(
    SELECT d.id FROM rota.webhook_delivery d
    WHERE d.created_at < rota.now() - make_interval(hours => %(hours)s)
      AND (d.state <> 'pending' OR d.created_at < rota.now() - interval '7 days')
    ORDER BY d.created_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
