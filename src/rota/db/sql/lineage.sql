-- The relatives of a job, page by page. OFFSET 0: each looked up by itself, and not the few joined with all jobs there are.

-- name: lineage_parents
SELECT e.parent_id AS id, p.task, p.state, e.settled
FROM (SELECT parent_id, settled FROM rota.job_edge WHERE child_id = %(id)s AND parent_id > %(after)s
      ORDER BY parent_id LIMIT %(limit)s) e
LEFT JOIN LATERAL (SELECT task, state FROM rota.jobs WHERE id = e.parent_id OFFSET 0) p ON true
ORDER BY e.parent_id

-- name: lineage_children
SELECT e.child_id AS id, c.task, c.state, e.settled
FROM (SELECT child_id, settled FROM rota.job_edge WHERE parent_id = %(id)s AND child_id > %(after)s
      ORDER BY child_id LIMIT %(limit)s) e
LEFT JOIN LATERAL (SELECT task, state FROM rota.jobs WHERE id = e.child_id OFFSET 0) c ON true
ORDER BY e.child_id
