/** Throughput and latency over time, from the roll-ups. */

import { useMemo } from "react";
import { useApi } from "@/api";
import { cx } from "@/lib/classes";
import { durationWords } from "@/lib/format";
import { Chart, ErrorPanel, type Series, Skeleton } from "@/ui";

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
            { label: "work p50", tone: "accent", values: data.p50 },
            { label: "work p95", tone: "info", values: data.p95 },
            { label: "wait p95", tone: "warn", dashed: true, values: data.wait_p95 },
          ]
        : [],
    [data],
  );
  if (!data) {
    if (found.error) return <ErrorPanel problem={found.error} onRetry={() => void found.refetch()} />;
    return <Skeleton lines={5} className="min-h-48" />;
  }
  return (
    <>
      {found.error && <ErrorPanel problem={found.error} onRetry={() => void found.refetch()} compact />}
      <div className={cx("grid gap-x-8 gap-y-4 lg:grid-cols-2", found.isPlaceholderData && "opacity-60")}>
        <div className="min-w-0">
          <h3 className="mb-1 text-xs text-muted">Runs per {slotWords(data.width)}</h3>
          <Chart label={`Runs that ended, per ${slotWords(data.width)}`} times={times} series={runs} />
        </div>
        <div className="min-w-0">
          <h3 className="mb-1 text-xs text-muted">How long they worked, and had waited</h3>
          <Chart label="How long runs worked, and had waited" times={times} series={latency} unit="s" />
        </div>
      </div>
      {!data.complete && <p className="mt-1 text-xs text-muted">There were too many tasks to add up: the oldest part lacks some.</p>}
    </>
  );
}

function slotWords(width: number): string {
  const words = durationWords(width);
  return words.startsWith("1 ") ? words.slice(2) : words;
}
