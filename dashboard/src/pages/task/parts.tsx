/** The parts of a task's page: what code says, how it fares, its runs and schedules. */

import { type ItemOf, type Schema, listOf, useApi, usePages } from "@/api";
import { count } from "@/lib/format";
import { toJson } from "@/lib/json";
import { scheduleHref } from "@/pages/overview/health";
import type { TaskRecord } from "@/pages/tasks/parts";
import { type Column, Count, Duration, Empty, Json, Link, Section, StateBadge, Table, Time } from "@/ui";

type Run = ItemOf<"/api/admin/runs">;
type Schedule = ItemOf<"/api/admin/schedules">;
type Stats = Schema<"TaskStats">;
type Shape = { type?: unknown; description?: string; default?: unknown; format?: string; enum?: unknown[]; anyOf?: Shape[]; items?: Shape; $ref?: string };

/** The doc string, as text: whatever code says. */
export function Doc({ record }: { record: TaskRecord }) {
  const text = record.description.trim();
  if (!text) return <p className="text-muted">Its code has no doc string.</p>;
  return <p className="max-w-prose wrap-anywhere whitespace-pre-line">{text}</p>;
}

/** The arguments of its payload in a table, and the whole schema below. */
export function PayloadSchema({ record }: { record: TaskRecord }) {
  const schema = record.payload_schema as { properties?: Record<string, Shape>; required?: string[] };
  const fields = Object.entries(schema.properties ?? {});
  return (
    <div className="flex flex-col gap-4">
      {fields.length === 0 ? (
        <p className="text-muted">It takes no arguments by name.</p>
      ) : (
        <div className="overflow-x-auto">
          <table aria-label="Arguments" className="w-full border-collapse">
            <thead>
              <tr className="border-b text-left text-xs text-muted">
                {["Argument", "Type", "If left out", "What it is"].map((title) => (
                  <th key={title} scope="col" className="px-2 py-1.5 font-medium">
                    {title}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {fields.map(([name, shape]) => (
                <tr key={name} className="border-b align-top">
                  <th scope="row" className="px-2 py-1.5 text-left font-mono text-xs font-normal">
                    {name}
                  </th>
                  <td className="px-2 py-1.5 font-mono text-xs">{typeWords(shape)}</td>
                  <td className="px-2 py-1.5 font-mono text-xs wrap-anywhere">{schema.required?.includes(name) ? <span className="text-muted">required</span> : "default" in shape ? toJson(shape.default) : <span className="text-muted">as code says</span>}</td>
                  <td className="px-2 py-1.5 wrap-anywhere text-muted">{shape.description ?? ""}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {Object.keys(record.default_payload).length > 0 && (
        <Section title="Default payload">
          <Json label="Default payload" value={record.default_payload} />
        </Section>
      )}
      <Section title="JSON Schema">
        <Json label="JSON Schema" value={record.payload_schema} />
      </Section>
    </div>
  );
}

/** A type in a word or two: "integer", "string or null", "list of string". */
export function typeWords(shape: Shape): string {
  if (shape.enum) return shape.enum.map((each) => toJson(each)).join(" | ");
  if (shape.anyOf) return shape.anyOf.map(typeWords).join(" or ");
  if (shape.$ref) return shape.$ref.split("/").at(-1) ?? "object";
  if (shape.type === "array") return shape.items ? `list of ${typeWords(shape.items)}` : "list";
  if (Array.isArray(shape.type)) return shape.type.join(" or ");
  return [shape.format ?? shape.type ?? "anything"].join("");
}

const STATS: [period: string, words: string][] = [
  ["1h", "1 hour"],
  ["24h", "24 hours"],
  ["7d", "7 days"],
];

/** Percentiles over the last hour, day and week. */
export function Percentiles({ name }: { name: string }) {
  const found = useApi("/api/admin/tasks/{name}/stats", { path: { name } }, { everyMs: 10_000, live: [] });
  const rows = STATS.map(([period, words]) => ({ words, stats: found.data?.[period] }));
  const columns: Column<(typeof rows)[number]>[] = [
    { key: "words", title: "The last", cell: (row) => row.words },
    { key: "completed", title: "Completed", align: "right", cell: (row) => <Count value={row.stats?.completed} /> },
    { key: "failed", title: "Failed", align: "right", cell: (row) => <Failed stats={row.stats} /> },
    { key: "p50", title: "p50", align: "right", cell: (row) => <Duration of={row.stats?.duration?.p50} /> },
    { key: "p95", title: "p95", align: "right", cell: (row) => <Duration of={row.stats?.duration?.p95} /> },
    { key: "p99", title: "p99", align: "right", cell: (row) => <Duration of={row.stats?.duration?.p99} /> },
    { key: "wait", title: "Wait p95", align: "right", hideBelow: "sm", cell: (row) => <Duration of={row.stats?.wait?.p95} /> },
  ];
  return <Table label="Percentiles" list={listOf(found, () => rows)} columns={columns} rowKey={(row) => row.words} keyboard={false} empty={null} />;
}

function Failed({ stats }: { stats: Stats | undefined }) {
  if (!stats) return <span className="text-faint">–</span>;
  const failed = stats.failed + stats.lost;
  return (
    <span className={failed > 0 ? "text-bad" : "text-faint"} title={`${count(stats.failed)} failed, ${count(stats.lost)} lost`}>
      {count(failed)}
      {stats.failure_rate ? ` (${(stats.failure_rate * 100).toFixed(stats.failure_rate < 0.1 ? 1 : 0)} %)` : ""}
    </span>
  );
}

const RUNS: Column<Run>[] = [
  { key: "status", title: "State", width: "7rem", cell: (row) => <StateBadge state={row.status} /> },
  { key: "job", title: "Job", width: "7rem", cell: (row) => <Link href={`/jobs/${row.job_id}`} className="font-mono text-xs">{row.job_id.slice(-8)}</Link> },
  { key: "attempt", title: "Attempt", width: "5rem", align: "right", hideBelow: "sm", cell: (row) => row.attempt },
  { key: "error", title: "Error", truncate: true, hideBelow: "md", cell: (row) => row.error_type && <span title={row.error ?? undefined}><span className="font-mono text-xs">{row.error_type}</span> <span className="text-muted">{row.error}</span></span> },
  { key: "duration", title: "Took", width: "6rem", align: "right", cell: (row) => (row.status === "running" ? <Duration since={row.started_at} /> : <Duration of={row.duration} />) },
  { key: "started", title: "Started", width: "7rem", align: "right", cell: (row) => <Time at={row.started_at} /> },
];

/** The newest runs. */
export function RecentRuns({ name }: { name: string }) {
  const found = useApi("/api/admin/runs", { query: { task: name, limit: 20 } });
  return (
    <Table
      label="Recent runs"
      list={listOf(found, (data) => data.items)}
      columns={RUNS}
      rowKey={(row) => `${row.job_id}/${row.attempt}`}
      href={(row) => `/jobs/${row.job_id}`}
      empty={<Empty title="It has not run yet" icon="clock" snippet={`rota tasks trigger ${name}`} waiting="waiting for the first run…" />}
    />
  );
}

const SCHEDULES: Column<Schedule>[] = [
  { key: "name", title: "Schedule", cell: (row) => <Link href={scheduleHref(nameOf(row))} className="wrap-anywhere">{nameOf(row)}</Link> },
  { key: "when", title: "When", cell: (row) => <span className="font-mono text-xs">{timingWords(row)}</span> },
  { key: "state", title: "State", width: "6rem", hideBelow: "sm", cell: (row) => <StateBadge state={row.record.enabled ? "enabled" : "disabled"} /> },
  { key: "last", title: "Last", width: "7rem", align: "right", hideBelow: "md", cell: (row) => <Time at={row.record.last_run_at} /> },
  { key: "next", title: "Next", width: "7rem", align: "right", cell: (row) => <Time at={row.record.next_run_at} empty="never" /> },
];

function nameOf({ record }: Schedule): string {
  return record.name ?? `${record.task}/${record.key ?? ""}`;
}

function timingWords({ record: { timing } }: Schedule): string {
  if (timing.strategy === "cron") return `${timing.cron ?? ""} ${timing.tz}`;
  if (timing.strategy === "interval") return `every ${timing.every ?? ""}`.replace(/PT?/, "").toLowerCase();
  return timing.strategy === "init" ? "once, when it is first deployed" : "as its rows say";
}

/** When it runs by itself. */
export function Schedules({ name }: { name: string }) {
  const list = usePages("/api/admin/schedules", { query: { task: name, system: true, limit: 50 } });
  return (
    <Table
      label="Schedules"
      list={list}
      columns={SCHEDULES}
      rowKey={(row) => row.record.id}
      href={(row) => scheduleHref(nameOf(row))}
      keyboard={false}
      empty={
        <Empty title="It does not run by itself" icon="schedules" snippet={`@app.task(schedule=cron("0 9 * * 1-5", tz="Europe/Berlin"))`}>
          Code gives it a schedule, or somebody makes one on the page <Link href="/schedules">Schedules</Link>.
        </Empty>
      }
    />
  );
}
