-- The jobs of one owner, newest first, live and finished. Jobs without an owner, which is nearly all of them, pay for neither.
CREATE INDEX job_owner ON rota.job (owner, id) WHERE owner IS NOT NULL;
CREATE INDEX run_owner ON rota.run (owner, job_id) WHERE final AND owner IS NOT NULL;
