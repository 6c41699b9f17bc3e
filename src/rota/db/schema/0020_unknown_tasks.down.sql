-- They line up again, where the version before looks for them.
UPDATE rota.job SET line = NULL WHERE limited AND state = 'held' AND line >= 'unknown ' AND line < 'unknown!';
DROP FUNCTION rota.recurring_tasks(text[]), rota.tasks_of_others(text[]), rota.fail_unknown(text, text, text[], timestamptz, json, integer), rota.overdue_unknown(text, interval),
    rota.take_back(text[], text[], text[], integer, integer), rota.set_refused_aside(rota.job, json), rota.set_aside(text, text[], integer), rota.is_known(text, text, text[]), rota.unknown_line(text, text, text[]);
DROP TABLE rota.app_uptime, rota.unknown_task;
