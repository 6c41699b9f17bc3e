DROP INDEX rota.run_calendar_pair;
DROP INDEX rota.job_calendar_pair;
