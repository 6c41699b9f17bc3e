/** The dialog that makes a schedule, or edits one. */

import { useMemo, useRef, useState } from "react";
import { useAct, useApiWithEtag } from "@/api";
import { now } from "@/lib/clock";
import { Button, Dialog, Diff, ErrorPanel, Input, Notice, Skeleton, Switch } from "@/ui";
import { type Draft, NEW, changeOf, draftOf, mistakes, settingsOf } from "./draft";
import { PayloadFields, PolicyFields, TaskField, TimingFields } from "./fields";
import { Preview, usePreview } from "./preview";
import { type ScheduleRecord, labelOf } from "./words";

/** `name` is of the schedule to edit; null: a new one. */
export function Editor({ name, task, onClose }: { name: string | null; task?: string; onClose: () => void }) {
  return name === null ? <Form base={null} task={task} onClose={onClose} /> : <Existing name={name} onClose={onClose} />;
}

interface Version {
  record: ScheduleRecord;
  etag: string | undefined;
}

/** Loads the schedule; what somebody else does to it meanwhile is said, and does not overwrite what is typed. */
function Existing({ name, onClose }: { name: string; onClose: () => void }) {
  const found = useApiWithEtag("/api/admin/schedules/{name}", { path: { name } });
  const newest = found.data && { record: found.data.data.record, etag: found.data.etag };
  const [base, setBase] = useState<Version | null>(null);
  const opened = base ?? newest ?? null;
  if (newest && base === null) setBase(newest);
  if (opened === null) {
    return (
      <Dialog title={`Edit ${name}`} onClose={onClose}>
        {found.error ? <ErrorPanel problem={found.error} onRetry={() => void found.refetch()} compact /> : <Skeleton lines={6} />}
      </Dialog>
    );
  }
  return <Form key={opened.etag} base={opened} newest={newest} onRebase={setBase} onClose={onClose} />;
}

function Form({ base, newest, task, onRebase, onClose }: { base: Version | null; newest?: Version; task?: string; onRebase?: (version: Version) => void; onClose: () => void }) {
  const before = useMemo(() => (base ? draftOf(base.record) : { ...NEW, task: task ?? "" }), [base, task]);
  const [draft, setDraft] = useState<Draft>(before);
  const [tried, setTried] = useState(false);
  const [valid, setValid] = useState(true);
  const [more, setMore] = useState(false);
  const etag = useRef(base?.etag);
  const create = useAct("post", "/api/admin/schedules", { done: (made) => `Made ${labelOf(made)}`, toastErrors: false });
  const update = useAct("put", "/api/admin/schedules/{name}", { done: "Saved", toastErrors: false });
  const preview = usePreview(draft);
  const sent = base ? update : create;
  const { error } = sent;
  const set = (change: Partial<Draft>) => {
    setDraft((draft) => ({ ...draft, ...change }));
    if (sent.error) sent.reset(); // it was about what stood there before
  };
  const wrong = mistakes(draft, base === null, now());
  const errorOf = (name: string) => preview.problem?.field(name) ?? error?.field(name) ?? (tried ? wrong[name as keyof Draft] : undefined);
  const stale = base !== null && newest !== undefined && newest.etag !== base.etag;
  const why = !valid ? "The payload cannot be read yet" : preview.problem && !preview.problem.offline ? "The server does not understand the time yet: see what is marked" : null;

  const save = (over = false) => {
    setTried(true);
    if (Object.keys(wrong).length > 0 || why || sent.isPending) return;
    if (!base) return create.mutate({ body: { name: draft.name.trim(), ...settingsOf(draft) } }, { onSuccess: onClose });
    const body = changeOf(before, draft);
    if (Object.keys(body).length === 0) return onClose();
    if (over) etag.current = newest?.etag;
    update.mutate({ path: { name: base.record.id }, body, etag: etag.current }, { onSuccess: onClose });
  };
  // What the fields show themselves need not be said twice.
  const shown = ["name", "task", "cron", "tz", "every", "starts_at", "ends_at", "jitter", "start_within", "finish_within", "misfire", "catch_up", "overlap", "queue", "priority", "max_attempts"];
  const elsewhere = error && error.code !== "payload" && !(error.status === 412 && stale) && !error.errors.some((each) => shown.includes(each.field.replace(/^body\./, "")) || /^(body\.)?payload\b/.test(each.field));
  const fields = { draft, set, errorOf };
  return (
    <Dialog
      title={base ? `Edit ${labelOf(base.record)}` : "New schedule"}
      width="lg"
      onClose={onClose}
      onSubmit={() => save()}
      footer={
        <>
          <div className="mr-auto">
            <Switch label="Enabled" checked={draft.enabled} onChange={(enabled) => set({ enabled })} />
          </div>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" op={base ? "schedules.change" : "tasks.trigger"} busy={sent.isPending} disabledWhy={stale ? "It was changed meanwhile: decide above" : why}>
            {base ? "Save" : "Create"}
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-5">
        {base !== null && stale && newest && <Conflict base={base} newest={newest} onTheirs={() => onRebase?.(newest)} onMine={() => save(true)} busy={sent.isPending} />}
        {elsewhere && <ErrorPanel problem={error} compact />}
        <div className="grid gap-5 md:grid-cols-[3fr_2fr]">
          <div className="flex min-w-0 flex-col gap-3">
            {base === null && <Input label="Name" value={draft.name} onChange={(name) => set({ name })} error={errorOf("name")} required data-autofocus maxLength={200} placeholder="nightly" />}
            <TaskField {...fields} />
            <TimingFields {...fields} />
          </div>
          <section aria-label="Preview" className="min-w-0 rounded-md bg-sunken p-3">
            <Preview state={preview} draft={draft} />
          </section>
        </div>
        <fieldset className="flex flex-col gap-3 border-t pt-3">
          <legend className="sr-only">Payload</legend>
          <h3 className="font-medium" aria-hidden>
            Payload
          </h3>
          <PayloadFields {...fields} problem={error} onValid={setValid} onDefault={(payload) => set({ payload: { ...payload, ...draft.payload } })} />
        </fieldset>
        <details className="border-t pt-3" open={more || OPTIONS.some((name) => errorOf(name))} onToggle={(event) => setMore(event.currentTarget.open)}>
          <summary className="font-medium">Overlap, outages, deadlines and more</summary>
          <div className="pt-3">
            <PolicyFields {...fields} />
          </div>
        </details>
      </div>
    </Dialog>
  );
}

const OPTIONS = ["overlap", "misfire", "catch_up", "jitter", "start_within", "finish_within", "queue", "priority", "max_attempts"];

/** Somebody else was faster: what they changed, and the choice between theirs and mine. */
function Conflict({ base, newest, onTheirs, onMine, busy }: { base: Version; newest: Version; onTheirs: () => void; onMine: () => void; busy: boolean }) {
  return (
    <div role="alert" className="flex flex-col gap-2 rounded-md border border-warn p-3">
      <Notice tone="warn">Somebody else has changed this schedule since you opened it. This is what they changed:</Notice>
      <Diff before={settingsOf(draftOf(base.record))} after={settingsOf(draftOf(newest.record))} />
      <div className="flex flex-wrap gap-2">
        <Button onClick={onTheirs}>Start again from theirs</Button>
        <Button look="danger" op="schedules.change" onClick={onMine} busy={busy}>
          Save mine over it
        </Button>
        <span className="self-center text-xs text-muted">What you have changed takes the place of theirs; the rest stays as they left it.</span>
      </div>
    </div>
  );
}
