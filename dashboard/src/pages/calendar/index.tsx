/** What will run this week, hour by hour. */

import { useEffect, useState } from "react";
import { useApi } from "@/api";
import { now } from "@/lib/clock";
import { zone } from "@/lib/format";
import { useKeys } from "@/lib/keys";
import { useUrlState } from "@/lib/urlState";
import { Button, Checkbox, Empty, ErrorPanel, IconButton, LinkButton, Notice, Page, SearchBox, Skeleton } from "@/ui";
import { ZoneInput, isZone } from "@/ui/zone-input";
import { HeatMap } from "./heat-map";
import { HourSheet } from "./hour";
import { DAYS, addDays, dayWords, readDate, today, total } from "./week";

export default function Calendar() {
  const [view, setView] = useUrlState({ from: "", tz: zone, task: "", system: false, cell: "" });
  const from = readDate(view.from);
  const answer = useApi("/api/admin/calendar", { query: { from, days: DAYS, tz: view.tz, task: view.task, system: view.system || undefined } }, { everyMs: 60_000 });
  const week = answer.data;
  const first = from || week?.days[0]?.date || today(view.tz, now());
  const shift = (days: number) => setView({ from: addDays(first, days) === today(view.tz, now()) ? "" : addDays(first, days), cell: "" });
  useKeys([
    { keys: "[", does: "Week before", run: () => shift(-DAYS) },
    { keys: "]", does: "Week after", run: () => shift(DAYS) },
    { keys: "t", does: "From today", run: () => setView({ from: "", cell: "" }) },
  ]);
  const runs = week?.days.reduce((sum, day) => sum + day.hours.reduce((all, hour) => all + total(hour), 0), 0) ?? 0;
  const open = view.cell ? week?.days.flatMap((day) => day.hours.map((hour) => ({ date: day.date, hour }))).find(({ hour }) => Date.parse(hour.begin) === Date.parse(view.cell)) : undefined;
  const over = week !== undefined && Date.parse(week.days.at(-1)?.hours.at(-1)?.end ?? week.now) <= Date.parse(week.now);
  const last = week?.days.at(-1)?.date ?? addDays(first, DAYS - 1);
  return (
    <Page
      title="Calendar"
      lead="What will run by itself, and jobs that wait for their time. What is past is not counted."
      actions={
        <LinkButton href="/schedules" icon="schedules">
          Schedules
        </LinkButton>
      }
    >
      <div className="flex flex-wrap items-start gap-2">
        <div className="flex items-center gap-1">
          <IconButton label="Week before ([)" icon="left" onClick={() => shift(-DAYS)} />
          <Button onClick={() => setView({ from: "", cell: "" })}>Today</Button>
          <IconButton label="Week after (])" icon="right" onClick={() => shift(DAYS)} />
          <h2 className="min-w-0 px-1 font-medium sm:px-2 sm:whitespace-nowrap" aria-live="polite">
            {dayWords(first)} – {dayWords(last)} {last.slice(0, 4)}
          </h2>
        </div>
        <SearchBox label="Task" placeholder="Task, as send_*" value={view.task} onChange={(task) => setView({ task, cell: "" })} error={answer.error?.field("task")} />
        <Zone value={view.tz} onChange={(tz) => setView({ tz, cell: "" })} error={answer.error?.field("tz")} />
        <span className="flex h-7.5 items-center">
          <Checkbox label="Rota’s own" checked={view.system} onChange={(system) => setView({ system })} />
        </span>
      </div>
      {answer.error && !answer.error.field("tz") && <ErrorPanel problem={answer.error} onRetry={() => void answer.refetch()} compact={Boolean(week)} />}
      {!week && !answer.error && <Skeleton lines={12} />}
      {week && !week.complete && (
        <Notice tone="warn">
          There is too much to count it all: {week.caps.join("; ")}.
        </Notice>
      )}
      {week && runs === 0 && week.schedules.count === 0 && view.task === "" ? (
        <Teach />
      ) : (
        week && (
          <div aria-busy={answer.isPlaceholderData} className={answer.isPlaceholderData ? "opacity-60" : undefined}>
            {runs === 0 && <p className="pb-2 text-muted">{over ? "These days are over: what has run is among the jobs." : "Nothing will run in these days."}</p>}
            <HeatMap key={week.days[0]?.date} week={week} current={view.cell} onOpen={(hour) => setView({ cell: hour.begin })} />
          </div>
        )
      )}
      {open && <HourSheet date={open.date} hour={open.hour} tz={week!.tz} task={view.task} system={view.system} onClose={() => setView({ cell: "" })} />}
    </Page>
  );
}

/** Typed freely; only what is a zone counts. */
function Zone({ value, onChange, error }: { value: string; onChange: (tz: string) => void; error?: string }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const type = (wanted: string) => {
    setText(wanted);
    if (wanted !== value && isZone(wanted.trim())) onChange(wanted.trim());
  };
  return <ZoneInput hideLabel className="w-44" value={text} onChange={type} error={error ?? (text !== value && text !== "" && !isZone(text) ? "no such zone, yet" : undefined)} />;
}

const SNIPPET = `@app.task(schedule=cron("0 3 * * *", tz="Europe/Berlin"))
def nightly() -> None:
    ...`;

function Teach() {
  return (
    <Empty title="Nothing is planned" icon="calendar" snippet={SNIPPET} waiting="waiting for the first schedule…" action={<LinkButton href="/schedules?new=1">Make a schedule</LinkButton>}>
      Schedules, recurring rows and jobs that wait for their time are shown here by hour.
    </Empty>
  );
}
