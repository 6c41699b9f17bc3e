DROP FUNCTION rota.off_change(regclass, text), rota.on_change(regclass, text, text[]);
DROP FUNCTION rota.emit_change() CASCADE;  -- with the triggers on the application's own tables
DROP FUNCTION rota.emit(text, jsonb, json, text[]);
DROP FUNCTION rota.enqueue(text, jsonb, text, integer, timestamptz, interval, text, interval, boolean, integer, interval, text, uuid[], text, json, uuid, text[]);
DROP FUNCTION rota.expect_owner(text);
DROP FUNCTION rota.check_payload(text, json, jsonb);
DROP FUNCTION rota.has_plain_secret(jsonb, jsonb, jsonb, integer);
