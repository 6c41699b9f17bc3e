/** Throughput and latency over time, from the roll-ups. */

import { useMemo, useState } from "react";
import { type AnswerOf, useApi } from "@/api";
import { cx } from "@/lib/classes";
import { count, durationWords, local } from "@/lib/format";
import { quote } from "@/pages/jobs/query";
import { Chart, type ChartRange, ErrorPanel, IconButton, Link, type Series, Skeleton } from "@/ui";

export const PERIODS = ["1h", "6h", "24h", "7d", "30d"] as const;
export type Period = (typeof PERIODS)[number];

const WORDS: Record<Period, string> = { "1h": "1 hour", "6h": "6 hours", "24h": "24 hours", "7d": "7 days", "30d": "30 days" };

/** What an address says of the period; anything else is an hour. */
export function periodOf(text: string): Period {
  return PERIODS.find((each) => each === text) ?? "1h";
}

/** Over which time: one of a few. */
export function Periods({ value, onChange }: { value: Period; onChange: (period: Period) => void }) {
  return (
    <div role="group" aria-label="Period" className="inline-flex rounded-md border border-line-strong">
      {PERIODS.map((each, index) => (
        <button
          key={each}
          type="button"
          aria-pressed={each === value}
          title={`The last ${WORDS[each]}`}
          onClick={() => onChange(each)}
          className={cx(
            "h-6 px-2 text-xs first:rounded-l-[4px] last:rounded-r-[4px] focus-visible:z-10",
            index > 0 && "border-l",
            each === value ? "bg-accent-soft font-medium text-accent-strong" : "text-muted hover:bg-hover hover:text-text",
          )}
        >
          {each}
        </button>
      ))}
    </div>
  );
}

/** The charts of everything, of one task, or of the tasks of one queue. */
export function Charts({ period, task, queue }: { period: Period; task?: string; queue?: string }) {
  // Asked by the clock and not by the stream: a slot is a minute wide at least, and adding them up is work.
  const found = useApi("/api/admin/stats/series", { query: { period, task, queue, system: task !== undefined } }, { everyMs: period === "1h" ? 5_000 : 30_000, live: [] });
  const data = found.data;
  const times = useMemo(() => data?.at.map((at) => at * 1000) ?? [], [data]);
  const runs = useMemo<Series[]>(
    () =>
      data
        ? [
            { label: "completed", tone: "ok", kind: "bars", values: data.completed },
            { label: "failed", tone: "bad", kind: "bars", values: data.failed },
            { label: "canceled", tone: "neutral", kind: "bars", values: data.canceled },
          ]
        : [],
    [data],
  );
  const latency = useMemo<Series[]>(
    () =>
      data
        ? [
            { label: "Run p50", tone: "accent", values: data.p50 },
            { label: "Run p95", tone: "info", values: data.p95 },
            { label: "Wait p95", tone: "warn", dashed: true, values: data.wait_p95 },
          ]
        : [],
    [data],
  );
  // By time, not by place: the slots move on.
  const [marked, setMarked] = useState<{ from: number; to: number } | null>(null);
  const range = useMemo<ChartRange | null>(() => {
    if (!marked || !data) return null;
    const first = data.at.findIndex((at) => at >= marked.from);
    const last = data.at.findLastIndex((at) => at < marked.to);
    return first >= 0 && first <= last ? [first, last] : null;
  }, [marked, data]);
  if (!data) {
    if (found.error) return <ErrorPanel problem={found.error} onRetry={() => void found.refetch()} />;
    return <Skeleton lines={5} className="min-h-48" />;
  }
  const select = ([first, last]: ChartRange) => setMarked({ from: data.at[first]!, to: data.at[last]! + data.width });
  const empty = "No runs in this period";
  const chart = { times, unfinished: true, empty, range, onSelect: select };
  return (
    <>
      {found.error && <ErrorPanel problem={found.error} onRetry={() => void found.refetch()} compact />}
      <div className={cx("grid gap-x-8 gap-y-4 lg:grid-cols-2", found.isPlaceholderData && "opacity-60")}>
        <div className="min-w-0">
          <h3 className="mb-1 text-xs text-muted">Runs per {slotWords(data.width)}</h3>
          <Chart label={`Runs that ended, per ${slotWords(data.width)}`} series={runs} {...chart} />
        </div>
        <div className="min-w-0">
          <h3 className="mb-1 text-xs text-muted">Run time and wait time</h3>
          <Chart label="Run time and wait time" series={latency} unit="s" {...chart} />
        </div>
      </div>
      {!data.complete && <p className="mt-1 text-xs text-muted">Too many tasks: older data is partial.</p>}
      {marked && range && <Marked data={data} range={range} task={task} queue={queue} onClear={() => setMarked(null)} />}
    </>
  );
}

/** What happened in the time that was marked, and the way to its jobs. */
function Marked({ data, range: [first, last], task, queue, onClear }: { data: AnswerOf<"get", "/api/admin/stats/series">; range: ChartRange; task?: string; queue?: string; onClear: () => void }) {
  const from = data.at[first]! * 1000;
  const to = (data.at[last]! + data.width) * 1000;
  const sum = (values: number[]) => values.slice(first, last + 1).reduce((total, value) => total + value, 0);
  const outcomes = (["completed", "failed", "canceled"] as const).map((name) => `${count(sum(data[name]))} ${name}`).join(", ");
  const q = [`since:${new Date(from).toISOString()}`, `until:${new Date(to).toISOString()}`, task && `task:${quote(task)}`, queue && `queue:${quote(queue)}`].filter(Boolean).join(" ");
  const sameDay = local(from, undefined, "date") === local(to, undefined, "date");
  return (
    <p role="status" aria-label="Selected time" className="mt-1 flex flex-wrap items-center gap-x-3 text-xs">
      <span className="font-medium">
        {local(from, undefined, sameDay ? "minutes" : "both")} – {local(to, undefined, sameDay ? "minutes" : "both")}
      </span>
      <span className="text-muted">{outcomes}</span>
      <Link href={`/jobs?q=${encodeURIComponent(q)}`}>Jobs created in this time</Link>
      <IconButton small icon="cross" label="Clear the selection" onClick={onClear} />
    </p>
  );
}

function slotWords(width: number): string {
  const words = durationWords(width);
  return words.startsWith("1 ") ? words.slice(2) : words;
}
