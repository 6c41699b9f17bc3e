DROP FUNCTION rota.recurring(text);
DROP FUNCTION rota.set_recurring(text, text, boolean), rota.lock_recurring(text, text);
DROP FUNCTION rota.withdraw_job(uuid), rota.vacate_later(rota.job), rota.rejoin_schedule(uuid, uuid);
DROP FUNCTION rota.ensure_recurring(text, text, json, interval, timestamptz, json, boolean);
DROP FUNCTION rota.ensure_recurring_rows(text, json, interval, timestamptz, json, boolean, boolean);
DROP FUNCTION rota.settle_schedule(rota.job, text, json, interval, timestamptz), rota.backoff(json, integer);
DROP FUNCTION rota.settle_completed(uuid[], uuid[], interval[], timestamptz[]), rota.is_unwanted(rota.job);
DROP FUNCTION rota.take_lock(text, text, interval), rota.show_schedule(rota.schedule);
DROP TABLE rota.lock, rota.occurrence, rota.schedule;
