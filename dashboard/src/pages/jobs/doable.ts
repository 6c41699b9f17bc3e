/** What can be done to a job in a state, and why not. */

interface Job {
  state: string;
  cancel_requested_at?: string | null;
}

/** Why a job cannot be retried; null: it can. */
export function whyNoRetry({ state }: Job): string | null {
  switch (state) {
    case "failed":
    case "canceled":
    case "queued":
      return null;
    case "completed":
      return "It has completed. Copy it to enqueue another one like it.";
    case "running":
      return "It is running: wait for its end, or cancel it first.";
    case "waiting":
      return "It waits for its parents.";
    default:
      return `It is ${state}.`;
  }
}

/** Why a job cannot be canceled; null: it can. */
export function whyNoCancel({ state, cancel_requested_at }: Job): string | null {
  if (state === "running" && cancel_requested_at) return "It was asked to stop already.";
  return state === "waiting" || state === "queued" || state === "running" ? null : `It is ${state} already.`;
}

/** Why a job cannot have another time; null: it can. */
export function whyNoReschedule({ state }: Job): string | null {
  if (state === "running") return "It is running: its time has come.";
  return state === "waiting" || state === "queued" ? null : `It is ${state} and has no time to come. Retry it instead.`;
}

/** Whether nothing more happens to it by itself. */
export function isFinished(state: string): boolean {
  return state === "completed" || state === "failed" || state === "canceled";
}
