-- Stored secrets, wherever they are: counted by their key, and wrapped by another one.

-- name: secrets_leaves
-- The tables that rows are in: a partitioned table has none of its own.
SELECT c.oid::regclass::text, pg_relation_size(c.oid) / current_setting('block_size')::bigint
FROM pg_class c
WHERE c.relkind = 'r' AND c.oid IN (SELECT to_regclass(%(table)s) UNION SELECT t.relid FROM pg_partition_tree(to_regclass(%(table)s)) t)
ORDER BY 1

-- name: secrets_count
-- By blocks, so that no statement takes long and none needs an index.
SELECT m.key, count(*)
FROM {leaf} t, regexp_matches(t.{column}::text, 'rota-secret:([0-9a-f]{{8}}):', 'g') AS f (found), LATERAL (SELECT f.found[1] AS key) m
WHERE t.ctid >= %(first)s::tid AND t.ctid < %(last)s::tid AND strpos(t.{column}::text, 'rota-secret:') > 0
GROUP BY 1

-- name: secrets_lock
-- Rows that are locked by others are passed by: another turn finds them.
SELECT t.ctid::text, t.{column}::text FROM {leaf} t
WHERE t.ctid >= %(first)s::tid AND t.ctid < %(last)s::tid AND t.{column}::text ~ %(old)s
LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED

-- name: secrets_write
UPDATE {leaf} t SET {column} = %(text)s::{type} WHERE t.ctid = %(row)s::tid

-- name: secrets_type
SELECT format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
WHERE a.attrelid = to_regclass(%(table)s) AND a.attname = %(column)s AND NOT a.attisdropped

-- name: secrets_requests
-- Idempotency keys whose requests are known by a digest under this key. They are not wrapped: they expire.
SELECT split_part(k.payload_hash, ':', 1), count(*) FROM rota.job_key k
WHERE k.payload_hash LIKE '________:%%' GROUP BY 1
