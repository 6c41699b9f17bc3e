/** The attempts at a job: each with its times, worker, result or error. */

import { useEffect, useRef, useState } from "react";
import { type ListState, type Schema, useApi } from "@/api";
import { useRights } from "@/lib/rights";
import { Button, Duration, Empty, ErrorPanel, Facts, Icon, Id, Link, Notice, Skeleton, StateBadge, Time } from "@/ui";
import { ErrorView } from "./error";
import { PayloadView } from "./payload";

type Run = Schema<"RunLine">;
type Job = Schema<"JobRecord">;

interface AttemptsProps {
  job: Job;
  runs: ListState<Run>;
  /** What came with the job: the errors of its last attempts. */
  known: readonly Schema<"RunRecord">[];
  /** The one that a link names. */
  wanted: number;
}

export function Attempts({ job, runs, known, wanted }: AttemptsProps) {
  const { can, why } = useRights();
  if (!can("runs.read")) {
    return (
      <div className="flex flex-col gap-3">
        <Notice icon="lock">{why("runs.read")}</Notice>
        {job.last_error && <ErrorView error={job.last_error} />}
      </div>
    );
  }
  if (runs.error && runs.rows.length === 0) return <ErrorPanel problem={runs.error} onRetry={runs.refetch} />;
  if (runs.loading) return <Skeleton lines={4} />;
  if (runs.rows.length === 0) {
    return job.last_error ? (
      <div className="flex flex-col gap-3">
        <p className="text-muted">It ended before it began.</p>
        <ErrorView error={job.last_error} />
      </div>
    ) : job.attempt > 0 ? (
      <Empty title="The attempts are gone" icon="clock">
        It has been tried {job.attempt === 1 ? "once" : `${job.attempt} times`}; that history has been pruned.
      </Empty>
    ) : (
      <Empty title="Not tried yet" icon="clock" waiting={job.finished_at === null ? "waiting for the first attempt…" : undefined} />
    );
  }
  // The newest is open if it tells something: an error, or that it is running.
  const first = runs.rows[0]!;
  return (
    <div>
      <ul className="flex flex-col">
        {runs.rows.map((run) => (
          <AttemptRow key={run.attempt} run={run} job={job} known={known.find((each) => each.attempt === run.attempt)} opened={wanted ? run.attempt === wanted : run === first && run.status !== "completed"} wanted={run.attempt === wanted} />
        ))}
      </ul>
      {runs.hasMore && (
        <div className="flex justify-center py-3">
          <Button look="quiet" busy={runs.loadingMore} onClick={runs.loadMore}>
            Show earlier attempts
          </Button>
        </div>
      )}
    </div>
  );
}

function AttemptRow({ run, job, known, opened, wanted }: { run: Run; job: Job; known: Schema<"RunRecord"> | undefined; opened: boolean; wanted: boolean }) {
  const [open, setOpen] = useState(opened);
  const own = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (!wanted) return;
    setOpen(true);
    own.current?.scrollIntoView?.({ block: "nearest" });
  }, [wanted]);
  return (
    <li ref={own} className="border-b">
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="flex w-full flex-wrap items-center gap-x-3 gap-y-1 px-1 py-2 text-left hover:bg-hover">
        <Icon name={open ? "down" : "right"} size={12} className="text-faint" />
        <span className="font-medium whitespace-nowrap">Attempt {run.attempt}</span>
        <StateBadge state={run.status} />
        {!open && run.error && (
          <span className="min-w-0 flex-1 basis-40 truncate text-xs text-bad">
            {run.error_type && `${run.error_type}: `}
            {run.error}
          </span>
        )}
        <span className="ml-auto flex items-center gap-3 text-xs text-muted">
          {run.finished_at === null && run.started_at ? <Duration since={run.started_at} /> : <Duration of={run.duration} />}
          <Time at={run.started_at ?? run.finished_at} />
        </span>
      </button>
      {open && <Inside run={run} job={job} known={known} />}
    </li>
  );
}

function Inside({ run, job, known }: { run: Run; job: Job; known: Schema<"RunRecord"> | undefined }) {
  const { can } = useRights();
  const fetched = useApi("/api/admin/runs/{job_id}/{attempt}", { path: { job_id: run.job_id, attempt: run.attempt } }, { enabled: known === undefined && run.finished_at !== null, live: [] });
  const error = known ? known.error : fetched.data?.error;
  const result = known ? known.result : fetched.data?.result;
  return (
    <div className="flex flex-col gap-3 pb-4 pl-6">
      <Facts
        items={[
          ["Started", <Time key="started" at={run.started_at} absolute empty="it ended before it began" />],
          run.finished_at !== null && ["Ended", <Time key="ended" at={run.finished_at} absolute />],
          run.worker_id !== null && ["Worker", can("workers.read") ? <Link key="worker" href={`/workers?worker=${run.worker_id}`} className="font-mono text-xs">{run.worker_id.slice(-8)}</Link> : <Id key="worker" id={run.worker_id} />],
          can("logs.read") && ["Logs", <Link key="logs" href={`/jobs/${job.id}?tab=logs&attempt=${run.attempt}`}>of this attempt</Link>],
        ]}
      />
      {fetched.error && !known && <ErrorPanel problem={fetched.error} compact onRetry={() => void fetched.refetch()} />}
      {fetched.isLoading && <Skeleton lines={3} />}
      {error && <ErrorView error={error} />}
      {result !== null && result !== undefined && run.status === "completed" && <PayloadView payload={result} label={`Result of attempt ${run.attempt}`} />}
    </div>
  );
}
