/** What both pages of queues show. */

import { type Schema, useAct } from "@/api";
import { cx } from "@/lib/classes";
import { seconds } from "@/lib/format";
import { Badge, Button, Count, Duration, Icon, Time, Tooltip } from "@/ui";
import type { Queue } from "./dialogs";
import { limitWords } from "./limits";

export type Open = "pause" | "limits";

/** Paused since when and why, or no worker for what waits; nothing where all is well. */
export function QueueState({ queue, reason = false }: { queue: Queue; reason?: boolean }) {
  const lonely = queue.workers === 0 && !queue.paused_at;
  return (
    <>
      {queue.paused_at && (
        <>
          <Tooltip words={queue.pause_reason ?? "no reason was given"}>
            <span tabIndex={-1}>
              <Badge tone="warn" icon="pause">
                paused
              </Badge>
            </span>
          </Tooltip>
          {reason && (
            <span className="min-w-0 text-xs wrap-anywhere text-muted">
              <Time at={queue.paused_at} />
              {queue.pause_reason ? `: ${queue.pause_reason}` : ""}
            </span>
          )}
        </>
      )}
      {lonely && (
        <Badge tone={queue.ready.count > 0 ? "bad" : "neutral"} icon={queue.ready.count > 0 ? "warning" : "workers"} title="No live worker works this queue">
          no worker
        </Badge>
      )}
    </>
  );
}

export function Limits({ queue }: { queue: Queue }) {
  return (
    <span className="inline-flex items-center gap-1.5 whitespace-nowrap">
      {limitWords(queue.max_concurrency, queue.rate)}
      {queue.overridden && (
        <Tooltip words="Set by an operator, over what code says">
          <span tabIndex={-1} className="text-accent">
            <Icon name="edit" size={12} />
            <span className="sr-only">set by an operator</span>
          </span>
        </Tooltip>
      )}
    </span>
  );
}

const BEHIND_S = 60; // as the overview's sentence has it
const FAR_BEHIND_S = 600;

/** How long the job has been due that has waited longest; marked where the queue is behind. */
export function Oldest({ queue, none = "–" }: { queue: Queue; none?: string }) {
  if (queue.oldest_age === null) return <span className="text-faint">{none}</span>;
  const age = seconds(queue.oldest_age);
  if (age < BEHIND_S || queue.paused_at) return <Duration of={queue.oldest_age} />;
  return (
    <span className={cx("inline-flex items-center gap-1", age < FAR_BEHIND_S ? "text-warn" : "text-bad")}>
      <Icon name="warning" size={12} />
      <span className="sr-only">behind by</span> <Duration of={queue.oldest_age} />
    </span>
  );
}

/** A count that is grey when there are none. */
export function Depth({ value }: { value: Schema<"Capped"> }) {
  return <Count value={value.count} capped={value.capped} estimated={value.estimated} className={value.count === 0 ? "text-faint" : undefined} />;
}

/** Pause or resume, and limits. */
export function Actions({ queue, onOpen, small }: { queue: Queue; onOpen: (what: Open) => void; small?: boolean }) {
  const resume = useAct("post", "/api/admin/queues/{name}/resume", { done: `${queue.name} is worked again` });
  return (
    <span className="inline-flex gap-1">
      {queue.paused_at ? (
        <Button small={small} collapse={small} icon="play" op="queues.change" busy={resume.isPending} aria-label={`Resume ${queue.name}`} onClick={() => resume.mutate({ path: { name: queue.name } })}>
          Resume
        </Button>
      ) : (
        <Button small={small} collapse={small} icon="pause" op="queues.change" aria-label={`Pause ${queue.name}`} onClick={() => onOpen("pause")}>
          Pause
        </Button>
      )}
      <Button small={small} collapse={small} icon="edit" op="queues.change" aria-label={`Limits of ${queue.name}`} onClick={() => onOpen("limits")}>
        Limits
      </Button>
    </span>
  );
}
