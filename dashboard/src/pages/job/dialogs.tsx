/** Dialogs of one job: cancel it, or let it run at another time. */

import { useState } from "react";
import { type Schema, useAct } from "@/api";
import { now } from "@/lib/clock";
import { absolute, relative, zone } from "@/lib/format";
import { Button, Confirm, Dialog, ErrorPanel, Id, Input } from "@/ui";

type Job = Pick<Schema<"JobSummary">, "id" | "task" | "state" | "run_at">;

export function CancelDialog({ job, onClose }: { job: Job; onClose: () => void }) {
  const [reason, setReason] = useState("");
  const cancel = useAct("post", "/api/admin/jobs/{id}/cancel", { done: (answer) => (answer.state === "running" ? "It is asked to stop" : "Canceled"), toastErrors: false });
  return (
    <Confirm title="Cancel the job" action="Cancel the job" danger onClose={onClose} onConfirm={() => cancel.mutateAsync({ path: { id: job.id }, body: { reason: reason.trim() || null } })}>
      <div className="flex flex-col gap-3">
        <p>
          <strong className="font-semibold">{job.task}</strong> <Id id={job.id} /> {job.state === "running" ? "is asked to stop; it runs until its handler has." : "ends without having run. It can be retried later."}
        </p>
        <Input label="Reason" hint="For whoever wonders later." value={reason} onChange={setReason} maxLength={500} />
      </div>
    </Confirm>
  );
}

const MINUTE = 60_000;
const PRESETS: [string, number][] = [
  ["Now", 0],
  ["In 10 min", 10 * MINUTE],
  ["In 1 h", 60 * MINUTE],
  ["In 24 h", 24 * 60 * MINUTE],
];

export function RescheduleDialog({ job, onClose }: { job: Job; onClose: () => void }) {
  const [text, setText] = useState(() => localText(Math.max(new Date(job.run_at).getTime(), now())));
  const move = useAct("post", "/api/admin/jobs/{id}/reschedule", { done: "It has another time", toastErrors: false });
  const at = new Date(text);
  const valid = text !== "" && !Number.isNaN(at.getTime());
  const send = async () => {
    if (!valid || move.isPending) return;
    try {
      await move.mutateAsync({ path: { id: job.id }, body: { run_at: at.toISOString() } });
      onClose();
    } catch {
      // shown below
    }
  };
  return (
    <Dialog
      title="Reschedule the job"
      width="sm"
      onClose={onClose}
      onSubmit={() => void send()}
      footer={
        <>
          <Button onClick={onClose}>Leave it</Button>
          <Button type="submit" look="primary" busy={move.isPending} disabledWhy={!valid && "Say when first"}>
            Reschedule
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <div className="flex flex-wrap gap-2">
          {PRESETS.map(([words, ms]) => (
            <Button key={words} small onClick={() => setText(localText(now() + ms))}>
              {words}
            </Button>
          ))}
        </div>
        <Input
          label="Run at"
          type="datetime-local"
          step={1}
          value={text}
          onChange={setText}
          hint={valid ? `${relative(at.getTime(), now())} · ${absolute(at.getTime(), "UTC")} · what you type is ${zone}` : `In your time zone, ${zone}.`}
          error={move.error?.field("run_at")}
          data-autofocus
        />
        {move.error && <ErrorPanel problem={move.error} compact />}
      </div>
    </Dialog>
  );
}

/** A time as a datetime-local field has it. */
export function localText(ms: number): string {
  const at = new Date(ms);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}
