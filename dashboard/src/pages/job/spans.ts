/** A job's life as spans of time, one after the other. */

import type { Schema } from "@/api";
import { seconds } from "@/lib/format";

type Job = Pick<Schema<"JobRecord">, "state" | "created_at" | "run_at" | "finished_at" | "attempt" | "last_run_at">;
type Run = Pick<Schema<"RunLine">, "attempt" | "status" | "started_at" | "finished_at"> & { duration?: string | null };

export interface Span {
  key: string;
  kind: "delay" | "wait" | "attempt" | "pause";
  /** Of attempts: its number and how it went. */
  attempt?: number;
  status?: string;
  /** Milliseconds since 1970; without an end it goes on. */
  from: number;
  to: number | null;
  /** Seconds of work, finer than the two times. */
  took?: number;
}

const ms = (at: string | null) => (at === null ? null : new Date(at).getTime());

/** From the enqueue on: not due yet, waiting for a worker, attempts, and the pauses between them. Runs may come in any order. */
export function spansOf(job: Job, runs: readonly Run[], now: number): Span[] {
  const created = ms(job.created_at)!;
  const end = ms(job.finished_at);
  const begun = runs.filter((run) => run.started_at !== null).sort((a, b) => a.attempt - b.attempt || ms(a.started_at)! - ms(b.started_at)!);
  const spans: Span[] = [];
  const add = (span: Omit<Span, "key">) => {
    if (span.to === null || span.to >= span.from) spans.push({ ...span, key: `${span.kind}-${spans.length}` });
  };
  const first = begun[0] ? ms(begun[0].started_at)! : null;
  const due = ms(job.run_at)!;
  const until = first ?? end; // when the first wait was over
  // What it was due at first is only known as long as nothing has moved it.
  if (job.attempt <= 1 && due - created > 1000 && due <= (until ?? Number.POSITIVE_INFINITY)) {
    const over = until !== null || due <= now;
    add({ kind: "delay", from: created, to: over ? due : null });
    if (over) add({ kind: "wait", from: due, to: until });
  } else {
    add({ kind: "wait", from: created, to: until });
  }
  begun.forEach((run, index) => {
    const from = ms(run.started_at)!;
    const to = ms(run.finished_at);
    add({ kind: "attempt", attempt: run.attempt, status: run.status, from, to, ...(to !== null && run.duration ? { took: seconds(run.duration) } : {}) });
    const next = begun[index + 1];
    if (to === null) return;
    if (next) add({ kind: "pause", from: to, to: ms(next.started_at) });
    else if (end === null && (job.state === "queued" || job.state === "waiting")) add({ kind: "pause", from: to, to: null });
    else if (end !== null && end - to > 1000) add({ kind: "pause", from: to, to: end });
  });
  return spans;
}
