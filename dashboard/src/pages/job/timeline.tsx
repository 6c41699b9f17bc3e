/** The timeline of a job: enqueue, wait, attempts, on one scale. The words say it all; the bars are for the eye. */

import { useSyncExternalStore } from "react";
import type { Schema } from "@/api";
import { cx } from "@/lib/classes";
import { now, onTick } from "@/lib/clock";
import { durationWords } from "@/lib/format";
import { Icon, type IconName, Time, stateLook } from "@/ui";
import { isFinished } from "../jobs/doable";
import { type Span, spansOf } from "./spans";

type Run = Schema<"RunLine">;

const FIRST = 4; // spans that are shown of many, at the beginning
const LAST = 12; // and at the end
const BARS: Record<string, string> = { neutral: "bg-muted", ok: "bg-ok", warn: "bg-warn", bad: "bg-bad", info: "bg-info", accent: "bg-accent" };
const TEXTS: Record<string, string> = { neutral: "text-muted", ok: "text-ok", warn: "text-warn", bad: "text-bad", info: "text-info", accent: "text-accent" };

export function Timeline({ job, runs, onAttempt }: { job: Schema<"JobRecord">; runs: readonly Run[]; onAttempt?: (attempt: number) => void }) {
  const live = !isFinished(job.state);
  const second = useSyncExternalStore(onTick, () => (live ? Math.floor(now() / 1000) : 0));
  const at = live ? Math.max(second * 1000, new Date(job.updated_at).getTime()) : new Date(job.finished_at ?? job.updated_at).getTime();
  const spans = spansOf(job, runs, at);
  const begin = new Date(job.created_at).getTime();
  const end = Math.max(at, begin + 1, ...spans.map((span) => span.to ?? 0));
  const cut = spans.length > FIRST + LAST + 1;
  const shown: (Span | number)[] = cut ? [...spans.slice(0, FIRST), spans.length - FIRST - LAST, ...spans.slice(-LAST)] : spans;
  return (
    <section aria-label="Timeline">
      <ol className="flex flex-col">
        <Row icon="plus" tone="neutral" title="Enqueued" aside={<Time at={job.created_at} absolute />} left={0} width={0} />
        {shown.map((span) =>
          typeof span === "number" ? (
            <li key="cut" className="py-0.5 pl-6 text-xs text-faint">
              … {span} more steps
            </li>
          ) : (
            <SpanRow key={span.key} span={span} now={at} left={(span.from - begin) / (end - begin)} width={((span.to ?? at) - span.from) / (end - begin)} onAttempt={onAttempt} />
          ),
        )}
        {job.finished_at !== null && <Row icon={stateLook(job.state).icon} tone={stateLook(job.state).tone} title={job.state[0]!.toUpperCase() + job.state.slice(1)} aside={<Time at={job.finished_at} absolute />} left={1} width={0} />}
      </ol>
    </section>
  );
}

const WORDS: Record<Span["kind"], [past: string, now: string, icon: IconName]> = {
  delay: ["Not due yet", "Not due yet", "clock"],
  wait: ["Waited", "Waiting", "hourglass"],
  pause: ["Waited to run again", "Waiting to run again", "hourglass"],
  attempt: ["Attempt", "Attempt", "play"],
};

function SpanRow({ span, now: at, left, width, onAttempt }: { span: Span; now: number; left: number; width: number; onAttempt?: (attempt: number) => void }) {
  const took = durationWords(span.took ?? Math.max(0, (span.to ?? at) - span.from) / 1000);
  if (span.kind !== "attempt") {
    const [past, present, icon] = WORDS[span.kind];
    return <Row icon={icon} tone="neutral" quiet title={span.to === null ? present : past} aside={took} left={left} width={width} going={span.to === null} />;
  }
  const look = stateLook(span.status ?? "");
  const title = (
    <>
      Attempt {span.attempt} <span className={TEXTS[look.tone]}>{(span.status ?? "").replaceAll("_", " ")}</span>
    </>
  );
  return (
    <Row
      icon={look.icon}
      tone={look.tone}
      title={
        onAttempt ? (
          <button type="button" className="text-left hover:underline" onClick={() => onAttempt(span.attempt!)}>
            {title}
          </button>
        ) : (
          title
        )
      }
      aside={span.to === null ? `for ${took}` : took}
      left={left}
      width={width}
      going={span.to === null}
    />
  );
}

interface RowProps {
  icon: IconName;
  tone: string;
  title: React.ReactNode;
  aside: React.ReactNode;
  left: number;
  width: number;
  quiet?: boolean;
  going?: boolean;
}

function Row({ icon, tone, title, aside, left, width, quiet, going }: RowProps) {
  const from = Math.min(0.995, Math.max(0, left));
  return (
    <li className="grid grid-cols-[11.5rem_1fr_9.5rem] items-center gap-3 py-0.5 max-sm:grid-cols-[1fr_auto] max-sm:gap-y-1">
      <span className={cx("flex min-w-0 items-center gap-2", quiet && "text-muted")}>
        <Icon name={icon} size={14} className={TEXTS[tone]} />
        <span className="truncate">{title}</span>
      </span>
      <span aria-hidden className="relative h-2 rounded-sm bg-sunken max-sm:order-last max-sm:col-span-2">
        <span
          className={cx("absolute top-0 h-full rounded-sm", quiet ? "bg-line-strong opacity-70" : BARS[tone], going && "animate-skeleton")}
          style={{ left: `${from * 100}%`, width: `max(3px, ${Math.min(1 - from, Math.max(0, width)) * 100}%)` }}
        />
      </span>
      <span className="text-right text-xs whitespace-nowrap text-muted">{aside}</span>
    </li>
  );
}
