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

const TONES: Record<string, string> = { silent: "text-warn", dead: "text-bad" };

/** The jobs that a worker holds, as the API has them. */
export function heldBy(worker: Worker): HeldJob[] {
  return worker.jobs as unknown as HeldJob[];
}

/** When a worker gave its last sign of life. Of a dead one that is its last heartbeat, not the moment when others noticed. */
export function Seen({ worker }: { worker: Worker }) {
  return <Time at={worker.state === "stopped" ? worker.stopped_at : worker.seen_at} className={TONES[worker.state]} />;
}
