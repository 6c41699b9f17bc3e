/** The columns of a table of jobs; the list of jobs and that of an error group have the same ones. */

import type { ByKey, ItemOf } from "@/api";
import { type Column, Duration, Icon, Link, StateBadge, Time } from "@/ui";

export type Job = ItemOf<"/api/admin/jobs">;

/** How jobs in view are asked for when newer ones have pushed them off the first page. */
export const BY_ID: ByKey<Job> = { key: (job) => job.id, query: (id) => ({ id, limit: id.length }) };

export const jobHref = (job: { id: string }) => `/jobs/${job.id}`;

/** State, task with its error, queue, attempts, and the times that count. */
export const COLUMNS: Column<Job>[] = [
  { key: "state", title: "State", width: "7rem", cell: (job) => <State job={job} /> },
  { key: "task", title: "Task", truncate: true, width: "100%", cell: (job) => <Task job={job} /> },
  { key: "queue", title: "Queue", width: "8rem", hideBelow: "lg", cell: (job) => <span className="block max-w-32 truncate text-muted" title={job.queue}>{job.queue}</span> },
  {
    key: "attempt",
    title: "Attempts",
    width: "5rem",
    align: "right",
    hideBelow: "md",
    cell: (job) => (
      <span className={job.attempt === 0 ? "text-faint" : undefined} title={`${job.attempt} of at most ${job.max_attempts} attempts`}>
        {job.attempt}
        <span className="text-faint">/{job.max_attempts}</span>
      </span>
    ),
  },
  { key: "created", title: "Created", width: "6.5rem", hideBelow: "md", cell: (job) => <Time at={job.created_at} /> },
  { key: "when", title: "Due or ended", width: "8rem", hideBelow: "sm", cell: (job) => <When job={job} /> },
];

function State({ job }: { job: Job }) {
  return (
    <span className="inline-flex items-center gap-1">
      <StateBadge state={job.state} />
      {job.cancel_requested_at && job.state === "running" && (
        <span className="text-warn" title="It was asked to stop">
          <Icon name="ban" size={12} />
          <span className="sr-only">asked to stop</span>
        </span>
      )}
    </span>
  );
}

function Task({ job }: { job: Job }) {
  return (
    <span className="flex min-w-0 items-baseline gap-x-2 max-sm:flex-col">
      <Link href={jobHref(job)} className="max-w-full shrink-0 truncate font-medium !text-text hover:!text-accent">
        {job.task}
      </Link>
      {job.error || job.error_type ? (
        <span className="max-w-full truncate text-xs text-bad" title={job.error ?? undefined}>
          {job.error_type && <span className="font-medium">{job.error_type}</span>}
          {job.error_type && job.error && ": "}
          {job.error}
        </span>
      ) : (
        job.key && (
          <span className="max-w-full truncate font-mono text-2xs text-faint" title={`key ${job.key}`}>
            {job.key}
          </span>
        )
      )}
    </span>
  );
}

function When({ job }: { job: Job }) {
  if (job.finished_at) return <Time at={job.finished_at} />;
  if (job.state === "running")
    return (
      <span className="whitespace-nowrap text-accent">
        for <Duration since={job.updated_at} />
      </span>
    );
  return (
    <span className="whitespace-nowrap text-muted">
      due <Time at={job.run_at} />
    </span>
  );
}
