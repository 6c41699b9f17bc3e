/** Runs a task by hand: a form made from its schema, and how the job differs from what the task says. */

import { useState } from "react";
import { useLocation } from "wouter";
import { type BodyOf, useAct } from "@/api";
import { toast } from "@/lib/toasts";
import type { TaskView } from "@/pages/tasks/parts";
import { Button, Dialog, ErrorPanel, Input, type JsonSchema, Notice, SchemaForm } from "@/ui";
import { SPAN } from "./settings-fields";

type Body = NonNullable<BodyOf<"post", "/api/admin/tasks/{name}/trigger">>;

interface Options {
  delay: string;
  priority: string;
  key: string;
}

export function RunDialog({ view, onClose }: { view: TaskView; onClose: () => void }) {
  const { record } = view;
  const [, navigate] = useLocation();
  const [payload, setPayload] = useState<Record<string, unknown>>(record.default_payload);
  const [readable, setReadable] = useState(true);
  const [options, setOptions] = useState<Options>({ delay: "", priority: "", key: "" });
  const run = useAct("post", "/api/admin/tasks/{name}/trigger", { toastErrors: false });
  const wrong = {
    delay: options.delay.trim() === "" || SPAN.test(options.delay.trim()) ? undefined : "a time with its unit, such as 30s, 5m or 1h30m",
    priority: options.priority.trim() === "" || (/^-?\d+$/.test(options.priority.trim()) && Number(options.priority) >= -32_768 && Number(options.priority) <= 32_767) ? undefined : "a whole number from -32768 (first) to 32767 (last)",
  };
  const gone = record.deleted_from_code_at !== null;
  const stopped = gone ? "No code has it any more" : !readable ? "The payload cannot be read: mend it first" : (wrong.delay ?? wrong.priority) && "Mend what is marked first";
  const set = (change: Partial<Options>) => setOptions({ ...options, ...change });
  const submit = () => {
    if (stopped) return;
    const body: Body = {
      payload: payload as Body["payload"],
      ...(options.delay.trim() && { delay: options.delay.trim() }),
      ...(options.priority.trim() && { priority: Number(options.priority) }),
      ...(options.key.trim() && { key: options.key.trim() }),
    };
    run.mutate(
      { path: { name: record.name }, body },
      {
        onSuccess: ({ id }) => {
          toast(`Enqueued a job of ${record.name}`, { action: { label: "Open it", run: () => navigate(`/jobs/${id}`) } });
          onClose();
        },
      },
    );
  };
  const own = ["delay", "priority", "key"];
  const errors = run.error?.errors ?? [];
  const ofPayload = errors.filter((each) => !own.includes(each.field.replace(/^body\./, "")));
  return (
    <Dialog
      title={`Run ${record.name}`}
      width="lg"
      onClose={onClose}
      onSubmit={submit}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" icon="play" op="tasks.trigger" busy={run.isPending} disabledWhy={stopped}>
            Run
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-4">
        {gone && <Notice tone="warn">No code has this task any more: it cannot be run.</Notice>}
        {!gone && !record.enabled && <Notice tone="warn">The task is disabled: the job will wait until it is enabled.</Notice>}
        {!gone && record.enabled && view.workers === 0 && <Notice tone="warn">No live worker knows this task: the job will wait until one does.</Notice>}
        <SchemaForm schema={record.payload_schema as JsonSchema} value={payload} onChange={setPayload} onValid={setReadable} errors={ofPayload} />
        <div className="grid gap-3 border-t pt-3 sm:grid-cols-3">
          <Input label="Delay" hint="For example 5m. Empty: now." mono value={options.delay} onChange={(delay) => set({ delay })} error={wrong.delay ?? run.error?.field("delay")} />
          <Input label="Priority" hint={`Smaller runs first. Empty: ${record.priority}.`} inputMode="numeric" value={options.priority} onChange={(priority) => set({ priority })} error={wrong.priority ?? run.error?.field("priority")} />
          <Input label="Key" hint="Prevents duplicates while a job with this key is active." mono value={options.key} onChange={(key) => set({ key })} error={run.error?.field("key")} />
        </div>
        {run.error && errors.length === 0 && <ErrorPanel problem={run.error} compact />}
      </div>
    </Dialog>
  );
}
