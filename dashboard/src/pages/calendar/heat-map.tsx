/** A week of hours: the darker, the more will run. */

import { Fragment, useRef, useState } from "react";
import { cx } from "@/lib/classes";
import { count, shortCount } from "@/lib/format";
import { Icon, Tooltip } from "@/ui";
import { type Hour, type Week, clockNote, dayWords, heat, span, total } from "./week";

const INK = 46; // per cent of the accent at most: text on it is still read

/** One stop for Tab; arrows go from hour to hour. */
export function HeatMap({ week, current, onOpen }: { week: Week; current: string; onOpen: (hour: Hour) => void }) {
  const own = useRef<HTMLTableElement>(null);
  const now = Date.parse(week.now);
  const most = Math.max(0, ...week.days.flatMap((day) => day.hours.map(total)));
  const firstAhead = week.days.flatMap((day, column) => day.hours.map((hour) => ({ hour, column }))).find(({ hour }) => Date.parse(hour.end) > now);
  const [at, setAt] = useState<[row: number, column: number] | null>(null);
  const [row, column] = at ?? [firstAhead?.hour.hour ?? 0, firstAhead?.column ?? 0];
  const go = (toRow: number, toColumn: number) => {
    const place: [number, number] = [Math.max(0, Math.min(23, toRow)), Math.max(0, Math.min(week.days.length - 1, toColumn))];
    setAt(place);
    own.current?.querySelector<HTMLElement>(`[data-cell="${place[0]}-${place[1]}"]`)?.focus();
  };
  const onKeyDown = (event: React.KeyboardEvent) => {
    const to = { ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], Home: [row, 0], End: [row, week.days.length - 1] }[event.key];
    if (!to) return;
    event.preventDefault();
    go(to[0]!, to[1]!);
  };
  return (
    <div className="overflow-x-auto">
      <table ref={own} role="grid" aria-label="What will run, by hour and day" onKeyDown={onKeyDown} className="w-full min-w-80 table-fixed border-separate border-spacing-0.5">
        <thead>
          <tr>
            <th scope="col" className="w-9 sm:w-12">
              <span className="sr-only">Hour</span>
            </th>
            {week.days.map((day) => (
              <th key={day.date} scope="col" className="pb-1 text-center text-xs font-medium max-sm:text-2xs">
                <DayName date={day.date} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {Array.from({ length: 24 }, (_, hour) => (
            <tr key={hour}>
              <th scope="row" className="pr-1 text-right text-2xs font-normal text-muted">
                {String(hour).padStart(2, "0")}:00
              </th>
              {week.days.map((day, index) => {
                const found = day.hours.find((each) => each.hour === hour);
                const place = { "data-cell": `${hour}-${index}`, tabIndex: hour === row && index === column ? 0 : -1, onFocus: () => setAt([hour, index]) };
                return (
                  <td key={day.date} role="gridcell" className="p-0" aria-selected={found && current !== "" ? Date.parse(found.begin) === Date.parse(current) : undefined}>
                    {found ? <Cell {...place} date={day.date} hour={found} most={most} now={now} on={current !== "" && Date.parse(found.begin) === Date.parse(current)} onOpen={onOpen} /> : <NoHour {...place} hour={hour} />}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
      <Legend most={most} />
    </div>
  );
}

function DayName({ date }: { date: string }) {
  const [weekday, ...rest] = dayWords(date).split(" ");
  return (
    <>
      {weekday} <span className="text-muted max-sm:block">{rest.join(" ")}</span>
    </>
  );
}

interface Place {
  "data-cell": string;
  tabIndex: number;
  onFocus: () => void;
}

function Cell({ date, hour, most, now, on, onOpen, ...place }: Place & { date: string; hour: Hour; most: number; now: number; on: boolean; onOpen: (hour: Hour) => void }) {
  const runs = total(hour);
  const note = clockNote(hour);
  const past = Date.parse(hour.end) <= now;
  const words = past ? "past" : runs === 0 ? "nothing" : runs === 1 ? "1 run" : `${count(runs)} runs`;
  return (
    <Tooltip words={<CellWords hour={hour} note={note} past={past} />}>
      <button
        type="button"
        {...place}
        aria-label={`${dayWords(date)}, ${span(hour)}: ${words}${note ? `. ${note}` : ""}`}
        onClick={() => onOpen(hour)}
        style={{ backgroundColor: past || runs === 0 ? undefined : `color-mix(in oklab, var(--color-accent) ${Math.round(heat(runs, most) * INK)}%, var(--color-page))` }}
        className={cx("flex h-6 w-full items-center justify-center gap-0.5 overflow-hidden rounded-sm text-2xs", past ? "bg-sunken text-faint" : runs === 0 ? "bg-hover" : "text-text", on && "outline-2 outline-accent")}
      >
        {note && <Icon name="clock" size={10} />}
        {!past && runs > 0 && shortCount(runs)}
      </button>
    </Tooltip>
  );
}

function CellWords({ hour, note, past }: { hour: Hour; note: string; past: boolean }) {
  if (past) return <>Over: what is past is not counted</>;
  const parts = [hour.schedules > 0 && `${count(hour.schedules)} by schedules`, hour.recurring > 0 && `${count(hour.recurring)} recurring`, hour.jobs > 0 && `${count(hour.jobs)} enqueued jobs`].filter(Boolean);
  return (
    <>
      {parts.length > 0 ? parts.join(", ") : "Nothing will run"}
      {note && <Fragment> · {note}</Fragment>}
    </>
  );
}

/** An hour that this day does not have. */
function NoHour({ hour, ...place }: Place & { hour: number }) {
  const words = "Clocks go forward: this hour does not exist.";
  return (
    <Tooltip words={words}>
      <button type="button" {...place} aria-disabled aria-label={`${String(hour).padStart(2, "0")}:00: ${words}`} className="flex h-6 w-full cursor-default items-center justify-center rounded-sm border border-dashed text-2xs text-warn">
        <Icon name="clock" size={10} />
      </button>
    </Tooltip>
  );
}

function Legend({ most }: { most: number }) {
  if (most === 0) return null;
  return (
    <div className="flex items-center gap-2 pt-2 pl-12 text-2xs text-muted" aria-hidden>
      1
      {[0, 0.1, 0.3, 0.6, 1].map((share) => (
        <span key={share} className="h-3 w-5 rounded-sm" style={{ backgroundColor: `color-mix(in oklab, var(--color-accent) ${Math.round((0.18 + 0.82 * Math.sqrt(share)) * INK)}%, var(--color-page))` }} />
      ))}
      {count(most)} an hour
    </div>
  );
}
