/** The jobs of who is signed in: HTTP calls at their time, with every attempt at them. */

import { useState } from "react";
import { useAct, usePages } from "@/api";
import { cx } from "@/lib/classes";
import { toast } from "@/lib/toasts";
import { useUrlState } from "@/lib/urlState";
import { Button, type Column, Confirm, Empty, Icon, IconButton, Page, StateBadge, Table, Time, stateLook } from "@/ui";
import { whyNoRetry } from "../jobs/doable";
import { STATES } from "../jobs/query";
import { Create } from "./create";
import { OwnJobPeek } from "./one";
import { type OwnJob, StatusBadge, whyNoStop } from "./own";

const EVERY_MS = 3000; // who has only jobs of their own has no stream

const COLUMNS: Column<OwnJob>[] = [
  { key: "state", title: "State", width: "7rem", cell: (job) => <StateBadge state={job.state} /> },
  { key: "call", title: "Call", truncate: true, width: "100%", cell: (job) => <Call job={job} /> },
  { key: "answer", title: "Last answer", width: "7rem", hideBelow: "md", cell: (job) => (job.last_status === null ? <span className="text-faint">–</span> : <StatusBadge status={job.last_status} />) },
  { key: "attempt", title: "Attempts", width: "5rem", align: "right", hideBelow: "md", cell: (job) => <span>{job.attempt}<span className="text-faint">/{job.max_attempts}</span></span> },
  { key: "created", title: "Created", width: "6.5rem", hideBelow: "lg", cell: (job) => <Time at={job.created_at} /> },
  { key: "when", title: "Due or ended", width: "7.5rem", hideBelow: "sm", cell: (job) => (job.finished_at ? <Time at={job.finished_at} /> : <span className="whitespace-nowrap text-muted">due <Time at={job.run_at} /></span>) },
];

export default function OwnJobs() {
  const [view, setView] = useUrlState({ state: [] as string[], job: "", new: false });
  const states = STATES.filter((state) => view.state.includes(state));
  const list = usePages("/jobs", { query: { state: [...states] } }, { everyMs: EVERY_MS });
  const [stopping, setStopping] = useState<OwnJob | null>(null);
  const retry = useAct("post", "/jobs/{id}/retry", { done: "It is made again" });
  const cancel = useAct("post", "/jobs/{id}/cancel", { done: "Canceled", toastErrors: false });
  const tryAgain = (job: OwnJob) => {
    const why = whyNoRetry(job);
    if (why) toast(why, { kind: "info" });
    else retry.mutate({ path: { id: job.id } });
  };
  const stop = (job: OwnJob) => {
    const why = whyNoStop(job);
    if (why) toast(why, { kind: "info" });
    else setStopping(job);
  };
  const action: Column<OwnJob> = {
    key: "do",
    title: <span className="sr-only">Actions</span>,
    width: "2.5rem",
    align: "right",
    cell: (job) => (
      <span className="flex justify-end">
        {job.state === "failed" || job.state === "canceled" ? (
          <IconButton small label="Retry" icon="retry" onClick={() => tryAgain(job)} />
        ) : whyNoStop(job) === null ? (
          <IconButton small label="Cancel" icon="ban" onClick={() => stop(job)} />
        ) : null}
      </span>
    ),
  };
  return (
    <Page
      title="HTTP jobs"
      lead="Calls that Rota makes for you: at their time, again when they fail."
      actions={
        <Button look="primary" icon="plus" onClick={() => setView({ new: true })}>
          New call
        </Button>
      }
    >
      <div role="group" aria-label="State" className="flex flex-wrap gap-1">
        {STATES.map((state) => {
          const on = states.includes(state);
          return (
            <button
              key={state}
              type="button"
              aria-pressed={on}
              onClick={() => setView({ state: on ? states.filter((each) => each !== state) : [...states, state] })}
              className={cx("flex h-7 items-center gap-1.5 rounded-md border px-2 text-xs", on ? "border-accent bg-accent-soft font-medium text-accent" : "text-muted hover:bg-hover")}
            >
              <Icon name={stateLook(state).icon} size={12} />
              {state}
            </button>
          );
        })}
      </div>
      <Table
        label="Your jobs"
        list={list}
        columns={[...COLUMNS, action]}
        rowKey={(job) => job.id}
        onOpen={(job) => setView({ job: job.id })}
        current={view.job || null}
        rowKeys={[
          { keys: "r", does: "Retry the row", run: tryAgain },
          { keys: "c", does: "Cancel the row", run: stop },
        ]}
        empty={
          states.length > 0 ? (
            <Empty title="No job matches" icon="search" action={<Button onClick={() => setView({ state: [] })}>Show all of them</Button>} />
          ) : (
            <Empty
              title="No calls yet"
              icon="globe"
              snippet={'POST /jobs\n{\n  "url": "https://api.example.org/hooks",\n  "json": {"order": 7},\n  "run_at": "2090-01-01T09:00:00Z"\n}'}
              action={<Button look="primary" icon="plus" onClick={() => setView({ new: true })}>Make one</Button>}
              waiting="waiting for the first job…"
            >
              An HTTP job calls a URL, at once or later, with retries and a record of every attempt.
            </Empty>
          )
        }
      />
      {view.job && !stopping && <OwnJobPeek id={view.job} onRetry={tryAgain} onCancel={stop} onClose={() => setView({ job: "" })} />}
      {view.new && <Create onClose={() => setView({ new: false })} onMade={(job) => setView({ new: false, job })} />}
      {stopping && (
        <Confirm title="Cancel the job" action="Cancel the job" danger onClose={() => setStopping(null)} onConfirm={() => cancel.mutateAsync({ path: { id: stopping.id } })}>
          {stopping.state === "running" ? "The call that is under way is broken off." : "The call is not made. It can be retried later."}
        </Confirm>
      )}
    </Page>
  );
}

function Call({ job }: { job: OwnJob }) {
  return (
    <span className="flex min-w-0 items-baseline gap-x-2 max-sm:flex-col">
      {job.url === null ? (
        <span className="shrink-0 font-medium">{job.task}</span>
      ) : (
        <span className="max-w-full truncate">
          <span className="font-mono text-xs text-muted">{job.method}</span> <span title={job.url}>{job.url}</span>
        </span>
      )}
      {job.last_error && <span className="max-w-full truncate text-xs text-bad" title={job.last_error}>{job.last_error}</span>}
    </span>
  );
}
