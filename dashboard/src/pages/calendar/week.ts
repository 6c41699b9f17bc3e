/** Days and hours of the calendar. */

import type { AnswerOf } from "@/api";
import { local } from "@/lib/format";
import { knownZone } from "@/ui/zone-input";

export type Week = AnswerOf<"get", "/api/admin/calendar">;
export type Hour = Week["days"][number]["hours"][number];

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
export const DAYS = 7;

/** A date so many days later: "2026-03-29" and 7 is "2026-04-05". */
export function addDays(date: string, days: number): string {
  return new Date(Date.parse(`${date}T00:00:00Z`) + days * DAY_MS).toISOString().slice(0, 10);
}

/** Today on the clocks of a zone. */
export function today(tz: string, at: number): string {
  return local(at, knownZone(tz), "date");
}

/** A date that the address may say; "" for anything else. */
export function readDate(text: string): string {
  return /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(`${text}T00:00:00Z`)) ? text : "";
}

const LONG = new Intl.DateTimeFormat("en-GB", { weekday: "long", day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });
const SHORT = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", timeZone: "UTC" });

/** A date in words: "Sun 29 Mar". */
export function dayWords(date: string, long = false): string {
  return (long ? LONG : SHORT).format(new Date(`${date}T00:00:00Z`)).replace(",", "");
}

/** Everything that will run in an hour. */
export function total(hour: Hour): number {
  return hour.schedules + hour.recurring + hour.jobs;
}

/** What the clocks do in this hour, in words; "" if nothing. */
export function clockNote(hour: Hour): string {
  const length = Date.parse(hour.end) - Date.parse(hour.begin);
  if (length > HOUR_MS) return "Clocks go back: they show this hour, or a part of it, twice.";
  return length < HOUR_MS ? "Clocks go forward: this hour is shorter." : "";
}

/** How much ink a count gets, from 0 to 1: small counts must be seen beside large ones. */
export function heat(count: number, most: number): number {
  return count === 0 || most === 0 ? 0 : 0.18 + 0.82 * Math.sqrt(count / most);
}

/** "02:00–03:00". */
export function span(hour: Hour): string {
  const two = (value: number) => String(value % 24).padStart(2, "0");
  return `${two(hour.hour)}:00–${two(hour.hour + 1)}:00`;
}
