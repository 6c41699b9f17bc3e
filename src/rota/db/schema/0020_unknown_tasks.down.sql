DROP FUNCTION rota.recurring_tasks(text[]), rota.tasks_of_others(text[]), rota.fail_unknown(text, text, text[], timestamptz, json, integer), rota.overdue_unknown(text, interval),
    rota.take_back(text[], text[], text[], integer), rota.hand_back(rota.job, json), rota.set_aside(text, text[], integer), rota.is_known(text, text, text[]), rota.unknown_line(text, text, text[]);
DROP TABLE rota.app_uptime, rota.unknown_task;
