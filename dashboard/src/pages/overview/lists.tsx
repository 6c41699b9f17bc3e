/** What goes wrong most, and what runs next. */

import { type ItemOf, listOf, useApi } from "@/api";
import { Badge, type Column, Count, Empty, Link, Table, Time } from "@/ui";
import { scheduleHref } from "./health";

type Group = ItemOf<"/api/admin/errors">;
type Next = ItemOf<"/api/admin/upcoming">;

const GROUPS: Column<Group>[] = [
  {
    key: "error",
    title: "Error",
    truncate: true,
    cell: (row) => (
      <>
        <Link href={groupHref(row.fingerprint)} className="font-mono text-xs">
          {row.type || "error"}
        </Link>{" "}
        <span className="text-muted">{row.message}</span>
      </>
    ),
  },
  { key: "task", title: "Task", width: "9rem", truncate: true, hideBelow: "lg", cell: (row) => row.tasks.join(", ") },
  { key: "count", title: "Runs", width: "4rem", align: "right", cell: (row) => <Count value={row.count.count} capped={row.count.capped} /> },
  { key: "last", title: "Last", width: "6rem", align: "right", hideBelow: "sm", cell: (row) => <Time at={row.last_seen} /> },
];

/** Where a group of errors is looked into. */
export function groupHref(fingerprint: string): string {
  return `/errors?group=${encodeURIComponent(fingerprint)}`;
}

/** The groups of errors of the last day, or of one task. */
export function ErrorGroups({ task }: { task?: string }) {
  const found = useApi("/api/admin/errors", { query: { limit: 5, since: "24h", task } }, { everyMs: 30_000 });
  return (
    <Table
      label="Errors of the last 24 hours"
      list={listOf(found, (data) => data.items)}
      columns={task ? GROUPS.filter((each) => each.key !== "task") : GROUPS}
      rowKey={(row) => row.fingerprint}
      href={(row) => groupHref(row.fingerprint)}
      keyboard={false}
      empty={<Empty title="No errors in the last 24 hours" icon="check" />}
    />
  );
}

const RUNS: Column<Next>[] = [
  { key: "at", title: "When", width: "6rem", cell: (row) => <Time at={row.at} /> },
  {
    key: "name",
    title: "Schedule",
    truncate: true,
    cell: (row) => (
      <>
        <Link href={scheduleHref(row.name)}>{row.name}</Link>
        {row.late && (
          <span className="ml-2">
            <Badge tone="bad" icon="warning">
              late
            </Badge>
          </span>
        )}
        {row.resting && (
          <span className="ml-2">
            <Badge icon="pause" title="Its task is disabled or in no code: it will pass this time over">
              resting
            </Badge>
          </span>
        )}
      </>
    ),
  },
  { key: "words", title: "Every", truncate: true, hideBelow: "md", cell: (row) => <span className="text-muted">{row.words}</span> },
];

const LESSON = `from rota import cron

@app.task(schedule=cron("0 9 * * 1-5", tz="Europe/Berlin"))
def send_digest() -> None: ...`;

/** The ten schedules and recurring rows that run next. */
export function NextRuns() {
  const found = useApi("/api/admin/upcoming", { query: { limit: 10 } }, { everyMs: 10_000, live: ["schedules"] });
  return (
    <Table
      label="Next runs"
      list={listOf(found, (data) => data.items)}
      columns={RUNS}
      rowKey={(row) => row.id}
      href={(row) => scheduleHref(row.name)}
      keyboard={false}
      empty={
        <Empty title="Nothing runs by itself yet" icon="schedules" snippet={LESSON}>
          A task with a schedule, or one made on the page Schedules, is listed here.
        </Empty>
      }
    />
  );
}
