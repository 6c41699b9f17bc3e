/** Why a job is where it is, in words. */

import { Fragment } from "react";
import { type Schema, useApi } from "@/api";
import { ErrorPanel, Notice, Skeleton } from "@/ui";
import { isFinished } from "../jobs/doable";

type Tone = "info" | "warn" | "bad" | "ok";

// Reasons that somebody has to do something about, or that will not pass by themselves.
const STUCK = new Set(["queue_paused", "task_disabled", "no_worker", "no_worker_for_queue", "task_unknown", "payload_refused", "worker_gone", "lease_expired", "quarantine"]);

export function Why({ job }: { job: Pick<Schema<"JobRecord">, "id" | "state" | "updated_at"> }) {
  const live = !isFinished(job.state);
  const why = useApi("/api/admin/jobs/{id}/why", { path: { id: job.id } }, { enabled: job.state !== "completed", everyMs: live ? 5000 : undefined });
  if (job.state === "completed") return null;
  if (why.error && !why.data) return why.error.status === 404 ? null : <ErrorPanel problem={why.error} compact onRetry={() => void why.refetch()} />;
  if (!why.data) return <Skeleton lines={1} />;
  const [first, ...others] = why.data.reasons;
  if (!first) return null;
  const tone: Tone = job.state === "failed" ? "bad" : why.data.reasons.some((reason) => STUCK.has(reason.code)) ? "warn" : "info";
  return (
    <section aria-label={live && job.state !== "running" ? "Why it has not run" : "Why it is so"}>
      <Notice tone={tone}>
        {live && job.state !== "running" && <h2 className="text-xs font-medium opacity-90">Why it has not run</h2>}
        <p>
          <Sentence text={first.sentence} />
        </p>
        {others.length > 0 && (
          <ul className="mt-1 list-disc pl-4">
            {others.map((reason, index) => (
              <li key={index}>
                <Sentence text={reason.sentence} />
              </li>
            ))}
          </ul>
        )}
      </Notice>
    </section>
  );
}

/** A sentence of the server: what stands in backticks is a command. */
export function Sentence({ text }: { text: string }) {
  return text.split(/(`[^`]*`)/).map((part, index) =>
    part.length > 2 && part.startsWith("`") && part.endsWith("`") ? (
      <code key={index} className="font-mono text-xs">
        {part.slice(1, -1)}
      </code>
    ) : (
      <Fragment key={index}>{part}</Fragment>
    ),
  );
}
