DROP TRIGGER alert_change_tells ON rota.alert;
DROP TRIGGER alert_tells ON rota.alert;
DROP TRIGGER audit_tells ON rota.audit;
DROP FUNCTION rota.tell_change();
