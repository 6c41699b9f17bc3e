DROP FUNCTION rota.off_change(regclass, text), rota.on_change(regclass, text, text[]);
DROP FUNCTION rota.emit_change() CASCADE;  -- with the triggers on the application's own tables
DROP FUNCTION rota.emit(text, jsonb, json, text[]);
