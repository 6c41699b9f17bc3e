-- name: hooks_emit
SELECT e.task, e.job_id::text FROM rota.emit(%s, CAST(%s AS jsonb), CAST(%s AS json), %s::text::text[]) e
