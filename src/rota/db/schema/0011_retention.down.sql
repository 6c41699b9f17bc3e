DROP FUNCTION rota.prune_orphaned_logs(uuid, integer), rota.prune_log_lines(text, timestamptz, integer);
DROP FUNCTION rota.drop_log_partition(text, timestamptz), rota.detach_run_partition(text, timestamptz, timestamptz);
DROP FUNCTION rota.is_over(timestamptz, timestamptz), rota.old_partitions(text, timestamptz), rota.log_tasks(), rota.run_tasks();
DROP FUNCTION rota.prune_runs(text, uuid, timestamptz, uuid, boolean, integer), rota.prune_jobs(text, uuid[], boolean);
