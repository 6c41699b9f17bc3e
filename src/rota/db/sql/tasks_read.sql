-- name: tasks_read_list
SELECT rota.show_task(t)::text,
       CASE WHEN NOT t.enabled THEN (
           SELECT count(*) FROM (
               SELECT FROM rota.job j WHERE j.limited AND j.state = 'held' AND j.task = t.name LIMIT %(cap)s) h) END AS held
FROM rota.task t
WHERE t.name > %(after)s AND {match}
ORDER BY t.name LIMIT %(limit)s

-- name: tasks_read_get
SELECT rota.show_task(t)::text,
       CASE WHEN NOT t.enabled THEN (
           SELECT count(*) FROM (
               SELECT FROM rota.job j WHERE j.limited AND j.state = 'held' AND j.task = t.name LIMIT %(cap)s) h) END AS held
FROM rota.task t WHERE t.name = %(name)s

-- name: tasks_read_default
-- As it is stored: for a job, not for people.
SELECT default_payload::text FROM rota.task WHERE name = %(name)s

-- name: tasks_read_names
SELECT name FROM rota.task ORDER BY name LIMIT %(limit)s

-- name: tasks_read_schedules
-- The schedules that tasks have from their code, which have the tasks' names.
SELECT rota.show_schedule(s)::text FROM rota.schedule s WHERE s.name = ANY (%(names)s) AND s.definition IS NOT NULL

-- name: tasks_read_live
-- Some live jobs, the oldest first, for a look at their payloads.
SELECT j.id, j.task, j.id::text, j.payload::text FROM rota.job j WHERE j.id > %(after)s ORDER BY j.id LIMIT %(limit)s

-- name: tasks_read_rows
-- The same for schedules: those with a name and the rows of recurring tasks alike.
SELECT id, task, coalesce(name, task || '/' || key), payload::text FROM rota.schedule
WHERE id > %(after)s ORDER BY id LIMIT %(limit)s
