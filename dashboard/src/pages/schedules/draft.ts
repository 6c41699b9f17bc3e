/** What the dialog of a schedule has in its fields, and what of it the server is told. */

import type { BodyOf, Schema } from "@/api";
import { zone } from "@/lib/format";
import { sameJson } from "@/lib/json";
import { type ScheduleRecord, fromField, isOnce, spanText, toField } from "./words";

export type Mode = "cron" | "interval" | "once" | "init";

export interface Draft {
  name: string;
  task: string;
  mode: Mode;
  cron: string;
  tz: string;
  every: string;
  /** Of "once": date and time on one's own clocks. */
  at: string;
  misfire: Schema<"Timing">["misfire"];
  catch_up: string;
  overlap: Schema<"Timing">["overlap"];
  jitter: string;
  starts_at: string;
  ends_at: string;
  start_within: string;
  finish_within: string;
  queue: string;
  priority: string;
  max_attempts: string;
  enabled: boolean;
  payload: Record<string, unknown>;
}

export type NewSchedule = BodyOf<"post", "/api/admin/schedules">;
export type Change = BodyOf<"put", "/api/admin/schedules/{name}">;

export const NEW: Draft = {
  name: "",
  task: "",
  mode: "cron",
  cron: "",
  tz: zone,
  every: "",
  at: "",
  misfire: "latest",
  catch_up: "100",
  overlap: "allow",
  jitter: "",
  starts_at: "",
  ends_at: "",
  start_within: "",
  finish_within: "",
  queue: "",
  priority: "",
  max_attempts: "",
  enabled: true,
  payload: {},
};

/** A schedule in the fields of the dialog. */
export function draftOf(record: ScheduleRecord): Draft {
  const { timing } = record;
  const once = isOnce(timing);
  const text = (value: number | null) => (value === null ? "" : String(value));
  return {
    name: record.name ?? "",
    task: record.task,
    mode: once ? "once" : timing.strategy === "init" ? "init" : timing.strategy === "cron" ? "cron" : "interval",
    cron: timing.cron ?? "",
    tz: timing.strategy === "cron" ? timing.tz : zone,
    every: once ? "" : spanText(timing.every),
    at: once ? toField(timing.starts_at) : "",
    misfire: timing.misfire,
    catch_up: String(timing.catch_up),
    overlap: timing.overlap,
    jitter: timing.jitter === "PT0S" ? "" : spanText(timing.jitter),
    starts_at: once ? "" : toField(timing.starts_at),
    ends_at: once ? "" : toField(timing.ends_at),
    start_within: spanText(timing.start_within),
    finish_within: spanText(timing.finish_within),
    queue: record.queue ?? "",
    priority: text(record.priority),
    max_attempts: text(record.max_attempts),
    enabled: record.enabled,
    payload: record.payload,
  };
}

const ONCE_EVERY = "24h"; // an interval which ends a second after it has begun fires once
const ONCE_MS = 1000;

/** Everything that the fields say, as the API names it; what is empty is left out. */
export function settingsOf(draft: Draft): Omit<NewSchedule, "name"> {
  const whole = (text: string) => (/^-?\d+$/.test(text.trim()) ? Number(text) : undefined);
  const given = (text: string) => text.trim() || undefined;
  const once = fromField(draft.at);
  const timing: Partial<NewSchedule> = {
    cron: { cron: draft.cron.trim(), tz: draft.tz.trim() || "UTC" },
    interval: { every: draft.every.trim() },
    once: { every: ONCE_EVERY, starts_at: once, ends_at: once && new Date(Date.parse(once) + ONCE_MS).toISOString() },
    init: {},
  }[draft.mode];
  const bounds = draft.mode === "once" || draft.mode === "init" ? {} : { starts_at: fromField(draft.starts_at) || undefined, ends_at: fromField(draft.ends_at) || undefined };
  const policies =
    draft.mode === "init"
      ? {}
      : {
          misfire: draft.misfire,
          catch_up: draft.misfire === "all" ? whole(draft.catch_up) : undefined,
          overlap: draft.overlap,
          jitter: given(draft.jitter),
          start_within: given(draft.start_within),
          finish_within: given(draft.finish_within),
        };
  const all = { task: draft.task.trim(), ...timing, ...bounds, ...policies, queue: given(draft.queue), priority: whole(draft.priority), max_attempts: whole(draft.max_attempts), enabled: draft.enabled, payload: draft.payload };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as Omit<NewSchedule, "name">;
}

/** What must be sent to make `before` into `after`: members that differ; null for those that are taken away. */
export function changeOf(before: Draft, after: Draft): Change {
  const old = settingsOf(before) as Record<string, unknown>;
  const wanted = settingsOf(after) as Record<string, unknown>;
  const change: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(wanted)) if (!sameJson(old[name], value)) change[name] = value;
  for (const name of Object.keys(old)) {
    // One of cron and every takes the other's place by itself; the zone goes with the cron.
    if (name in wanted || name === "cron" || name === "every" || name === "tz" || name === "catch_up") continue;
    change[name] = name === "jitter" ? "0s" : null;
  }
  if (change.tz !== undefined && wanted.cron !== undefined) change.cron = wanted.cron;
  return change as Change;
}

/** What a person would see wrong at once, by field; the server has the last word on everything. */
export function mistakes(draft: Draft, isNew: boolean, now: number): Partial<Record<keyof Draft, string>> {
  const found: Partial<Record<keyof Draft, string>> = {};
  if (isNew && !draft.name.trim()) found.name = "Give it a name.";
  if (!draft.task.trim()) found.task = "Which task is to run?";
  if (draft.mode === "cron" && !draft.cron.trim()) found.cron = "When? Write a cron expression, or take one of the examples.";
  if (draft.mode === "interval" && !draft.every.trim()) found.every = "How often? Write 30s, 5m or 1h30m.";
  if (draft.mode === "once" && !fromField(draft.at)) found.at = "When? Choose a date and a time.";
  if (draft.mode === "once" && isNew && fromField(draft.at) && Date.parse(fromField(draft.at)) <= now) found.at = "That is over: choose a time in the future.";
  for (const name of ["priority", "max_attempts", "catch_up"] as const) if (draft[name].trim() && !/^-?\d+$/.test(draft[name].trim())) found[name] = "a whole number";
  return found;
}
