/** The kinds of alerts, as the server has them, in words. */

export const KINDS: Record<string, string> = {
  job_failed: "A job has failed for good",
  deadline_missed: "A scheduled job was late",
  schedule_failing: "Recurring rows keep failing",
  schedule_refused: "A schedule was switched off, since it cannot be fired",
  queue_stuck: "A queue does not get on",
  task_unknown: "No live worker knows a task",
  worker_died: "A worker is gone without a word",
  snapshot_held: "Something keeps dead rows in the database",
};

export function kindWords(kind: string): string {
  return KINDS[kind] ?? kind.replaceAll("_", " ");
}
