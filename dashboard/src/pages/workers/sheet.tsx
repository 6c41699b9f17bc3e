/** One worker, in a sheet beside the list. */

import { listOf, useApi } from "@/api";
import { type Column, Dialog, Duration, Empty, ErrorPanel, Facts, Id, Link, Section, Skeleton, StateBadge, Table, Time } from "@/ui";
import { type HeldJob, Seen, heldBy } from "./parts";

const JOBS: Column<HeldJob>[] = [
  { key: "task", title: "Task", truncate: true, cell: (row) => <Link href={`/jobs/${row.id}`}>{row.task}</Link> },
  { key: "id", title: "Job", width: "7rem", hideBelow: "sm", cell: (row) => <Id id={row.id} /> },
  { key: "for", title: "For", width: "6rem", align: "right", cell: (row) => <Duration since={row.claimed_at} /> },
  { key: "lease", title: "Lease ends", width: "7rem", align: "right", cell: (row) => <Time at={row.lease_until} /> },
];

export function WorkerSheet({ id, onClose }: { id: string; onClose: () => void }) {
  const found = useApi("/api/admin/workers/{id}", { path: { id } }, { everyMs: 5_000, live: ["workers", "runs"], keep: false });
  const worker = found.data;
  return (
    <Dialog title={worker ? `${worker.host}:${worker.pid}` : "Worker"} side onClose={onClose}>
      {!worker && (found.error ? <ErrorPanel problem={found.error} onRetry={() => void found.refetch()} /> : <Skeleton lines={6} />)}
      {worker && (
        <div className="flex flex-col gap-4">
          <Facts
            items={[
              ["State", <StateBadge state={worker.state} />],
              worker.state !== "stopped" && ["Last seen", <Seen worker={worker} />],
              worker.stopped_at !== null &&
                (worker.state === "dead"
                  ? ["Found dead", <><Time at={worker.stopped_at} />; live workers take over its jobs</>]
                  : ["Stopped", <><Time at={worker.stopped_at} />{worker.stop_reason ? `: ${worker.stop_reason}` : ""}</>]),
              ["Started", <Time at={worker.started_at} absolute />],
              ["Slots", `${worker.holds} of ${worker.slots} in use`],
              ["Queues", worker.queues.join(", ") || "none"],
              ["App", worker.app],
              ["Version", <span className="font-mono text-xs">{worker.version}</span>],
              ["Id", <Id id={worker.id} whole copy />],
            ]}
          />
          <Section title="Jobs it holds">
            <Table label="Jobs it holds" list={listOf(found, heldBy)} columns={JOBS} rowKey={(row) => row.id} href={(row) => `/jobs/${row.id}`} keyboard={false} empty={<Empty title="It holds none" icon="check" />} />
          </Section>
          <Section title="Tasks in its code" aside={<span className="text-xs text-muted">{worker.tasks.length}</span>}>
            <ul className="columns-1 gap-6 font-mono text-xs sm:columns-2">
              {worker.tasks.map((task) => (
                <li key={task} className="wrap-anywhere">
                  <Link href={`/tasks/${encodeURIComponent(task)}`}>{task}</Link>
                </li>
              ))}
            </ul>
          </Section>
        </div>
      )}
    </Dialog>
  );
}
