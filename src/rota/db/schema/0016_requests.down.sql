DROP INDEX rota.task_system;
DROP TABLE rota.request;
