/** When a timing would fire, asked while one types; and what a cron expression can say. */

import type { Schema } from "@/api";
import type { Problem } from "@/api/problem";
import { useApi } from "@/api";
import { useDebounced } from "@/lib/debounced";
import { zone } from "@/lib/format";
import { Badge, Button, Notice, Skeleton, Time } from "@/ui";
import type { Draft } from "./draft";
import { dayAndTime, fromField } from "./words";

const TIMES = 10;

export interface PreviewState {
  preview: Schema<"Preview"> | undefined;
  /** What the server has against it, as long as that is about what stands there now. */
  problem: Problem | null;
  /** What stands there has not been judged yet. */
  pending: boolean;
  asked: boolean;
}

/** Asks when the timing in the fields would fire, a moment after the last key. */
export function usePreview(draft: Draft): PreviewState {
  const cron = draft.mode === "cron" ? draft.cron.trim() : "";
  const every = draft.mode === "interval" ? draft.every.trim() : "";
  const tz = cron ? draft.tz.trim() || "UTC" : "";
  const [slow, settled] = useDebounced(JSON.stringify([cron, every, tz]));
  const [askCron, askEvery, askTz] = JSON.parse(slow) as [string, string, string];
  const asked = Boolean(cron || every);
  const answer = useApi("/api/admin/schedules/preview", { query: { cron: askCron, every: askEvery, tz: askTz, count: TIMES } }, { enabled: Boolean(askCron || askEvery), live: [] });
  const current = asked && settled;
  return {
    preview: asked ? answer.data : undefined,
    problem: current ? answer.error : null,
    pending: asked && (!settled || answer.isFetching),
    asked,
  };
}

/** The timing in words and its next ten times, with what the clocks do to them. */
export function Preview({ state, draft }: { state: PreviewState; draft: Draft }) {
  if (draft.mode === "once") return <OncePreview at={fromField(draft.at)} />;
  if (draft.mode === "init") return <p className="text-muted">It runs once ever: when a worker first sees the task, and again at later starts until it has succeeded. Only code can make such a schedule.</p>;
  const { preview, problem, pending, asked } = state;
  if (!asked) return <p className="text-muted">The next ten times are shown here as you type.</p>;
  if (problem) return <p className="text-muted">{problem.offline ? "The server cannot be reached: the times cannot be shown." : "No times: mend what is marked first."}</p>;
  if (!preview) return <Skeleton lines={4} />;
  const tz = preview.timing.strategy === "cron" ? preview.timing.tz : zone;
  return (
    <div aria-busy={pending} className={pending ? "opacity-60" : undefined}>
      <p className="font-medium wrap-anywhere" role="status">
        {preview.words}
      </p>
      <Times times={preview.times} tz={tz} />
    </div>
  );
}

function OncePreview({ at }: { at: string }) {
  if (!at) return <p className="text-muted">It runs once, at the time that you choose.</p>;
  return (
    <p role="status">
      Once: {dayAndTime(at, zone)} {zone} (<Time at={at} />)
    </p>
  );
}

/** Times on the clocks of a zone; what the clocks do to one stands beside it. */
export function Times({ times, tz }: { times: Schema<"Upcoming">[]; tz: string }) {
  if (times.length === 0) return <Notice tone="warn">It never fires.</Notice>;
  return (
    <>
      <ol aria-label="Next times" className="mt-1.5 flex flex-col">
        {times.map((each) => (
          <li key={each.at_utc} className="flex flex-wrap items-baseline gap-x-3 gap-y-0.5 border-b py-1 last:border-b-0">
            <span className="font-mono text-xs whitespace-nowrap">{dayAndTime(each.at_utc, tz)}</span>
            <span className="text-xs text-muted">
              <Time at={each.at_utc} />
            </span>
            {each.note && (
              <span className="basis-full">
                <Badge tone="warn" icon="clock">
                  Clocks change
                </Badge>{" "}
                <span className="text-xs text-warn wrap-anywhere">{each.note}</span>
              </span>
            )}
          </li>
        ))}
      </ol>
      <p className="mt-1 text-xs text-muted">{tz}</p>
    </>
  );
}

const FIELDS: [name: string, values: string][] = [
  ["minute", "0–59"],
  ["hour", "0–23"],
  ["day of the month", "1–31, L the last one"],
  ["month", "1–12, jan–dec"],
  ["day of the week", "0–7 (0 and 7 are Sunday), mon–sun, mon#2 the second Monday, 5L the last Friday"],
];
const EXAMPLES: [cron: string, words: string][] = [
  ["*/15 * * * *", "every 15 minutes"],
  ["0 3 * * *", "every night at three"],
  ["0 9 * * mon-fri", "on workdays at nine"],
  ["0 8 1 * *", "on the first of the month"],
  ["30 23 L * *", "late on the last day of the month"],
  ["0 9 * * mon#2", "on the second Monday of the month"],
];

/** What the five fields are, and examples to take. */
export function CronHelp({ onTake }: { onTake: (cron: string) => void }) {
  return (
    <details className="rounded-md border bg-sunken px-3 py-2 text-xs">
      <summary className="font-medium">Cron help and examples</summary>
      <div className="mt-2 flex flex-col gap-3">
        <dl className="grid grid-cols-[max-content_1fr] gap-x-4 gap-y-0.5">
          {FIELDS.map(([name, values], index) => (
            <div key={name} className="contents">
              <dt>
                {index + 1}. {name}
              </dt>
              <dd className="text-muted">{values}</dd>
            </div>
          ))}
        </dl>
        <p className="text-muted">
          In each: <code className="font-mono">*</code> any, <code className="font-mono">1,15</code> a list, <code className="font-mono">9-17</code> a range, <code className="font-mono">*/10</code> every tenth. Or <code className="font-mono">@hourly</code>,{" "}
          <code className="font-mono">@daily</code>, <code className="font-mono">@weekly</code>, <code className="font-mono">@monthly</code>.
        </p>
        <ul className="flex flex-col gap-0.5">
          {EXAMPLES.map(([cron, words]) => (
            <li key={cron} className="flex items-center gap-2">
              <Button small look="quiet" className="!justify-start font-mono" onClick={() => onTake(cron)} aria-label={`Take ${cron}: ${words}`}>
                {cron}
              </Button>
              <span className="text-muted">{words}</span>
            </li>
          ))}
        </ul>
      </div>
    </details>
  );
}
