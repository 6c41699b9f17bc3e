/** One schedule: when it fires, and its recent firings. */

import type { ReactNode } from "react";
import { type Schema, listOf, useApi } from "@/api";
import { count } from "@/lib/format";
import { Badge, type Column, Copy, Dialog, Duration, Empty, ErrorPanel, Facts, Json, Link, Section, Skeleton, StateBadge, Table, Time } from "@/ui";
import { knownZone } from "@/ui/zone-input";
import { reasonWords } from "./firings";
import { Times } from "./preview";
import { type ScheduleRecord, labelOf, spanText, timingWords } from "./words";

type Ledger = Schema<"LedgerLine">;

/** The sheet at the side; `actions` are those of the row. */
export function Detail({ name, actions, onClose }: { name: string; actions: (record: ScheduleRecord) => ReactNode; onClose: () => void }) {
  const found = useApi("/api/admin/schedules/{name}", { path: { name } }, { keep: false });
  const record = found.data?.record;
  return (
    <Dialog title={record ? labelOf(record) : name} side onClose={onClose} footer={record && actions(record)}>
      {found.error && <ErrorPanel problem={found.error} onRetry={() => void found.refetch()} compact={Boolean(record)} />}
      {!found.error && !record && <Skeleton lines={8} />}
      {record && <Body record={record} words={found.data!.words} ledger={listOf(found, (data) => data.ledger)} />}
    </Dialog>
  );
}

function Body({ record, words, ledger }: { record: ScheduleRecord; words: string; ledger: ReturnType<typeof listOf<Schema<"ScheduleDetail">, Ledger>> }) {
  const { timing } = record;
  const tz = timing.strategy === "cron" ? timing.tz : undefined;
  return (
    <div className="flex flex-col gap-5">
      <Facts
        items={[
          ["State", record.enabled ? <StateBadge key="on" state="enabled" /> : <StateBadge key="off" state="disabled" />],
          ["Task", <Link key="task" href={`/tasks/${encodeURIComponent(record.task)}`} className="font-mono text-xs">{record.task}</Link>],
          ["When", timingWords(timing, words)],
          timing.cron ? ["Cron", <span key="cron" className="inline-flex flex-wrap items-center gap-x-2"><code className="font-mono text-xs">{timing.cron}</code> <Copy text={timing.cron} label="Copy the expression" /> {timing.tz}</span>] : null,
          timing.strategy !== "init" && timing.strategy !== "recurring" && ["While one runs", { allow: "another one runs beside it", skip: "the time is skipped", queue_one: "one waits for it" }[timing.overlap]],
          timing.strategy !== "init" && timing.strategy !== "recurring" && ["After an outage", { latest: "the newest one that was missed runs", skip: "what is over a minute late is skipped", all: `all that were missed run, ${timing.catch_up} at most` }[timing.misfire]],
          timing.jitter !== "PT0S" && ["Spread over", spanText(timing.jitter)],
          timing.starts_at ? ["Not before", <Time key="from" at={timing.starts_at} absolute />] : null,
          timing.ends_at ? ["Not after", <Time key="to" at={timing.ends_at} absolute />] : null,
          timing.start_within ? ["Must begin within", spanText(timing.start_within)] : null,
          timing.finish_within ? ["Must end within", spanText(timing.finish_within)] : null,
          record.queue !== null && ["Queue", record.queue],
          record.priority !== null && ["Priority", record.priority],
          record.max_attempts !== null && ["Attempts at most", record.max_attempts],
          ["Defined", record.definition ? "in code: what is changed here stays changed" : "here, or by a program"],
          // Only what waits for its own jobs counts them; of the others the ledger tells.
          timing.strategy === "recurring" || timing.strategy === "init"
            ? ["So far", `${count(record.successes)} succeeded, ${count(record.failures)} failed`]
            : ledger.rows.length > 0 && [`Last ${ledger.rows.length === 1 ? "firing" : `${ledger.rows.length} firings`}`, outcomeWords(ledger.rows)],
          record.failing_since !== null && ["Failing since", <span key="since"><Time at={record.failing_since} />, {record.consecutive_failures} in a row</span>],
        ]}
      />
      {record.last_error && (
        <Section title="Last error">
          <Json value={record.last_error} label="Last error" />
        </Section>
      )}
      {record.enabled && timing.strategy !== "init" && (
        <Section title="Next times">
          <Upcoming record={record} tz={tz} />
        </Section>
      )}
      <Section title="Payload">
        <Json value={record.payload} label="Payload" />
      </Section>
      {timing.strategy !== "recurring" && (
        <Section title="Recent firings">
          <Table label="Recent firings" list={ledger} columns={columns(tz)} rowKey={(each) => `${each.instant} ${each.outcome}`} keyboard={false} empty={<Empty title="It has not fired yet" />} />
        </Section>
      )}
    </div>
  );
}

function Upcoming({ record, tz }: { record: ScheduleRecord; tz?: string }) {
  const times = useApi("/api/admin/schedules/{name}/times", { path: { name: record.id }, query: { count: 10 } });
  if (times.error) return <ErrorPanel problem={times.error} onRetry={() => void times.refetch()} compact />;
  if (!times.data) return <Skeleton lines={4} />;
  if (times.data.items.length === 0 && record.job_id) return <p className="text-muted">It runs now; its next time is known when it is done.</p>;
  return <Times times={times.data.items} tz={tz ?? Intl.DateTimeFormat().resolvedOptions().timeZone} />;
}

/** "28 succeeded, 1 failed, 1 skipped". */
function outcomeWords(ledger: Ledger[]): string {
  const groups = Map.groupBy(ledger, (each) => each.state ?? each.outcome);
  const words = (state: string) => (state === "completed" ? "succeeded" : state.replaceAll("_", " "));
  return [...groups].map(([state, lines]) => `${lines.length} ${words(state)}`).join(", ");
}

function columns(tz?: string): Column<Ledger>[] {
  const zone = tz === undefined ? undefined : knownZone(tz);
  return [
    { key: "at", title: "Time", cell: (each) => <Time at={each.instant} absolute tz={zone} />, width: "10rem" },
    {
      key: "outcome",
      title: "Outcome",
      cell: (each) => (
        <span className="inline-flex flex-wrap items-center gap-x-2">
          <StateBadge state={each.state ?? each.outcome} />
          {each.reason && <span className="text-xs text-muted">{reasonWords(each.reason)}</span>}
          {(each.instants ?? 0) > 1 && <span className="text-xs text-muted">{each.instants} times</span>}
          {each.missed.length > 0 && (
            <Badge tone="warn" icon="clock">
              too late to {each.missed.join(" and to ")}
            </Badge>
          )}
        </span>
      ),
    },
    { key: "took", title: "Took", align: "right", cell: (each) => (each.started_at && each.finished_at ? <Duration of={(Date.parse(each.finished_at) - Date.parse(each.started_at)) / 1000} /> : "–"), width: "5rem", hideBelow: "sm" },
    { key: "job", title: "Job", align: "right", cell: (each) => (each.job_id ? <Link href={`/jobs/${each.job_id}`} className="font-mono text-xs">{each.job_id.slice(-8)}</Link> : "–"), width: "6rem" },
  ];
}

