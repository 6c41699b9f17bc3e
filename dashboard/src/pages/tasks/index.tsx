/** What code defines: all tasks, how they fare, and how the database differs from the code. */

import { useMemo } from "react";
import { type Schema, useApi, usePages } from "@/api";
import { useRights } from "@/lib/rights";
import { useUrlState } from "@/lib/urlState";
import { Checkbox, type Column, Count, Duration, Empty, Link, Notice, Page, SearchBox, Table, Tabs } from "@/ui";
import { EnabledSwitch, TaskBadges, type TaskView, fieldsOf, summaryOf, taskHref } from "./parts";
import { SyncPlan, usePlan } from "./plan";

type Stats = Schema<"TaskStats">;

const LESSON = `@app.task
def send_welcome(user_id: int) -> None:
    """Greets somebody who has just signed up."""`;

function columns(stats: Map<string, Stats>): Column<TaskView>[] {
  const of = (row: TaskView) => stats.get(row.record.name);
  return [
    {
      key: "name",
      title: "Task",
      cell: (row) => (
        <div className="flex min-w-0 flex-col py-0.5">
          <span className="flex flex-wrap items-center gap-x-2 gap-y-0.5">
            <Link href={taskHref(row.record.name)} className="font-medium wrap-anywhere">
              {row.record.name}
            </Link>
            <TaskBadges view={row} />
          </span>
          {summaryOf(row.record) && <span className="text-xs wrap-anywhere text-muted">{summaryOf(row.record)}</span>}
        </div>
      ),
    },
    { key: "queue", title: "Queue", width: "7rem", hideBelow: "md", truncate: true, cell: (row) => row.record.queue },
    { key: "runs", title: "Runs, 24 h", width: "6rem", align: "right", hideBelow: "sm", cell: (row) => <Count value={runsOf(of(row))} /> },
    { key: "failed", title: "Failed", width: "5rem", align: "right", hideBelow: "sm", cell: (row) => <Rate value={of(row)?.failure_rate} /> },
    { key: "p50", title: "p50", width: "5rem", align: "right", hideBelow: "lg", cell: (row) => <Duration of={of(row)?.duration?.p50} /> },
    { key: "p95", title: "p95", width: "5rem", align: "right", hideBelow: "lg", cell: (row) => <Duration of={of(row)?.duration?.p95} /> },
    { key: "p99", title: "p99", width: "5rem", align: "right", hideBelow: "xl", cell: (row) => <Duration of={of(row)?.duration?.p99} /> },
    { key: "workers", title: "Workers", width: "5rem", align: "right", hideBelow: "lg", cell: (row) => row.workers },
    { key: "enabled", title: "Enabled", width: "5rem", align: "right", cell: (row) => <EnabledSwitch view={row} hideLabel /> },
  ];
}

function runsOf(stats: Stats | undefined): number | null {
  return stats ? stats.completed + stats.failed + stats.canceled + stats.lost : null;
}

function Rate({ value }: { value: number | null | undefined }) {
  if (value === null || value === undefined) return <span className="text-faint">–</span>;
  const percent = value * 100;
  return <span className={value >= 0.05 ? "text-bad" : undefined}>{percent > 0 && percent < 0.1 ? "< 0.1" : percent.toFixed(percent < 10 ? 1 : 0).replace(/\.0$/, "")} %</span>;
}

function fits({ record }: TaskView, words: string[]): boolean {
  const text = [record.name, record.queue, record.description, ...record.tags, ...fieldsOf(record)].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

export default function Tasks() {
  const [view, setView] = useUrlState({ q: "", system: false, tab: "all", scan: false });
  const { can } = useRights();
  const list = usePages("/api/admin/tasks", { query: { system: view.system, limit: 1000 } }, { everyMs: 30_000 });
  const stats = useApi("/api/admin/stats/tasks", { query: { period: "24h", system: view.system } }, { enabled: can("runs.read"), everyMs: 10_000, live: [] });
  const plan = usePlan(view.scan);
  const byName = useMemo(() => new Map(stats.data?.items.map((each) => [each.task, each])), [stats.data]);
  const words = view.q.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = { ...list, rows: words.length ? list.rows.filter((row) => fits(row, words)) : list.rows };
  const differing = plan.data ? new Set([...plan.data.changes.filter((each) => each.kind !== "kept" && !each.system).map((each) => each.task)]).size : 0;
  const drifted = plan.data?.drift.length ?? 0;
  const all = () => (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <div className="w-full sm:w-80">
          <SearchBox label="Search tasks" placeholder="name, queue, tag, team:billing" value={view.q} onChange={(q) => setView({ q })} />
        </div>
        <Checkbox label="With Rota's own" checked={view.system} onChange={(system) => setView({ system })} />
      </div>
      {differing > 0 && (
        <Notice tone="warn">
          The code of this server and the database differ in {differing} {differing === 1 ? "task" : "tasks"}.{" "}
          <Link href="/tasks?tab=sync" className="!text-warn underline">
            See how
          </Link>
        </Notice>
      )}
      <Table
        label="Tasks"
        list={shown}
        columns={columns(byName)}
        rowKey={(row) => row.record.name}
        of={view.q}
        href={(row) => taskHref(row.record.name)}
        empty={
          words.length ? (
            <Empty title="No task fits these words" icon="search" />
          ) : (
            <Empty title="No tasks yet" icon="tasks" snippet={LESSON} waiting="waiting for the first worker…">
              A worker makes the tasks of its code known when it starts; <code className="font-mono text-xs">rota tasks sync -a app</code> does so without one.
            </Empty>
          )
        }
      />
    </div>
  );
  return (
    <Page title="Tasks">
      <Tabs
        label="Tasks"
        value={view.tab}
        onChange={(tab) => setView({ tab })}
        tabs={[
          { id: "all", label: "Tasks", count: list.loading ? null : list.rows.length, content: all },
          { id: "sync", label: "Code and database", count: differing + drifted || null, content: () => <SyncPlan plan={plan} scanned={view.scan} onScan={() => setView({ scan: true })} /> },
        ]}
      />
    </Page>
  );
}
