/** What the list and the look at one job share. */

import type { ItemOf } from "@/api";
import { Badge } from "@/ui";

export type OwnJob = ItemOf<"/jobs">;

/** Why one of one's own cannot be canceled; null: it can. */
export function whyNoStop(job: Pick<OwnJob, "state" | "cancel_requested">): string | null {
  if (job.cancel_requested && job.state === "running") return "It was asked to stop already.";
  return ["waiting", "queued", "running"].includes(job.state) ? null : `It is ${job.state} already.`;
}

/** A status of HTTP. */
export function StatusBadge({ status }: { status: number }) {
  const fine = status >= 200 && status < 300;
  return (
    <Badge tone={fine ? "ok" : "bad"} icon={fine ? "check" : "cross"}>
      {status}
    </Badge>
  );
}
