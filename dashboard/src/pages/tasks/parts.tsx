/** What the pages of tasks share. */

import { useState } from "react";
import { type Schema, useAct } from "@/api";
import { Badge, Button, Dialog, ErrorPanel, Switch, Textarea } from "@/ui";

export type TaskView = Schema<"TaskView">;
export type TaskRecord = Schema<"TaskRecord">;

export const taskHref = (name: string) => `/tasks/${encodeURIComponent(name)}`;

/** The first line of what code says about a task. */
export function summaryOf(task: TaskRecord): string {
  return task.description.trim().split("\n", 1)[0] ?? "";
}

/** The fields that code gives a task beside Rota's own, as the search finds them: `team:billing`. */
export function fieldsOf(task: TaskRecord): string[] {
  return Object.entries(task.fields).map(([name, value]) => `${name}:${value}`);
}

/** What is not as usual about a task: each with a word and an icon. */
export function TaskBadges({ view }: { view: TaskView }) {
  const { record, workers } = view;
  const changed = Object.keys(record.overrides ?? {}).length;
  return (
    <>
      {!record.enabled && (
        <Badge tone="warn" icon="pause" title={record.disable_reason ?? undefined}>
          disabled
        </Badge>
      )}
      {record.deleted_from_code_at ? (
        <Badge tone="warn" icon="ban" title="No application has it in its code any more: its jobs wait, its schedules rest">
          not in code
        </Badge>
      ) : (
        workers === 0 && (
          <Badge tone="bad" icon="workers" title="Its jobs wait until a worker that has it in its code is live">
            no live worker knows this
          </Badge>
        )
      )}
      {changed > 0 && (
        <Badge tone="accent" icon="edit" title={`Set by operators, over what code says: ${Object.keys(record.overrides ?? {}).join(", ")}`}>
          {changed} changed
        </Badge>
      )}
      {record.system && <Badge>system</Badge>}
    </>
  );
}

/** Enables at once; disabling asks why. */
export function EnabledSwitch({ view, hideLabel }: { view: TaskView; hideLabel?: boolean }) {
  const { name, enabled } = view.record;
  const [asking, setAsking] = useState(false);
  const enable = useAct("post", "/api/admin/tasks/{name}/enable", { done: `${name} runs again` });
  return (
    <>
      <Switch label={hideLabel ? `${name} enabled` : "Enabled"} hideLabel={hideLabel} checked={enabled} op="tasks.change" busy={enable.isPending} onChange={(on) => (on ? enable.mutate({ path: { name } }) : setAsking(true))} />
      {asking && <DisableDialog name={name} onClose={() => setAsking(false)} />}
    </>
  );
}

const MAX_REASON = 500;

function DisableDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const [reason, setReason] = useState("");
  const disable = useAct("post", "/api/admin/tasks/{name}/disable", { done: `${name} is disabled`, toastErrors: false });
  const long = reason.length > MAX_REASON ? `at most ${MAX_REASON} letters, these are ${reason.length}` : undefined;
  return (
    <Dialog
      title={`Disable ${name}`}
      width="sm"
      onClose={onClose}
      onSubmit={() => !long && disable.mutate({ path: { name }, body: { reason: reason.trim() || null } }, { onSuccess: onClose })}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" icon="pause" op="tasks.change" busy={disable.isPending} disabledWhy={long}>
            Disable
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <p className="text-muted">Its schedules fire no more and its jobs wait until it is enabled again. What runs already goes on.</p>
        <Textarea label="Reason" hint="For whoever wonders later." rows={3} value={reason} onChange={setReason} error={long} data-autofocus />
        {disable.error && <ErrorPanel problem={disable.error} compact />}
      </div>
    </Dialog>
  );
}
