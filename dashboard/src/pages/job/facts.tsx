/** What a job is, at a glance. */

import type { Schema } from "@/api";
import { useRights } from "@/lib/rights";
import { Duration, Facts, Id, Link, Progress, StateBadge, Time } from "@/ui";

type Job = Schema<"JobRecord">;

/** `stateless` where the state stands above already. */
export function JobFacts({ job, stateless }: { job: Job; stateless?: boolean }) {
  const { can } = useRights();
  const finished = job.finished_at !== null;
  return (
    <div className="grid items-start gap-x-10 gap-y-1.5 sm:grid-cols-2 [&_dt]:min-w-20">
      <Facts
        items={[
          (!stateless || job.cancel_requested_at !== null) && ["State", <State key="state" job={job} />],
          ["Task", can("tasks.read") ? <Link key="task" href={`/tasks/${encodeURIComponent(job.task)}`}>{job.task}</Link> : job.task],
          ["Queue", <Link key="queue" href={`/jobs?queue=${encodeURIComponent(job.queue)}`}>{job.queue}</Link>],
          ["Attempts", `${job.attempt} of at most ${job.max_attempts}`],
          job.worker_id !== null && ["Worker", can("workers.read") ? <Link key="worker" href={`/workers?worker=${job.worker_id}`} className="font-mono text-xs">{job.worker_id.slice(-8)}</Link> : <Id key="worker" id={job.worker_id} />],
          job.key !== null && ["Key", <code key="key" className="font-mono text-xs">{job.key}</code>],
        ]}
      />
      <Facts
        items={[
          ["Id", <Id key="id" id={job.id} whole copy />],
          ["Created", <Time key="created" at={job.created_at} />],
          !finished && job.state !== "running" ? ["Due", <Time key="due" at={job.run_at} />] : null,
          job.last_run_at !== null && ["Last begun", <Time key="begun" at={job.last_run_at} />],
          finished && ["Ended", <Time key="ended" at={job.finished_at} />],
          ["Priority", job.priority],
          job.timeout !== null && ["Timeout", <Duration key="timeout" of={job.timeout} />],
          job.owner !== null && ["Owner", <Link key="owner" href={`/jobs?owner=${encodeURIComponent(job.owner)}`}>{job.owner}</Link>],
        ]}
      />
    </div>
  );
}

function State({ job }: { job: Job }) {
  return (
    <span className="inline-flex flex-wrap items-center gap-2">
      <StateBadge state={job.state} />
      {job.state === "running" && job.cancel_requested_at !== null && <span className="text-xs text-warn">asked to stop</span>}
    </span>
  );
}

interface Told {
  done?: unknown;
  total?: unknown;
  message?: unknown;
}

/** How far a job has come, as its handler says. */
export function JobProgress({ job }: { job: Job }) {
  if (job.progress === null || job.state !== "running") return null;
  const { done, total, message } = job.progress as Told;
  const known = typeof done === "number" ? done : 0;
  const of = typeof total === "number" && total > 0 ? total : null;
  return (
    <div className="flex max-w-xl flex-col gap-1.5">
      <Progress done={known} of={of} label="Progress" />
      <p className="flex justify-between gap-4 text-xs text-muted">
        <span className="wrap-anywhere">{typeof message === "string" ? message : ""}</span>
        <span className="whitespace-nowrap">{of === null ? known.toLocaleString("en") : `${known.toLocaleString("en")} of ${of.toLocaleString("en")}`}</span>
      </p>
    </div>
  );
}
