DROP FUNCTION rota.first_start(uuid), rota.check_deadlines(integer), rota.set_schedule(text, boolean);
DROP FUNCTION rota.fire_schedule(uuid, timestamptz, timestamptz[], json, timestamptz);
DROP FUNCTION rota.pass_over(uuid, timestamptz, timestamptz, bigint, text);
DROP FUNCTION rota.enqueue_scheduled(rota.schedule, timestamptz, timestamptz, json, uuid[]);
