/** What the list of workers and the sheet of one share. */

import type { ItemOf } from "@/api";
import { Time } from "@/ui";

export type Worker = ItemOf<"/api/admin/workers">;

export interface HeldJob {
  id: string;
  task: string;
  claimed_at: string;
  lease_until: string;
}

/** The jobs that a worker holds, as the API has them. */
export function heldBy(worker: Worker): HeldJob[] {
  return worker.jobs as unknown as HeldJob[];
}

/** When a worker was last heard of; of one that has ended, when that was. */
export function Seen({ worker }: { worker: Worker }) {
  if (worker.stopped_at) return <Time at={worker.stopped_at} />;
  return <Time at={worker.seen_at} className={worker.state === "live" ? undefined : worker.state === "dead" ? "text-bad" : "text-warn"} />;
}
