DROP INDEX rota.task_system;
DROP TABLE rota.server;
DROP TABLE rota.request;
