/** The fields of a schedule, in groups. */

import { useId } from "react";
import type { Problem } from "@/api/problem";
import { useApi } from "@/api";
import { useDebounced } from "@/lib/debounced";
import { zone } from "@/lib/format";
import { useRights } from "@/lib/rights";
import { type JsonSchema, Input, Notice, SchemaForm, Select, Skeleton } from "@/ui";
import { ZoneInput } from "@/ui/zone-input";
import type { Draft, Mode } from "./draft";
import { CronHelp } from "./preview";

export interface FieldsProps {
  draft: Draft;
  set: (change: Partial<Draft>) => void;
  /** What is wrong with a field, as far as is known. */
  errorOf: (name: string) => string | undefined;
}

/** The task, with what is known of that name as one types. */
export function TaskField({ draft, set, errorOf }: FieldsProps) {
  const id = useId();
  const [typed] = useDebounced(draft.task.trim());
  const { can } = useRights();
  const found = useApi("/api/admin/jobs/values", { query: { of: "task", text: typed, limit: 20 } }, { live: [], enabled: can("jobs.read") });
  return (
    <>
      <Input label="Task" value={draft.task} onChange={(task) => set({ task })} error={errorOf("task")} required mono list={id} />
      <datalist id={id}>
        {found.data?.items.map((each) => (
          <option key={each} value={each} />
        ))}
      </datalist>
    </>
  );
}

const MODES: { value: Mode; label: string }[] = [
  { value: "cron", label: "At the times of a cron expression" },
  { value: "interval", label: "At an interval" },
  { value: "once", label: "Once, at a time" },
];

/** When it fires. */
export function TimingFields({ draft, set, errorOf }: FieldsProps) {
  if (draft.mode === "init") return null;
  return (
    <>
      <Select label="When" value={draft.mode} options={MODES} onChange={(mode) => set({ mode: mode as Mode })} />
      {draft.mode === "cron" && (
        <>
          <div className="grid gap-3 sm:grid-cols-2">
            <Input label="Cron expression" value={draft.cron} onChange={(cron) => set({ cron })} error={errorOf("cron")} required mono placeholder="0 9 * * mon-fri" hint="minute, hour, day, month, weekday" />
            <ZoneInput value={draft.tz} onChange={(tz) => set({ tz })} error={errorOf("tz")} hint={draft.tz === zone ? "Yours: whose clocks count." : "Whose clocks count."} />
          </div>
          <CronHelp onTake={(cron) => set({ cron })} />
        </>
      )}
      {draft.mode === "interval" && <Input label="Every" value={draft.every} onChange={(every) => set({ every })} error={errorOf("every")} required mono placeholder="5m" hint="30s, 5m, 1h30m, 2d; at least a second." />}
      {draft.mode === "once" && <Input label="At" type="datetime-local" value={draft.at} onChange={(at) => set({ at })} error={errorOf("at") ?? errorOf("starts_at") ?? errorOf("ends_at")} required hint={`On your clocks: ${zone}.`} />}
    </>
  );
}

const MISFIRES = [
  { value: "latest", label: "Run the newest time that was missed" },
  { value: "skip", label: "Run only what is at most a minute late" },
  { value: "all", label: "Run all that were missed" },
];
const OVERLAPS = [
  { value: "allow", label: "Run another one beside it" },
  { value: "skip", label: "Skip this time" },
  { value: "queue_one", label: "Let one wait for it" },
];

/** What happens when something is late or still runs, and what the jobs are like. */
export function PolicyFields({ draft, set, errorOf }: FieldsProps) {
  const text = (name: "jitter" | "starts_at" | "ends_at" | "start_within" | "finish_within" | "queue" | "priority" | "max_attempts" | "catch_up", label: string, hint: string, more: { type?: string; placeholder?: string } = {}) => (
    <Input label={label} hint={hint} value={draft[name]} onChange={(value) => set({ [name]: value })} error={errorOf(name)} {...more} />
  );
  const timed = draft.mode !== "init";
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      {timed && (
        <>
          <Select label="While the last job still runs" value={draft.overlap} options={OVERLAPS} onChange={(overlap) => set({ overlap: overlap as Draft["overlap"] })} error={errorOf("overlap")} />
          <Select label="After an outage" value={draft.misfire} options={MISFIRES} onChange={(misfire) => set({ misfire: misfire as Draft["misfire"] })} error={errorOf("misfire")} />
          {draft.misfire === "all" && text("catch_up", "At most so many", "The newest of those that were missed; 1 to 10,000.")}
          {text("jitter", "Spread", "Each job begins up to so long after its time.", { placeholder: "none" })}
          {draft.mode !== "once" && text("starts_at", "Not before", `On your clocks: ${zone}.`, { type: "datetime-local" })}
          {draft.mode !== "once" && text("ends_at", "Not after", `On your clocks: ${zone}.`, { type: "datetime-local" })}
          {text("start_within", "Must begin within", "Or an alert is raised.", { placeholder: "any time" })}
          {text("finish_within", "Must end within", "Or an alert is raised.", { placeholder: "any time" })}
        </>
      )}
      {text("queue", "Queue", "Instead of the task's.", { placeholder: "the task's" })}
      {text("priority", "Priority", "Smaller runs first.", { placeholder: "the task's" })}
      {text("max_attempts", "Attempts at most", "Instead of the task's.", { placeholder: "the task's" })}
    </div>
  );
}

/** The payload, as a form made from the task's schema. */
export function PayloadFields({ draft, set, problem, onValid, onDefault }: Pick<FieldsProps, "draft" | "set"> & { problem: Problem | null; onValid: (valid: boolean) => void; onDefault?: (payload: Record<string, unknown>) => void }) {
  const [task, settled] = useDebounced(draft.task.trim(), 500);
  const form = useApi("/api/admin/forms/{name}", { path: { name: task } }, { enabled: task !== "", live: [], keep: false });
  const errors = problem?.errors.filter((each) => /^(body\.)?payload\b/.test(each.field)) ?? [];
  const fallback = form.data?.default_payload as Record<string, unknown> | undefined;
  if (!task) return <p className="text-muted">Choose a task first: its form comes here.</p>;
  if (form.isPending || !settled) return <Skeleton lines={3} />;
  if (form.error?.status === 404) return <Notice tone="warn">There is no task of this name. What is known is offered as you type.</Notice>;
  return (
    <>
      {form.error && <Notice tone="warn">The form of this task cannot be shown ({form.error.message}): write the payload as JSON.</Notice>}
      {fallback && Object.keys(fallback).length > 0 && onDefault && <DefaultPayload payload={fallback} onTake={onDefault} />}
      {problem?.code === "payload" && errors.length === 0 && (
        <p role="alert" className="text-xs wrap-anywhere text-bad">
          {problem.message}
        </p>
      )}
      <SchemaForm key={task} schema={form.data?.payload_schema as JsonSchema | undefined} value={draft.payload} onChange={(payload) => set({ payload })} onValid={onValid} errors={errors} />
    </>
  );
}

function DefaultPayload({ payload, onTake }: { payload: Record<string, unknown>; onTake: (payload: Record<string, unknown>) => void }) {
  return (
    <p className="text-xs text-muted">
      What is left out comes from the task’s default payload ({Object.keys(payload).join(", ")}).{" "}
      <button type="button" className="text-accent hover:underline" onClick={() => onTake(payload)}>
        Fill it in
      </button>
    </p>
  );
}
