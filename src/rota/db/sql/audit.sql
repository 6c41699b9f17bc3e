-- name: audit_record
INSERT INTO rota.audit (account_id, actor, role, via, operation, target, detail)
VALUES (%(account_id)s, %(actor)s, %(role)s, %(via)s, %(operation)s, %(target)s, %(detail)s::json)

-- name: audit_prune
DELETE FROM rota.audit WHERE id = ANY (ARRAY(
    SELECT a.id FROM rota.audit a
    WHERE a.at < rota.now() - make_interval(days => %(days)s) ORDER BY a.at LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
