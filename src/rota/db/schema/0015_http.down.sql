DROP INDEX rota.run_owner;
DROP INDEX rota.job_owner;
