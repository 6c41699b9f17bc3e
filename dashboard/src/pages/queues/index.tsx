/** All queues: how full, how far behind, how limited. */

import { listOf, useApi } from "@/api";
import { useRights } from "@/lib/rights";
import { useUrlState } from "@/lib/urlState";
import { type Column, Empty, Link, Page, Table } from "@/ui";
import { LimitsDialog, PauseDialog, type Queue } from "./dialogs";
import { Actions, Depth, Limits, Oldest, type Open, QueueState } from "./parts";

const LESSON = `@app.task(queue="mail")
def send_welcome(user_id: int) -> None: ...`;

export const queueHref = (name: string) => `/queues/${encodeURIComponent(name)}`;

function columns(onOpen: (queue: Queue, what: Open) => void): Column<Queue>[] {
  return [
    {
      key: "name",
      title: "Queue",
      cell: (row) => (
        <span className="flex min-w-36 flex-wrap items-center gap-x-2 gap-y-0.5">
          <Link href={queueHref(row.name)} className="font-medium">
            {row.name}
          </Link>
          <QueueState queue={row} reason />
        </span>
      ),
    },
    { key: "ready", title: "Due", align: "right", width: "5rem", cell: (row) => <Depth value={row.ready} /> },
    { key: "running", title: "Running", align: "right", width: "5rem", hideBelow: "sm", cell: (row) => <Depth value={row.running} /> },
    { key: "oldest", title: "Oldest", align: "right", width: "6rem", cell: (row) => <Oldest queue={row} /> },
    { key: "delayed", title: <span title="Not due yet">Later</span>, align: "right", width: "5rem", hideBelow: "lg", cell: (row) => <Depth value={row.delayed} /> },
    { key: "held", title: <span title="Due, but held back by limits">Held</span>, align: "right", width: "5rem", hideBelow: "lg", cell: (row) => <Depth value={row.held} /> },
    { key: "workers", title: "Workers", align: "right", width: "5rem", hideBelow: "md", cell: (row) => row.workers },
    { key: "limits", title: "Limits", width: "9rem", hideBelow: "md", cell: (row) => <Limits queue={row} /> },
    { key: "act", title: <span className="sr-only">Actions</span>, width: "1%", align: "right", cell: (row) => <Actions queue={row} small onOpen={(what) => onOpen(row, what)} /> },
  ];
}

export default function Queues() {
  const [view, setView] = useUrlState({ pause: "", limits: "" });
  const { can } = useRights();
  const found = useApi("/api/admin/queues", {}, { everyMs: 5_000, live: ["queues", "jobs"] });
  const open = (queue: Queue, what: Open) => setView(what === "pause" ? { pause: queue.name } : { limits: queue.name }, { replace: true });
  const close = () => setView({ pause: "", limits: "" }, { replace: true });
  const may = can("queues.change");
  return (
    <Page title="Queues">
      <Table
        label="Queues"
        list={listOf(found, (data) => data.items)}
        columns={columns(open)}
        rowKey={(row) => row.name}
        href={(row) => queueHref(row.name)}
        rowKeys={may ? [{ keys: "p", does: "Pause the queue", run: (row) => !row.paused_at && open(row, "pause") }, { keys: "l", does: "Limit the queue", run: (row) => open(row, "limits") }] : []}
        empty={
          <Empty title="No queues yet" icon="queues" snippet={LESSON} waiting="waiting for the first worker…">
            A queue is there as soon as a task names it and a worker, or <code className="font-mono text-xs">rota tasks sync</code>, has told of it.
          </Empty>
        }
      />
      {view.pause && <PauseDialog name={view.pause} onClose={close} />}
      {view.limits && <LimitsDialog name={view.limits} onClose={close} />}
    </Page>
  );
}
