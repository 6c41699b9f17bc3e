/** One queue. */

import { type ItemOf, listOf, useApi } from "@/api";
import { useKeys } from "@/lib/keys";
import { useRights } from "@/lib/rights";
import { useName, useUrlState } from "@/lib/urlState";
import { Charts, Periods, periodOf } from "@/pages/overview/charts";
import { LimitsDialog, PauseDialog } from "@/pages/queues/dialogs";
import { Actions, Depth, Limits, Oldest, QueueState } from "@/pages/queues/parts";
import { Badge, type Column, Empty, ErrorPanel, Facts, Id, Link, LinkButton, Page, Section, Skeleton, StateBadge, Table, Time } from "@/ui";

type Job = ItemOf<"/api/admin/jobs">;

const JOBS: Column<Job>[] = [
  { key: "state", title: "State", width: "7rem", cell: (row) => <StateBadge state={row.state} /> },
  { key: "task", title: "Task", truncate: true, cell: (row) => <Link href={`/jobs/${row.id}`}>{row.task}</Link> },
  { key: "id", title: "Job", width: "7rem", hideBelow: "md", cell: (row) => <Id id={row.id} /> },
  { key: "attempt", title: "Attempt", width: "5rem", align: "right", hideBelow: "sm", cell: (row) => `${row.attempt} of ${row.max_attempts}` },
  { key: "due", title: "Due", width: "7rem", align: "right", cell: (row) => <Time at={row.run_at} /> },
];

export default function QueuePage() {
  const name = useName();
  const [view, setView] = useUrlState({ period: "1h", dialog: "" });
  const { can } = useRights();
  const found = useApi("/api/admin/queues/{name}", { path: { name } }, { everyMs: 5_000, live: ["queues", "jobs"], keep: false });
  const workers = useApi("/api/admin/workers", { query: { state: ["live"] } }, { enabled: can("workers.read") });
  const jobs = useApi("/api/admin/jobs", { query: { queue: name, state: ["queued", "running"], limit: 20 } }, { enabled: can("jobs.read") });
  const close = () => setView({ dialog: "" }, { replace: true });
  const may = can("queues.change");
  useKeys([
    { keys: "p", does: "Pause the queue", run: () => setView({ dialog: "pause" }, { replace: true }), when: () => may && !found.data?.paused_at },
    { keys: "l", does: "Limit the queue", run: () => setView({ dialog: "limits" }, { replace: true }), when: () => may },
  ]);
  const queue = found.data;
  if (!queue) {
    return (
      <Page title={name} heading={name}>
        {found.error ? (
          <>
            <ErrorPanel problem={found.error} onRetry={() => void found.refetch()} />
            <div className="text-center">
              <LinkButton href="/queues">All queues</LinkButton>
            </div>
          </>
        ) : (
          <Skeleton lines={6} />
        )}
      </Page>
    );
  }
  const serving = workers.data?.items.filter((worker) => worker.queues.includes(name)) ?? [];
  const period = periodOf(view.period);
  return (
    <Page
      title={`Queue ${name}`}
      heading={
        <span className="flex flex-wrap items-center gap-2">
          {name} <QueueState queue={queue} />
        </span>
      }
      lead={<Link href="/queues">All queues</Link>}
      actions={<Actions queue={queue} onOpen={(dialog) => setView({ dialog }, { replace: true })} />}
    >
      {found.error && <ErrorPanel problem={found.error} onRetry={() => void found.refetch()} compact />}
      <Facts
        items={[
          queue.paused_at !== null && [
            "Paused",
            <>
              <Time at={queue.paused_at} />
              {queue.pause_reason ? `: ${queue.pause_reason}` : ", no reason was given"}
            </>,
          ],
          ["Due", <Depth value={queue.ready} />],
          ["Running", <Depth value={queue.running} />],
          ["Oldest wait", <Oldest queue={queue} none="nothing is due" />],
          ["Not due yet", <Depth value={queue.delayed} />],
          ["Held by limits", <Depth value={queue.held} />],
          ["Wait for parents", <Depth value={queue.waiting} />],
          ["Limits", <Limits queue={queue} />],
          [
            "Live workers",
            serving.length ? (
              <span className="flex flex-wrap gap-x-3">
                {serving.slice(0, 20).map((worker) => (
                  <Link key={worker.id} href={`/workers?worker=${worker.id}`}>
                    {worker.host}:{worker.pid}
                  </Link>
                ))}
                {serving.length > 20 && <span className="text-muted">and {serving.length - 20} more</span>}
              </span>
            ) : (
              String(queue.workers)
            ),
          ],
        ]}
      />
      {queue.workers === 0 && queue.ready.count > 0 && !queue.paused_at && (
        <p>
          <Badge tone="bad" icon="warning">
            no worker
          </Badge>{" "}
          Jobs are due here and no live worker works this queue. Start one: <code className="font-mono text-xs">rota worker -a app --queue {name}</code>
        </p>
      )}
      {can("runs.read") && (
        <Section title="Tasks of this queue" aside={<Periods value={period} onChange={(period) => setView({ period })} />}>
          <Charts period={period} queue={name} />
        </Section>
      )}
      {can("jobs.read") && (
        <Section title="Queued and running" aside={<Link href={`/jobs?q=${encodeURIComponent(`queue:${name} state:queued,running`)}`}>All of them</Link>}>
          <Table label="Jobs" list={listOf(jobs, (data) => data.items)} columns={JOBS} rowKey={(row) => row.id} href={(row) => `/jobs/${row.id}`} empty={<Empty title="Nothing is queued or running here" icon="check" />} />
        </Section>
      )}
      {view.dialog === "pause" && <PauseDialog name={name} onClose={close} />}
      {view.dialog === "limits" && <LimitsDialog name={name} onClose={close} />}
    </Page>
  );
}
