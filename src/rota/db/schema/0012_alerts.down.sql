DELETE FROM rota.job WHERE task = 'rota.deliver_webhook';
DROP FUNCTION rota.raise_alert(text, text, text, text, text, json, bigint, timestamptz, timestamptz);
DROP FUNCTION rota.send_webhook(bigint, bigint, json);
DROP TABLE rota.webhook_delivery, rota.webhook, rota.alert;
