/** Schedules in words. */

import type { ItemOf, Schema } from "@/api";
import { durationWords, local, seconds, zone } from "@/lib/format";
import { knownZone } from "@/ui/zone-input";

export type Line = ItemOf<"/api/admin/schedules">;
export type ScheduleRecord = Schema<"ScheduleRecord">;
export type Timing = Schema<"Timing">;

/** What it is called: its name, or task and key of a recurring row. */
export function labelOf(record: ScheduleRecord): string {
  return record.name ?? `${record.task}/${record.key}`;
}

/** An ISO 8601 duration as the API takes it and people type it: "PT1H30M" is "1h30m". */
export function spanText(iso: string | null | undefined): string {
  if (!iso) return "";
  let left = seconds(iso);
  if (Number.isNaN(left)) return iso;
  if (left === 0) return "0s";
  let text = "";
  for (const [size, unit] of [[86_400, "d"], [3600, "h"], [60, "m"]] as const) {
    const whole = Math.floor(left / size);
    if (whole) text += `${whole}${unit}`;
    left -= whole * size;
  }
  const rest = Number(left.toFixed(6));
  return rest ? `${text}${rest}s` : text;
}

/** Whether it fires a single time: an interval that ends before it could come round. */
export function isOnce(timing: Timing): boolean {
  if (timing.strategy !== "interval" || !timing.starts_at || !timing.ends_at || !timing.every) return false;
  return Date.parse(timing.ends_at) - Date.parse(timing.starts_at) < seconds(timing.every) * 1000;
}

/** When it fires, in words, without the zone; those of a cron expression are the server's. */
export function timingWords(timing: Timing, words: string): string {
  if (isOnce(timing)) return `Once, on ${local(timing.starts_at!, zone)}`;
  if (timing.strategy === "cron") return words.endsWith(`, ${timing.tz}`) ? words.slice(0, -timing.tz.length - 2) : words || (timing.cron ?? "");
  if (timing.strategy === "init") return "Once ever, when a worker first sees the task";
  if (timing.strategy === "interval") return `Every ${spanText(timing.every)}`;
  return timing.every ? `As its handler says, last after ${durationWords(timing.every)}` : "As its handler says";
}

/** What a browser's field for date and time shows of an instant, on the clocks of who looks. */
export function toField(at: string | null | undefined): string {
  return at ? local(at, zone).replace(" ", "T").slice(0, 16) : "";
}

/** The instant that such a field means; "" if it means none. */
export function fromField(text: string): string {
  const at = new Date(text);
  return text && !Number.isNaN(at.getTime()) ? at.toISOString() : "";
}

/** A time with its weekday on the clocks of a zone: "Sun 2026-03-29 03:00". */
export function dayAndTime(at: string, tz: string): string {
  const known = knownZone(tz);
  const day = new Intl.DateTimeFormat("en-GB", { timeZone: known, weekday: "short" }).format(new Date(at));
  const text = local(at, known);
  return `${day} ${text.endsWith(":00") ? text.slice(0, -3) : text}`;
}
