/** What is done to a queue: paused with a reason, limited. */

import { useState } from "react";
import { type Schema, useAct, useApiWithEtag } from "@/api";
import { Button, Conflict, Dialog, ErrorPanel, Input, Notice, Skeleton, Textarea, useVersion } from "@/ui";
import { countOf, limitWords, rateText, textOf, wrongCount, wrongRate } from "./limits";

export type Queue = Schema<"Queue">;

const MAX_REASON = 500;

export function PauseDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const [reason, setReason] = useState("");
  const pause = useAct("post", "/api/admin/queues/{name}/pause", { done: `${name} is paused`, toastErrors: false });
  const long = reason.length > MAX_REASON ? `at most ${MAX_REASON} letters, these are ${reason.length}` : undefined;
  const submit = () => {
    if (!long) pause.mutate({ path: { name }, body: { reason: textOf(reason) } }, { onSuccess: onClose });
  };
  return (
    <Dialog
      title={`Pause ${name}`}
      width="sm"
      onClose={onClose}
      onSubmit={submit}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" icon="pause" op="queues.change" busy={pause.isPending} disabledWhy={long}>
            Pause
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <p className="text-muted">No worker takes jobs from it until it is resumed, over restarts too. What runs already goes on; what is enqueued waits.</p>
        <Textarea label="Reason" hint="For whoever wonders later; shown beside the queue." rows={3} value={reason} onChange={setReason} error={long ?? pause.error?.field("reason")} placeholder="the mail server is down" data-autofocus />
        {pause.error && <ErrorPanel problem={pause.error} compact />}
      </div>
    </Dialog>
  );
}

const fieldsOf = (queue: Queue) => ({ concurrency: String(queue.max_concurrency ?? ""), rate: rateText(queue.rate) });
const limitsOf = (queue: Queue) => ({ max_concurrency: queue.max_concurrency ?? null, rate: rateText(queue.rate), paused: queue.paused_at !== null });
const STALE = "Somebody has changed it meanwhile: reload it first";

export function LimitsDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const found = useApiWithEtag("/api/admin/queues/{name}", { path: { name } });
  const { base, latest, changed, reload } = useVersion(found.data);
  const [edits, setEdits] = useState<{ concurrency?: string; rate?: string }>({});
  const limit = useAct("put", "/api/admin/queues/{name}/limits", { done: (held) => `${name}: ${limitWords(held.max_concurrency, held.rate)}`, toastErrors: false });
  const unlimit = useAct("delete", "/api/admin/queues/{name}/limits", { done: (held) => `${name} is limited as code says: ${limitWords(held.max_concurrency, held.rate)}`, toastErrors: false });
  const error = limit.error ?? unlimit.error;
  const before = base ? fieldsOf(base.data) : { concurrency: "", rate: "" };
  const fields = { ...before, ...edits };
  const wrong = { concurrency: wrongCount(fields.concurrency), rate: wrongRate(fields.rate) };
  const body = {
    ...(before.concurrency !== fields.concurrency.trim() && { max_concurrency: countOf(fields.concurrency) }),
    ...(before.rate !== fields.rate.trim() && { rate: textOf(fields.rate) }),
  };
  const stopped = !base ? "It is not there yet" : changed ? STALE : (wrong.concurrency ?? wrong.rate) ? "Mend what is marked first" : Object.keys(body).length === 0 && "Nothing has changed";
  const startAgain = () => {
    reload();
    limit.reset();
    unlimit.reset();
    setEdits({});
  };
  return (
    <Dialog
      title={`Limits of ${name}`}
      width="sm"
      onClose={onClose}
      onSubmit={() => !stopped && limit.mutate({ path: { name }, body, etag: base?.etag }, { onSuccess: onClose })}
      footer={
        <>
          {base?.data.overridden && (
            <span className="mr-auto">
              <Button op="queues.change" busy={unlimit.isPending} disabledWhy={changed && STALE} onClick={() => unlimit.mutate({ path: { name }, etag: base.etag }, { onSuccess: onClose })}>
                As code says
              </Button>
            </span>
          )}
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" op="queues.change" busy={limit.isPending} disabledWhy={stopped}>
            Save
          </Button>
        </>
      }
    >
      {!base || !latest ? (
        found.error ? <ErrorPanel problem={found.error} onRetry={() => void found.refetch()} /> : <Skeleton lines={4} />
      ) : (
        <div className="flex flex-col gap-3">
          <p className="text-muted">They hold over all workers together, at once, and deploys leave them so.</p>
          <Input label="Jobs at once" hint="Nothing: no limit." inputMode="numeric" autoFocus value={fields.concurrency} onChange={(concurrency) => setEdits({ ...edits, concurrency })} error={wrong.concurrency ?? error?.field("max_concurrency")} />
          <Input label="Rate of starts" hint="As 100/m, per s, m, h or d; or 5/10s. Nothing: no limit." mono value={fields.rate} onChange={(rate) => setEdits({ ...edits, rate })} error={wrong.rate ?? error?.field("rate")} />
          {base.data.overridden && <Notice>These were set by an operator, over what code says.</Notice>}
          {changed ? (
            <Conflict what={`The queue ${name}`} noun="queues" target={name} before={limitsOf(base.data)} after={limitsOf(latest.data)} onReload={startAgain} />
          ) : (
            error && error.errors.length === 0 && <ErrorPanel problem={error} compact />
          )}
        </div>
      )}
    </Dialog>
  );
}
