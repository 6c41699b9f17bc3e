/** Cells of the table of schedules. */

import { now } from "@/lib/clock";
import { Badge, StateBadge, Time, Tooltip } from "@/ui";
import { reasonWords } from "./firings";
import { type Line, type ScheduleRecord, timingWords } from "./words";

const LATE_MS = 60_000;

/** When it fires, in words; the cron expression itself on hover and below. */
export function When({ line }: { line: Line }) {
  const { timing } = line.record;
  return (
    <div className="min-w-0">
      <div className="truncate">{timingWords(timing, line.words)}</div>
      {timing.strategy === "cron" && (
        <div className="truncate text-xs text-muted">
          <code className="font-mono">{timing.cron}</code> · {timing.tz}
        </div>
      )}
    </div>
  );
}

/** When it fired last, and what became of that. */
export function Last({ line }: { line: Line }) {
  const { record } = line;
  if (!record.last_run_at && !line.job_state && !line.outcome) return <span className="text-faint">never</span>;
  return (
    <div className="flex items-center gap-2">
      <LastState line={line} />
      <Time at={record.last_run_at} empty="" />
    </div>
  );
}

function LastState({ line }: { line: Line }) {
  if (line.outcome === "skipped" && !line.job_state) return <StateBadge state="skipped" title={reasonWords(line.reason)} />;
  if (line.job_state) return <StateBadge state={line.job_state} />;
  const { consecutive_failures: failures, successes } = line.record;
  if (failures > 0) return <StateBadge state="failed" title={`${failures} in a row`} />;
  return successes > 0 ? <StateBadge state="completed" /> : line.outcome ? <StateBadge state={line.outcome} /> : null;
}

/** When it fires next; late if nobody has fired it in time. */
export function Next({ record }: { record: ScheduleRecord }) {
  if (!record.enabled) return <span className="text-faint">disabled</span>;
  if (!record.next_run_at) return <span className="text-faint">{record.job_id ? "when it has run" : "never again"}</span>;
  const late = Date.parse(record.next_run_at) < now() - LATE_MS;
  return (
    <span className="inline-flex flex-wrap items-center gap-x-2">
      <Time at={record.next_run_at} />
      {late && (
        <Badge tone="warn" icon="warning" title="Its time is over, and no scheduler has fired it.">
          late
        </Badge>
      )}
    </span>
  );
}

/** Since when it fails, if it does. */
export function Failing({ record }: { record: ScheduleRecord }) {
  if (!record.failing_since) return null;
  return (
    <Tooltip words={`${record.consecutive_failures} failures in a row`}>
      <span tabIndex={-1}>
        <Badge tone="bad" icon="warning">
          failing
        </Badge>
      </span>
    </Tooltip>
  );
}
