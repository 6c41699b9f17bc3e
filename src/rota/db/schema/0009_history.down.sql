DROP TABLE rota.task_stat;
