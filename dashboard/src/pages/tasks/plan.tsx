/** How the database differs from the code of the server, and what a sync would do about it. */

import { useState } from "react";
import { type Schema, listOf, useAct, useApi } from "@/api";
import { toJson } from "@/lib/json";
import { Badge, Button, Checkbox, type Column, Dialog, ErrorPanel, Icon, Link, Notice, Section, Skeleton, Table, type Tone } from "@/ui";
import { taskHref } from "./parts";

type Change = Schema<"Change">;
type Drift = Schema<"Drift">;
type Misfits = Schema<"Misfits">;

/** The plan; with `scan` live jobs are looked through, too, which may take a while. */
export function usePlan(scan: boolean) {
  return useApi("/api/admin/plan", { query: scan ? {} : { scan: 0 } }, { live: ["tasks"] });
}

const KINDS: Record<string, [tone: Tone, means: string]> = {
  new: ["ok", "in the code, not in the database"],
  changed: ["info", "the code says something else than at the last sync"],
  returned: ["ok", "was gone from the code, and is back"],
  gone: ["warn", "in the database, no longer in the code: its jobs will wait"],
  kept: ["neutral", "not in this server's code, but a live worker has it"],
};

const CHANGES: Column<Change>[] = [
  { key: "task", title: "Task", width: "16rem", cell: (row) => <TaskLink name={row.task} known={row.kind !== "new"} /> },
  {
    key: "kind",
    title: "What",
    width: "7rem",
    cell: (row) => (
      <Badge tone={KINDS[row.kind]?.[0]} title={KINDS[row.kind]?.[1]}>
        {row.kind}
      </Badge>
    ),
  },
  {
    key: "fields",
    title: "Differs in",
    hideBelow: "sm",
    cell: (row) => {
      const fields = Object.entries(row.fields ?? {});
      if (fields.length === 0) return <span className="text-muted">{KINDS[row.kind]?.[1]}</span>;
      return (
        <ul className="font-mono text-xs wrap-anywhere">
          {fields.map(([name, [before, after]]) => (
            <li key={name}>
              {name}: <Brief value={before} /> → <Brief value={after} />
            </li>
          ))}
        </ul>
      );
    },
  },
];

const DRIFT: Column<Drift>[] = [
  { key: "task", title: "Task", width: "16rem", cell: (row) => <TaskLink name={row.task} known /> },
  { key: "setting", title: "Setting", width: "10rem", cell: (row) => <code className="font-mono text-xs">{row.setting}</code> },
  { key: "code", title: "Code says", cell: (row) => <Brief value={row.code} /> },
  { key: "database", title: "Operators say, and it holds", cell: (row) => <Brief value={row.database} /> },
];

const MISFITS: Column<Misfits>[] = [
  { key: "task", title: "Task", width: "16rem", cell: (row) => <TaskLink name={row.task} known /> },
  { key: "jobs", title: "Jobs", width: "5rem", align: "right", cell: (row) => row.jobs },
  { key: "schedules", title: "Schedules", width: "6rem", align: "right", cell: (row) => row.schedules },
  {
    key: "why",
    title: "For example",
    hideBelow: "sm",
    cell: (row) => (
      <ul className="text-xs wrap-anywhere">
        {row.examples?.slice(0, 3).map(([label, reason]) => (
          <li key={label}>
            <code className="font-mono">{label}</code>: {reason}
          </li>
        ))}
      </ul>
    ),
  },
];

function TaskLink({ name, known }: { name: string; known: boolean }) {
  return known ? <Link href={taskHref(name)}>{name}</Link> : <span>{name}</span>;
}

/** A value in little room, whole on hover. */
function Brief({ value }: { value: unknown }) {
  const text = value === null || value === undefined ? "none" : typeof value === "string" ? value : toJson(value);
  return (
    <span className="font-mono text-xs wrap-anywhere" title={text.length > 80 ? text.slice(0, 2000) : undefined}>
      {text.length > 80 ? `${text.slice(0, 80)}…` : text}
    </span>
  );
}

/** All is well here: in a line, three of them would fill the page. */
function Fine({ children }: { children: string }) {
  return (
    <p className="flex items-center gap-2 text-muted">
      <Icon name="check" className="text-ok" />
      {children}
    </p>
  );
}

export function SyncPlan({ plan, scanned, onScan }: { plan: ReturnType<typeof usePlan>; scanned: boolean; onScan: () => void }) {
  const [syncing, setSyncing] = useState(false);
  const data = plan.data;
  if (!data) return plan.error ? <ErrorPanel problem={plan.error} onRetry={() => void plan.refetch()} /> : <Skeleton lines={6} />;
  const changes = data.changes.filter((each) => each.kind !== "kept");
  const scanning = scanned && plan.isPlaceholderData;
  const looked = scanned && !plan.isPlaceholderData;
  const misfits = [...data.payloads, ...data.orphans];
  return (
    <div className="flex flex-col gap-4">
      {plan.error && <ErrorPanel problem={plan.error} onRetry={() => void plan.refetch()} compact />}
      <div className="flex flex-wrap items-center gap-3">
        <p className="min-w-0 grow text-muted">What this server has in its code, against what the database knows. Workers sync when they start.</p>
        <Button icon="search" busy={scanning} disabledWhy={looked && "They have been looked through"} onClick={onScan}>
          Look through live jobs too
        </Button>
        <Button look="primary" icon="retry" op="tasks.change" disabledWhy={changes.length + data.drift.length === 0 && "Code and database agree"} onClick={() => setSyncing(true)}>
          Sync
        </Button>
      </div>
      <Section title="What a sync would change">
        <Table label="Changes" list={listOf(plan, (all) => all.changes)} columns={CHANGES} rowKey={(row) => row.task} keyboard={false} empty={<Fine>Code and database agree</Fine>} />
      </Section>
      <Section title="What operators have set otherwise">
        <Table label="Drift" list={listOf(plan, (all) => all.drift)} columns={DRIFT} rowKey={(row) => `${row.task}/${row.setting}`} keyboard={false} empty={<Fine>Everything is as code says</Fine>} />
      </Section>
      {looked && (
        <Section title="Live jobs that this code could not run" aside={<span className="text-xs text-muted">{data.cut ? `the first ${data.scanned} were looked at` : `${data.scanned} were looked at`}</span>}>
          <Table label="Misfits" list={listOf(plan, () => misfits)} columns={MISFITS} rowKey={(row) => `${row.task}/${data.orphans.includes(row)}`} keyboard={false} empty={<Fine>All of them fit</Fine>} />
        </Section>
      )}
      {syncing && <SyncDialog changes={changes} drift={data.drift} onClose={() => setSyncing(false)} />}
    </div>
  );
}

function SyncDialog({ changes, drift, onClose }: { changes: Change[]; drift: Drift[]; onClose: () => void }) {
  const [forced, setForced] = useState<ReadonlySet<string>>(new Set());
  const sync = useAct("post", "/api/admin/sync", { done: (answer) => doneWords(answer), toastErrors: false });
  const drifted = [...Map.groupBy(drift, (each) => each.task)];
  const gone = changes.filter((each) => each.kind === "gone");
  const toggle = (task: string, on: boolean) => {
    const next = new Set(forced);
    if (on) next.add(task);
    else next.delete(task);
    setForced(next);
  };
  return (
    <Dialog
      title="Sync the code's tasks"
      onClose={onClose}
      onSubmit={() => sync.mutate({ body: { force: [...forced] } }, { onSuccess: onClose })}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" op="tasks.change" busy={sync.isPending} data-autofocus>
            Sync
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <p>
          {changes.length === 0 ? "No task changes." : `${changes.length} ${changes.length === 1 ? "task is" : "tasks are"} written to the database.`} What operators have set stays, but for the tasks that you tick here.
        </p>
        {gone.length > 0 && <Notice tone="warn">Gone from this code, their jobs will wait: {gone.map((each) => each.task).join(", ")}</Notice>}
        {drifted.map(([task, settings]) => (
          <Checkbox key={task} label={`${task}: as code says`} hint={settings.map((each) => each.setting).join(", ")} checked={forced.has(task)} onChange={(on) => toggle(task, on)} />
        ))}
        {sync.error && <ErrorPanel problem={sync.error} compact />}
      </div>
    </Dialog>
  );
}

function doneWords(answer: Schema<"Synced">): string {
  const parts = (["created", "changed", "returned", "gone"] as const).map((kind) => [kind, answer[kind]?.length ?? 0] as const).filter(([, count]) => count > 0);
  return parts.length ? `Synced: ${parts.map(([kind, count]) => `${count} ${kind}`).join(", ")}` : "Synced: nothing had changed";
}
