DROP FUNCTION rota.explain_limits(uuid), rota.set_queue_limits(text, json, json, text);
DROP FUNCTION rota.limits_changed() CASCADE;  -- with its trigger on rota.task
DROP FUNCTION rota.admit_held(), rota.admit_due(integer), rota.walk_lines(text, integer);
