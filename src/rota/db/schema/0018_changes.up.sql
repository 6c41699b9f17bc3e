-- A hint for servers with live streams: something was changed that people look at. Only what is rare tells of itself: what operators
-- do, and alerts that open or are over. Jobs never do: a NOTIFY in every transaction costs half of the throughput.

CREATE FUNCTION rota.tell_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('rota_change', '');
    RETURN NULL;
END
$$;

CREATE TRIGGER audit_tells AFTER INSERT ON rota.audit FOR EACH STATEMENT EXECUTE FUNCTION rota.tell_change();
CREATE TRIGGER alert_tells AFTER INSERT ON rota.alert FOR EACH ROW EXECUTE FUNCTION rota.tell_change();
CREATE TRIGGER alert_change_tells AFTER UPDATE ON rota.alert FOR EACH ROW
WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION rota.tell_change();
