/** What runs by itself, and when. */

import { useMemo, useState } from "react";
import { useLocation, useSearch } from "wouter";
import { useAct, usePages } from "@/api";
import { toast } from "@/lib/toasts";
import { useKeys } from "@/lib/keys";
import { useRights } from "@/lib/rights";
import { hrefWith, useUrlState } from "@/lib/urlState";
import { Badge, Button, Checkbox, type Column, Confirm, Empty, Link, Menu, type MenuItem, Page, SearchBox, Select, Strip, Switch, Table } from "@/ui";
import { Detail } from "./detail";
import { Editor } from "./editor";
import { SHOWN, marksOf, useFirings } from "./firings";
import { Failing, Last, Next, When } from "./parts";
import { type Line, type ScheduleRecord, labelOf, timingWords } from "./words";

const KINDS = [
  { value: "", label: "Schedules" },
  { value: "recurring", label: "Recurring rows" },
  { value: "failing", label: "Failing ones" },
];
const STATES = [
  { value: "", label: "Enabled or not" },
  { value: "true", label: "Enabled" },
  { value: "false", label: "Disabled" },
];
const BY_CODE = "It is a recurring row, which its code changes: it can be enabled, disabled and run.";

export default function Schedules() {
  const [view, setView] = useUrlState({ task: "", enabled: "", kind: "", system: false, show: "", edit: "", new: "" });
  const [removing, setRemoving] = useState<ScheduleRecord | null>(null);
  const [running, setRunning] = useState<ScheduleRecord | null>(null);
  const [, navigate] = useLocation();
  const search = useSearch();
  const { can } = useRights();
  const list = usePages("/api/admin/schedules", {
    query: { task: view.task, enabled: view.enabled === "" ? undefined : view.enabled === "true", recurring: view.kind === "recurring" || undefined, failing: view.kind === "failing" || undefined, system: view.system || undefined },
  });
  const ids = useMemo(() => list.rows.filter((row) => row.record.timing.strategy !== "recurring").map((row) => row.record.id), [list.rows]);
  const firings = useFirings(ids);
  const enable = useAct("post", "/api/admin/schedules/{name}/enable", { done: (record) => `${labelOf(record)} is enabled` });
  const disable = useAct("post", "/api/admin/schedules/{name}/disable", { done: (record) => `${labelOf(record)} is disabled` });
  const run = useAct("post", "/api/admin/schedules/{name}/run", { toastErrors: false });
  const remove = useAct("delete", "/api/admin/schedules/{name}", { done: "Deleted", toastErrors: false });
  const busy = (record: ScheduleRecord) => [enable, disable].some((act) => act.isPending && act.variables?.path?.name === record.id);
  const edit = (record: ScheduleRecord) => setView({ edit: labelOf(record), show: "" });
  const isNew = view.new !== "";
  useKeys([{ keys: "n", does: "New schedule", run: () => setView({ new: "1" }), when: () => can("tasks.trigger") && !isNew }]);

  const toggle = (record: ScheduleRecord) => (
    <Switch label={`${labelOf(record)} is enabled`} hideLabel checked={record.enabled} op="schedules.change" busy={busy(record)} onChange={(on) => (on ? enable : disable).mutate({ path: { name: record.id } })} />
  );
  const items = (record: ScheduleRecord): (MenuItem | "-")[] => [
    { label: "Run now…", icon: "play", op: "tasks.trigger", onSelect: () => setRunning(record) },
    { label: "Edit…", icon: "edit", op: "schedules.change", disabledWhy: record.key !== null && BY_CODE, onSelect: () => edit(record) },
    { label: "Its jobs", icon: "jobs", onSelect: () => navigate(`/jobs?q=${encodeURIComponent(`task:${record.task}`)}`) },
    "-",
    { label: "Delete…", icon: "trash", danger: true, op: "schedules.change", disabledWhy: record.key !== null && BY_CODE, onSelect: () => setRemoving(record) },
  ];
  const columns: Column<Line>[] = [
    {
      key: "name",
      title: "Name",
      cell: ({ record, words }) => (
        <div className="min-w-0">
          <div className="flex min-w-0 items-center gap-2">
            <Link href={hrefWith("/schedules", search, { show: labelOf(record) })} className="truncate font-medium">
              {labelOf(record)}
            </Link>
            <Failing record={record} />
          </div>
          {record.key === null && record.task !== record.name && <div className="truncate font-mono text-xs text-muted">{record.task}</div>}
          <div className="truncate text-xs text-muted sm:hidden">{timingWords(record.timing, words)}</div>
        </div>
      ),
      truncate: true,
    },
    { key: "when", title: "When", cell: (line) => <When line={line} />, truncate: true, hideBelow: "sm" },
    { key: "on", title: "On", cell: ({ record }) => toggle(record), width: "3.5rem" },
    { key: "last", title: "Last", cell: (line) => <Last line={line} />, width: "12rem", hideBelow: "md" },
    { key: "next", title: "Next", cell: ({ record }) => <Next record={record} />, width: "6.5rem" },
    {
      key: "firings",
      title: `Last ${SHOWN}`,
      cell: ({ record }) => (record.timing.strategy === "recurring" ? <span className="text-faint">–</span> : <Strip label={`Last firings of ${labelOf(record)}`} marks={marksOf(firings.get(record.id) ?? [], record.timing.tz)} slots={SHOWN} />),
      width: "10.5rem",
      hideBelow: "lg",
    },
    { key: "acts", title: <span className="sr-only">Actions</span>, align: "right", cell: ({ record }) => <Menu label={`Actions for ${labelOf(record)}`} hideLabel small look="quiet" icon="dots" items={items(record)} />, width: "2.5rem" },
  ];
  const filtered = view.task !== "" || view.enabled !== "" || view.kind !== "";
  return (
    <Page
      title="Schedules"
      actions={
        <Button look="primary" icon="plus" op="tasks.trigger" onClick={() => setView({ new: "1" })}>
          New schedule
        </Button>
      }
    >
      <div className="flex flex-wrap items-start gap-2">
        <SearchBox label="Task" placeholder="Task, as send_invoice or send_*" value={view.task} onChange={(task) => setView({ task })} error={list.error?.field("task")} />
        <Select label="Which" hideLabel value={view.kind} options={KINDS} onChange={(kind) => setView({ kind })} className="w-36" />
        <Select label="Enabled" hideLabel value={view.enabled} options={STATES} onChange={(enabled) => setView({ enabled })} className="w-36" />
        <span className="flex h-7.5 items-center">
          <Checkbox label="Rota’s own" checked={view.system} onChange={(system) => setView({ system })} />
        </span>
      </div>
      <Table
        label="Schedules"
        list={list}
        columns={columns}
        rowKey={({ record }) => record.id}
        onOpen={({ record }) => setView({ show: labelOf(record) })}
        rowKeys={[
          { keys: "r", does: "Run it now", run: ({ record }) => can("tasks.trigger") && setRunning(record) },
          { keys: "e", does: "Edit it", run: ({ record }) => can("schedules.change") && record.key === null && edit(record) },
        ]}
        empty={filtered ? <Nothing onAll={() => setView({ task: "", enabled: "", kind: "" })} /> : <Teach onNew={() => setView({ new: "1" })} />}
      />
      {view.show && view.edit === "" && !isNew && (
        <Detail
          name={view.show}
          onClose={() => setView({ show: "" })}
          actions={(record) => (
            <>
              <span className="mr-auto inline-flex items-center gap-2">
                {toggle(record)} {record.enabled ? "Enabled" : "Disabled"}
              </span>
              <Button icon="trash" op="schedules.change" disabledWhy={record.key !== null && BY_CODE} onClick={() => setRemoving(record)}>
                Delete…
              </Button>
              <Button icon="edit" op="schedules.change" disabledWhy={record.key !== null && BY_CODE} onClick={() => edit(record)}>
                Edit…
              </Button>
              <Button look="primary" icon="play" op="tasks.trigger" onClick={() => setRunning(record)}>
                Run now…
              </Button>
            </>
          )}
        />
      )}
      {isNew && <Editor name={null} task={view.new === "1" ? "" : view.new} onClose={() => setView({ new: "" })} />}
      {view.edit && <Editor key={view.edit} name={view.edit} onClose={() => setView({ edit: "" })} />}
      {running && (
        <Confirm
          title={`Run ${labelOf(running)} now`}
          action="Run now"
          onClose={() => setRunning(null)}
          onConfirm={async () => {
            const { job_id: id } = await run.mutateAsync({ path: { name: running.id } });
            toast(`${labelOf(running)} is on its way`, id ? { action: { label: "Show the job", run: () => navigate(`/jobs/${id}`) } } : {});
          }}
        >
          {running.key === null ? "A job is enqueued now, beside its times; those stay as they are." : "The row becomes due now."}
          {!running.enabled && running.key === null && " It is disabled, and stays so."}
        </Confirm>
      )}
      {removing && (
        <Confirm title={`Delete ${labelOf(removing)}`} action="Delete" danger typed={labelOf(removing)} onClose={() => setRemoving(null)} onConfirm={async () => (await remove.mutateAsync({ path: { name: removing.id } }), setView({ show: "" }))}>
          <p>The schedule and its history are removed. Jobs that it has enqueued stay.</p>
          {removing.definition && (
            <p className="pt-2">
              <Badge tone="warn" icon="warning">
                Defined in code
              </Badge>{" "}
              It stays deleted over deploys. Its task’s page restores it.
            </p>
          )}
        </Confirm>
      )}
    </Page>
  );
}

function Nothing({ onAll }: { onAll: () => void }) {
  return (
    <Empty title="No schedule fits" icon="search" action={<Button onClick={onAll}>Show all</Button>}>
      Patterns may have * and ?. Recurring rows are listed when you ask for them, or for their task.
    </Empty>
  );
}

const SNIPPET = `from rota import Rota, cron

app = Rota()

@app.task(schedule=cron("0 9 * * mon-fri", tz="Europe/Berlin"))
def digest() -> None:
    ...`;

function Teach({ onNew }: { onNew: () => void }) {
  return (
    <Empty
      title="Nothing runs by itself yet"
      icon="schedules"
      snippet={SNIPPET}
      waiting="waiting for the first schedule…"
      action={
        <Button icon="plus" op="tasks.trigger" onClick={onNew}>
          Or make one here
        </Button>
      }
    >
      Give a task a schedule in code: a worker stores it when it starts.
    </Empty>
  );
}
