DROP TABLE rota.job_count;
DROP TABLE rota.task_stat;
