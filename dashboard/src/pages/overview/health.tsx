/** System health: one sentence, and six numbers. */

import { Fragment, type ReactNode, useState } from "react";
import type { AnswerOf } from "@/api";
import { cx } from "@/lib/classes";
import { count as countWords } from "@/lib/format";
import { Count, Duration, Icon, type IconName, Link, Time } from "@/ui";

export type Overview = AnswerOf<"get", "/api/admin/overview">;
type Trouble = Overview["problems"][number];

const SAID = 3; // as the server's sentence has it

const LOOKS: Record<string, { icon: IconName; tone: string }> = {
  ok: { icon: "check", tone: "text-ok" },
  empty: { icon: "clock", tone: "text-muted" },
  warning: { icon: "warning", tone: "text-warn" },
  error: { icon: "warning", tone: "text-bad" },
};

/** The page that shows a problem. */
export function placeOf(trouble: Pick<Trouble, "code" | "queues">): string {
  const [queue, ...others] = trouble.queues;
  if (queue !== undefined) return others.length ? "/queues" : `/queues/${encodeURIComponent(queue)}`;
  switch (trouble.code) {
    case "no_worker":
    case "worker_silent":
      return "/workers";
    case "worker_dead":
      return "/workers?state=dead";
    case "schedule_failing":
      return "/schedules?kind=failing";
    case "recurring_late":
      return "/schedules?kind=recurring";
    case "schedule_late":
      return "/schedules";
    case "alert_open":
      return "/alerts";
    default:
      return `/jobs?q=${encodeURIComponent("state:failed since:1h")}`;
  }
}

/** The server's sentence, each part of it a link to what it is about. */
export function Health({ overview }: { overview: Overview }) {
  const [all, setAll] = useState(false);
  const { problems, health } = overview;
  const look = LOOKS[health] ?? LOOKS.warning!;
  const shown = all ? problems : problems.slice(0, SAID);
  const left = problems.length - shown.length;
  return (
    <p role="status" aria-label="Health" className="flex items-start gap-2 text-base">
      <Icon name={look.icon} size={18} className={cx("mt-0.5", look.tone)} />
      <span className="min-w-0 wrap-anywhere">
        {problems.length === 0 && overview.sentence}
        {shown.map((problem, index) => (
          <Fragment key={problem.code}>
            {index > 0 && "; "}
            <Link href={placeOf(problem)} className={cx("underline decoration-1", problem.severity === "error" ? "!text-bad" : "!text-warn")}>
              {problem.sentence}
            </Link>
          </Fragment>
        ))}
        {left > 0 && (
          <>
            ;{" "}
            <button type="button" className="text-accent underline underline-offset-2" onClick={() => setAll(true)}>
              and {left} more
            </button>
          </>
        )}
      </span>
    </p>
  );
}

/** Six numbers, each a way to what is behind it. */
export function Tiles({ overview }: { overview: Overview }) {
  const { queued, delayed, waiting, running, oldest, failed_1h: failed, workers, next_run: next } = overview;
  const held = [delayed.count > 0 && <Fragment key="d"><Count value={delayed.count} capped={delayed.capped} estimated={delayed.estimated} /> not due yet</Fragment>, waiting.count > 0 && <Fragment key="w"><Count value={waiting.count} capped={waiting.capped} estimated={waiting.estimated} /> waiting on parents</Fragment>].filter(Boolean);
  return (
    <ul aria-label="Now" className="grid grid-cols-2 border-t border-l sm:grid-cols-3 xl:grid-cols-6">
      <Tile title="Queued" href="/jobs?q=state:queued" value={<Count value={queued.count} capped={queued.capped} estimated={queued.estimated} />} note={held.length ? held.flatMap((each, index) => (index ? [" · ", each] : [each])) : "due now"} />
      <Tile title="Running" href="/jobs?q=state:running" value={<Count value={running.count} capped={running.capped} estimated={running.estimated} />} note={workers ? `of ${countWords(workers.slots)} ${workers.slots === 1 ? "slot" : "slots"}` : "now"} />
      <Tile title="Oldest wait" href={oldest ? `/queues/${encodeURIComponent(oldest.queue)}` : "/queues"} value={oldest ? <Duration of={oldest.age} /> : "none"} note={oldest ? `in ${oldest.queue}` : "nothing is due"} />
      <Tile title="Failed" href={`/jobs?q=${encodeURIComponent("state:failed since:1h")}`} value={<Count value={failed.count} capped={failed.capped} estimated={failed.estimated} />} tone={failed.count > 0 ? "text-bad" : undefined} note="for good, in the last hour" />
      {workers && <Tile title="Live workers" href="/workers" value={<Count value={workers.live} />} tone={workers.live === 0 ? "text-bad" : undefined} note={workerWords(workers)} />}
      {next && <Tile title="Next run" href={scheduleHref(next.name)} value={<Time at={next.at} />} tone={next.late ? "text-warn" : undefined} note={next.name} />}
    </ul>
  );
}

/** The page that shows a schedule, or a recurring row. */
export function scheduleHref(name: string): string {
  return `/schedules?show=${encodeURIComponent(name)}`;
}

function workerWords({ live, silent, dead }: NonNullable<Overview["workers"]>): string {
  const parts = [silent > 0 && `${silent} silent`, dead > 0 && `${dead} died in the last day`].filter(Boolean);
  return parts.length ? parts.join(", ") : live > 0 ? "all responding" : "none is running";
}

function Tile({ title, value, note, href, tone }: { title: string; value: ReactNode; note: ReactNode; href: string; tone?: string }) {
  return (
    <li className="min-w-0 border-r border-b">
      <Link href={href} className="block px-3 py-2.5 !text-text hover:bg-hover hover:!no-underline">
        <span className="block text-xs text-muted">{title}</span>{" "}
        <span className={cx("block truncate text-2xl font-semibold tracking-tight", tone)}>{value}</span>{" "}
        <span className="line-clamp-2 text-xs wrap-anywhere text-muted">{note}</span>
      </Link>
    </li>
  );
}
