/** Schedules for tests. */

import type { Schema } from "@/api";

export function record(name: string, change: Partial<Omit<Schema<"ScheduleRecord">, "timing">> & { timing?: Partial<Schema<"Timing">> } = {}): Schema<"ScheduleRecord"> {
  const { timing, ...rest } = change;
  return {
    id: `id-${name}`,
    name,
    task: "send_invoice",
    key: null,
    payload: { user_id: 42 },
    enabled: true,
    next_run_at: new Date(Date.now() + 3_600_000).toISOString(),
    last_run_at: new Date(Date.now() - 600_000).toISOString(),
    job_id: null,
    queue: null,
    priority: null,
    max_attempts: null,
    successes: 12,
    failures: 1,
    consecutive_failures: 0,
    failing_since: null,
    last_error: null,
    definition: null,
    created_at: "2026-01-01T00:00:00Z",
    updated_at: "2026-01-01T00:00:00Z",
    ...rest,
    timing: { strategy: "cron", cron: "0 3 * * *", every: null, tz: "Europe/Berlin", misfire: "latest", catch_up: 100, overlap: "allow", jitter: "PT0S", starts_at: null, ends_at: null, start_within: null, finish_within: null, ...timing },
  };
}

export function line(name: string, change: Parameters<typeof record>[1] = {}) {
  return { record: record(name, change), outcome: "fired", reason: null, job_state: "completed", words: "At 03:00 every day, Europe/Berlin" };
}

export function preview(words = "At 03:00 every day, Europe/Berlin", notes: Record<number, string> = {}) {
  const begin = Date.UTC(2026, 2, 25, 2);
  const times = Array.from({ length: 10 }, (_, day) => {
    const at = new Date(begin + day * 86_400_000).toISOString();
    return { at_utc: at, local: at, note: notes[day] ?? "" };
  });
  return { timing: record("x").timing, words, now: new Date().toISOString(), times };
}

export const FORM = {
  task: "send_invoice",
  description: null,
  payload_schema: { type: "object", properties: { user_id: { type: "integer" }, note: { type: "string" } }, required: ["user_id"], additionalProperties: false },
  default_payload: {},
};
