/** The processes that run jobs; those that have died or stopped stay for a day. */

import { listOf, useApi } from "@/api";
import { useMe } from "@/app/session";
import { cx } from "@/lib/classes";
import { useUrlState } from "@/lib/urlState";
import { type Column, Duration, Empty, Link, Meter, Page, StateBadge, Table, Time } from "@/ui";
import { Seen, type Worker, heldBy } from "./parts";
import { WorkerSheet } from "./sheet";

const SHOWN = 2;
const STATES = ["live", "silent", "dead", "stopped"] as const;
const MEANS: Record<string, string> = {
  live: "responding",
  silent: "no heartbeat for a while, but not known to be gone",
  dead: "died unexpectedly; live workers take over its jobs",
  stopped: "shut down in good order",
};

function columns(version: string | undefined): Column<Worker>[] {
  return [
    { key: "state", title: "State", width: "6.5rem", cell: (row) => <StateBadge state={row.state} title={MEANS[row.state]} /> },
    {
      key: "host",
      title: "Worker",
      width: "12rem",
      truncate: true,
      cell: (row) => (
        <Link href={`/workers?worker=${row.id}`} className="font-mono text-xs">
          {row.host}:{row.pid}
        </Link>
      ),
    },
    { key: "seen", title: "Last seen", width: "7rem", cell: (row) => <Seen worker={row} /> },
    {
      key: "slots",
      title: "Slots",
      width: "9rem",
      hideBelow: "sm",
      cell: (row) => (
        <span className="flex items-center gap-2 whitespace-nowrap">
          <Meter value={row.holds} of={row.slots} label="Slots in use" /> {row.holds} of {row.slots}
        </span>
      ),
    },
    { key: "jobs", title: "Working on", hideBelow: "lg", truncate: true, cell: (row) => <Jobs worker={row} /> },
    { key: "queues", title: "Queues", hideBelow: "md", truncate: true, width: "14rem", cell: (row) => <span title={row.queues.join(", ")}>{row.queues.join(", ")}</span> },
    {
      key: "version",
      title: "Version",
      width: "6rem",
      hideBelow: "lg",
      cell: (row) => <span className={cx("font-mono text-xs", version && row.version !== version && "text-warn")} title={version && row.version !== version ? `the server is ${version}` : undefined}>{row.version}</span>,
    },
    { key: "since", title: "Started", width: "7rem", hideBelow: "md", align: "right", cell: (row) => <Time at={row.started_at} /> },
  ];
}

function Jobs({ worker }: { worker: Worker }) {
  if (worker.holds === 0) return <span className="text-faint">–</span>;
  const jobs = heldBy(worker).slice(0, SHOWN);
  return (
    <>
      {jobs.map((job) => (
        <span key={job.id} className="mr-3">
          <Link href={`/jobs/${job.id}`}>{job.task}</Link>{" "}
          <span className="text-muted">
            <Duration since={job.claimed_at} />
          </span>
        </span>
      ))}
      {worker.holds > jobs.length && <span className="text-muted">+{worker.holds - jobs.length}</span>}
    </>
  );
}

export default function Workers() {
  const [view, setView] = useUrlState({ state: [] as string[], worker: "" });
  const { version } = useMe();
  const found = useApi("/api/admin/workers", {}, { everyMs: 5_000, live: ["workers", "runs"] });
  const all = found.data?.items ?? [];
  const counts = new Map(STATES.map((state) => [state as string, all.filter((each) => each.state === state).length]));
  const toggle = (state: string) => setView({ state: view.state.includes(state) ? view.state.filter((each) => each !== state) : [...view.state, state] });
  const list = listOf(found, (data) => data.items.filter((each) => view.state.length === 0 || view.state.includes(each.state)));
  const versions = new Set(all.filter((each) => each.state === "live").map((each) => each.version));
  return (
    <Page title="Workers" lead={versions.size > 1 ? `${versions.size} versions are live: ${[...versions].join(", ")}` : undefined}>
      {all.length > 0 && (
        <div role="group" aria-label="State" className="flex flex-wrap gap-1.5">
          {STATES.filter((state) => counts.get(state) || view.state.includes(state)).map((state) => (
            <button key={state} type="button" aria-pressed={view.state.includes(state)} title={MEANS[state]} onClick={() => toggle(state)} className={cx("flex items-center gap-1.5 rounded-md border px-1.5 py-0.5", view.state.includes(state) ? "border-accent bg-accent-soft" : "hover:bg-hover")}>
              <StateBadge state={state} /> {counts.get(state)}
            </button>
          ))}
        </div>
      )}
      <Table
        label="Workers"
        list={list}
        columns={columns(version)}
        rowKey={(row) => row.id}
        onOpen={(row) => setView({ worker: row.id })}
        current={view.worker}
        of={view.state.join()}
        empty={
          all.length > 0 ? (
            <Empty title="No worker is in this state" icon="workers" />
          ) : (
            <Empty title="No worker in the last 24 hours" icon="workers" snippet={"rota worker -a app"} waiting="waiting for the first worker…">
              A worker runs the jobs of an application. Start as many as you like, on as many machines: each tells of itself here. Jobs wait until then.
            </Empty>
          )
        }
      />
      {all.some((each) => each.state === "dead" || each.state === "stopped") && <p className="text-xs text-muted">Workers that have ended stay here for a day.</p>}
      {view.worker && <WorkerSheet id={view.worker} onClose={() => setView({ worker: "" })} />}
    </Page>
  );
}
