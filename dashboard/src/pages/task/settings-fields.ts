/** The settings of a task that operators may change: how each is read, typed, checked and sent. */

import type { BodyOf } from "@/api";
import { parseJson, sameJson, toJson } from "@/lib/json";
import { countOf, rateText, textOf, wrongCount, wrongRate } from "@/pages/queues/limits";
import type { TaskRecord } from "@/pages/tasks/parts";

type Body = NonNullable<BodyOf<"put", "/api/admin/tasks/{name}/settings">>;
type Values = Record<string, unknown>;

/** A time as the API reads it. */
export const SPAN = /^(\d+(\.\d+)?(ms|s|m|h|d|w))+$/i;

export interface Setting {
  /** As `DELETE …/settings?setting=` takes it. */
  name: string;
  title: string;
  hint: string;
  /** What it is called in `overrides`. */
  override: string;
  kind: "count" | "rate" | "span" | "json";
  optional: boolean;
}

export const SETTINGS: Setting[] = [
  { name: "max_attempts", title: "Attempts", hint: "At most so many.", override: "max_attempts", kind: "count", optional: false },
  { name: "timeout", title: "Time limit", hint: "As 30s, 5m, 1h30m. Nothing: what holds for all tasks.", override: "timeout_s", kind: "span", optional: true },
  { name: "retry.base", title: "First wait before a retry", hint: "As 30s.", override: "retry.base", kind: "span", optional: false },
  { name: "retry.cap", title: "Longest wait before a retry", hint: "As 10m.", override: "retry.cap", kind: "span", optional: false },
  { name: "retry.jitter", title: "Random part of that wait", hint: "As 5s.", override: "retry.jitter", kind: "span", optional: false },
  { name: "max_concurrency", title: "At once", hint: "Over all workers. Nothing: no limit.", override: "max_concurrency", kind: "count", optional: true },
  { name: "rate", title: "Rate of starts", hint: "As 100/m or 5/10s. Nothing: no limit.", override: "rate", kind: "rate", optional: true },
  { name: "key_concurrency", title: "At once for a key", hint: "Nothing: no limit.", override: "key_concurrency", kind: "count", optional: true },
  { name: "key_rate", title: "Rate for a key", hint: "Nothing: no limit.", override: "key_rate", kind: "rate", optional: true },
  { name: "retention_days", title: "Days its jobs are kept", hint: "Nothing: what holds for all tasks.", override: "retention_days", kind: "count", optional: true },
  { name: "retention_count", title: "Jobs that are kept", hint: "At most so many. Nothing: what holds for all tasks.", override: "retention_count", kind: "count", optional: true },
  { name: "default_payload", title: "Default payload", hint: "JSON, an object: what a run by hand has unless it says otherwise.", override: "default_payload", kind: "json", optional: false },
];

/** Seconds as one types them: "1m30s", "600ms". */
export function spanText(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return "";
  if (seconds === 0) return "0s";
  let rest = Math.round(seconds * 1000);
  const parts: string[] = [];
  for (const [unit, size] of [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], ["s", 1000], ["ms", 1]] as const) {
    const count = Math.floor(rest / size);
    if (count > 0) parts.push(`${count}${unit}`);
    rest -= count * size;
  }
  return parts.join("");
}

function readFrom(values: Values, setting: Setting): unknown {
  const [part = "", field] = setting.override.split(".");
  if (!field) return values[part];
  const retry = (values[part] ?? {}) as Values;
  return retry[field] ?? retry[`${field}_s`];
}

/** What a setting is, as text: of a record, or of what code says. */
export function settingText(values: TaskRecord | Values, setting: Setting): string {
  const value = readFrom(values as Values, setting);
  if (value === null || value === undefined) return "";
  if (setting.kind === "rate") return rateText(value as string);
  if (setting.kind === "span") return spanText(value as number);
  if (setting.kind === "json") return toJson(value, 2);
  return String(value);
}

/** Why a setting cannot be changed for this task. */
export function whyFixed(record: TaskRecord, setting: Setting): string | undefined {
  if (setting.name === "max_attempts" && record.strategy === "recurring") return "A recurring row tries again by its retry policy, for ever.";
  if (setting.name.startsWith("key_") && !(record.definition?.concurrency_key ?? record.concurrency_key)) return "Its code has no concurrency_key.";
  return undefined;
}

/** What is wrong with what was typed. */
export function wrongSetting(setting: Setting, text: string): string | undefined {
  if (text.trim() === "" && !setting.optional) return "this cannot be nothing";
  if (setting.kind === "count") return wrongCount(text, 2_147_483_647);
  if (setting.kind === "rate") return wrongRate(text);
  if (setting.kind === "span") return text.trim() === "" || SPAN.test(text.trim()) ? undefined : "a time with its unit, such as 30s, 5m or 1h30m";
  try {
    const value = parseJson(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? undefined : "an object: { … }";
  } catch (error) {
    return (error as Error).message;
  }
}

/** Whether two texts mean the same. */
export function sameSetting(setting: Setting, one: string, other: string): boolean {
  if (one.trim() === other.trim()) return true;
  if (setting.kind !== "json") return false;
  try {
    return sameJson(parseJson(one), parseJson(other));
  } catch {
    return false;
  }
}

/** The body of the request: what differs. */
export function bodyOf(before: Record<string, string>, after: Record<string, string>): Body {
  const body: Values = {};
  for (const setting of SETTINGS) {
    const text = after[setting.name] ?? "";
    if (sameSetting(setting, before[setting.name] ?? "", text)) continue;
    const value = setting.kind === "count" ? countOf(text) : setting.kind === "json" ? parseJson(text) : textOf(text);
    if (setting.name.startsWith("retry.")) body.retry = { ...(body.retry as Values | undefined), [setting.name.slice(6)]: value };
    else body[setting.name] = value;
  }
  return body as Body;
}
