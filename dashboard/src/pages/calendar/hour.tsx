/** What is behind an hour of the calendar. */

import { type AnswerOf, listOf, useApi } from "@/api";
import { count, local } from "@/lib/format";
import { Badge, type Column, Count, Dialog, Empty, ErrorPanel, Link, Notice, Section, Skeleton, Table } from "@/ui";
import { knownZone } from "@/ui/zone-input";
import { type Hour, clockNote, dayWords, span } from "./week";

type Detail = AnswerOf<"get", "/api/admin/calendar/hour">;
type Planned = Detail["schedules"][number];
type Due = Detail["jobs"][number];

export function HourSheet({ date, hour, tz, task, system, onClose }: { date: string; hour: Hour; tz: string; task: string; system: boolean; onClose: () => void }) {
  const found = useApi("/api/admin/calendar/hour", { query: { begin: hour.begin, end: hour.end, task, system: system || undefined } }, { keep: false });
  const note = clockNote(hour);
  const data = found.data;
  const nothing = data && data.schedules.length + data.recurring.length + data.jobs.length === 0;
  return (
    <Dialog title={`${dayWords(date, true)}, ${span(hour)}`} side onClose={onClose}>
      <div className="flex flex-col gap-5">
        <p className="text-muted">{tz}</p>
        {note && (
          <Notice tone="warn" icon="clock">
            {note}
          </Notice>
        )}
        {found.error && <ErrorPanel problem={found.error} onRetry={() => void found.refetch()} compact />}
        {!data && !found.error && <Skeleton lines={5} />}
        {nothing && <Empty title="Nothing will run in this hour" icon="calendar" />}
        {data && data.schedules.length > 0 && (
          <Section title="Schedules">
            <Table label="Schedules" list={listOf(found, (each) => each.schedules)} columns={scheduleColumns(tz)} rowKey={(each) => each.id} href={(each) => `/schedules?show=${encodeURIComponent(each.name)}`} empty={null} />
          </Section>
        )}
        {data && data.recurring.length > 0 && (
          <Section title="Recurring rows">
            <p className="pb-1 text-xs text-muted">Only the next run of each is known.</p>
            <Table label="Recurring rows" list={listOf(found, (each) => each.recurring)} columns={dueColumns(tz, "Rows", (each) => `/schedules?kind=recurring&task=${encodeURIComponent(each.task)}`)} rowKey={(each) => each.task} keyboard={false} empty={null} />
          </Section>
        )}
        {data && data.jobs.length > 0 && (
          <Section title="Jobs that wait for their time">
            <Table label="Jobs" list={listOf(found, (each) => each.jobs)} columns={dueColumns(tz, "Jobs", (each) => `/jobs?q=${encodeURIComponent(`state:queued task:${each.task}`)}`)} rowKey={(each) => each.task} keyboard={false} empty={null} />
          </Section>
        )}
        {data?.more && <Notice>There is more than is shown here.</Notice>}
      </div>
    </Dialog>
  );
}

function scheduleColumns(tz: string): Column<Planned>[] {
  const zone = knownZone(tz);
  return [
    {
      key: "name",
      title: "Schedule",
      cell: (each) => (
        <div className="min-w-0">
          <Link href={`/schedules?show=${encodeURIComponent(each.name)}`} className="block truncate font-medium">
            {each.name}
          </Link>
          <div className="truncate text-xs text-muted">{each.words}</div>
        </div>
      ),
      truncate: true,
    },
    {
      key: "runs",
      title: "Runs",
      align: "right",
      cell: (each) => (each.runs > 1 ? <Badge tone="accent">{count(each.runs)} times</Badge> : "once"),
      width: "5rem",
    },
    { key: "at", title: "At", align: "right", cell: (each) => <span className="font-mono text-xs whitespace-nowrap">{each.runs > 1 ? `${local(each.first, zone, "minutes")}–${local(each.last, zone, "minutes")}` : local(each.first, zone, "minutes")}</span>, width: "7rem" },
  ];
}

function dueColumns(tz: string, what: string, href: (each: Due) => string): Column<Due>[] {
  const zone = knownZone(tz);
  return [
    { key: "task", title: "Task", cell: (each) => <Link href={href(each)} className="block truncate font-mono text-xs">{each.task}</Link>, truncate: true },
    { key: "count", title: what, align: "right", cell: (each) => <Count value={each.count.count} capped={each.count.capped} />, width: "5rem" },
    { key: "first", title: "From about", align: "right", cell: (each) => <span className="font-mono text-xs">{local(each.first, zone, "minutes")}</span>, width: "7rem" },
  ];
}
