/** Jobs for tests. */

import type { Schema } from "@/api";

export const uuid = (number: number) => `0198a000-0000-7000-8000-${String(number).padStart(12, "0")}`;
export const ago = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();

/** Strings that must only ever be text. */
export const HOSTILE = ['<img src=x onerror=alert(1)>', "javascript:alert(1)", '"><script>alert(1)</script>', "{{7*7}}", "\u202egnp.exe", "'; DROP TABLE job; --"];

export function summary(number: number, change: Partial<Schema<"JobSummary">> = {}): Schema<"JobSummary"> {
  return {
    id: uuid(number),
    task: "send_mail",
    queue: "mail",
    priority: 0,
    state: "failed",
    run_at: ago(60),
    attempt: 2,
    max_attempts: 5,
    worker_id: null,
    key: null,
    cancel_requested_at: null,
    created_at: ago(90),
    updated_at: ago(30),
    finished_at: ago(30),
    error_type: "ConnectionError",
    error: "connection reset by peer",
    ...change,
  };
}

export function record(number: number, change: Partial<Schema<"JobRecord">> = {}): Schema<"JobRecord"> {
  const { error: _, error_type: __, ...line } = summary(number);
  return {
    ...line,
    payload: { user_id: 42, lang: "en" },
    lease_until: null,
    last_error: { type: "ConnectionError", message: "connection reset by peer", traceback: '  File "app.py", line 9, in send\n    post()\n', fingerprint: "3f9a00112233aabb" },
    last_run_at: ago(31),
    owner: null,
    schedule_id: null,
    scheduled_for: null,
    triggered_by: null,
    timeout: null,
    retry: null,
    result: null,
    completed_at: null,
    canceled_at: null,
    progress: null,
    ...change,
  };
}

export function run(number: number, attempt: number, change: Partial<Schema<"RunLine">> = {}): Schema<"RunLine"> {
  return {
    job_id: uuid(number),
    attempt,
    task: "send_mail",
    queue: "mail",
    status: "failed",
    final: false,
    scheduled_for: null,
    started_at: ago(60 - attempt * 10),
    finished_at: ago(59 - attempt * 10),
    duration: "PT1S",
    worker_id: uuid(900),
    schedule_id: null,
    triggered_by: null,
    created_at: ago(90),
    error_type: "ConnectionError",
    error: "connection reset by peer",
    fingerprint: "3f9a00112233aabb",
    ...change,
  };
}

export function detail(job: Schema<"JobRecord">, runs: Schema<"RunRecord">[] = []): Schema<"JobDetail"> {
  return { job, runs, parents: [], children: [], edits: [] };
}

export const FACETS = {
  states: {
    waiting: { count: 0, capped: false, estimated: false },
    queued: { count: 12, capped: false, estimated: false },
    running: { count: 4, capped: false, estimated: false },
    completed: { count: 10_000, capped: true, estimated: false },
    failed: { count: 3, capped: false, estimated: false },
    canceled: { count: 1, capped: false, estimated: false },
  },
  tasks: [
    { value: "send_mail", count: { count: 9000, capped: true, estimated: false } },
    { value: "charge", count: { count: 7, capped: false, estimated: false } },
  ],
  queues: [{ value: "mail", count: { count: 9000, capped: true, estimated: false } }],
  complete: false,
};
