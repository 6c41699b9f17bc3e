-- name: audit_record
INSERT INTO rota.audit (account_id, actor, role, via, operation, target, detail)
SELECT account_id, actor, role, via, operation, target, detail
FROM json_to_recordset(%(rows)s::json)
     AS r (account_id uuid, actor text, role text, via text, operation text, target text, detail json)

-- name: audit_prune
DELETE FROM rota.audit WHERE id = ANY (ARRAY(
    SELECT a.id FROM rota.audit a
    WHERE a.at < rota.now() - make_interval(days => %(days)s) ORDER BY a.at LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
