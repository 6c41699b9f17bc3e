DROP TABLE rota_calendars.summary, rota_calendars.conflict, rota_calendars.event, rota_calendars.resource, rota_calendars.pair;
DROP SCHEMA rota_calendars;
