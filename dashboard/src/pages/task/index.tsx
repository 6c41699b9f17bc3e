/** One task: what code says, how it fares, what operators have set, and a form to run it. */

import { useAct, useApi } from "@/api";
import { useKeys } from "@/lib/keys";
import { useRights } from "@/lib/rights";
import { useName, useUrlState } from "@/lib/urlState";
import { Charts, Periods, periodOf } from "@/pages/overview/charts";
import { EnabledSwitch, TaskBadges, type TaskView, fieldsOf } from "@/pages/tasks/parts";
import { Badge, Button, Count, ErrorPanel, Facts, Link, LinkButton, Notice, Page, Section, Skeleton, Tabs, Time } from "@/ui";
import { Doc, PayloadSchema, Percentiles, RecentRuns, Schedules } from "./parts";
import { RunDialog } from "./run-dialog";
import { Settings, SettingsDialog } from "./settings";

export default function TaskPage() {
  const name = useName();
  const [view, setView] = useUrlState({ tab: "overview", period: "1h", run: false, edit: false });
  const { can } = useRights();
  const found = useApi("/api/admin/tasks/{name}", { path: { name } }, { keep: false, everyMs: 15_000 });
  useKeys([
    { keys: "r", does: "Run the task", run: () => setView({ run: true }, { replace: true }), when: () => can("tasks.trigger") && found.data !== undefined },
    { keys: "e", does: "Edit its settings", run: () => setView({ edit: true }, { replace: true }), when: () => can("tasks.change") && found.data !== undefined },
  ]);
  const task = found.data;
  if (!task) {
    return (
      <Page title={name} heading={name}>
        {found.error ? (
          <>
            <ErrorPanel problem={found.error} onRetry={() => void found.refetch()} />
            <div className="text-center">
              <LinkButton href="/tasks">All tasks</LinkButton>
            </div>
          </>
        ) : (
          <Skeleton lines={6} />
        )}
      </Page>
    );
  }
  const { record } = task;
  const period = periodOf(view.period);
  const overview = () => (
    <div className="flex flex-col gap-4">
      <div className="grid gap-x-8 gap-y-4 xl:grid-cols-[2fr_1fr]">
        <Doc record={record} />
        <About task={task} />
      </div>
      {can("runs.read") && (
        <>
          <Section title="How it fares" aside={<Periods value={period} onChange={(period) => setView({ period })} />}>
            <div className="flex flex-col gap-4">
              <Charts period={period} task={name} />
              <Percentiles name={name} />
            </div>
          </Section>
          <Section title="Recent runs" aside={<Link href={`/jobs?q=${encodeURIComponent(`task:${name}`)}`}>Its jobs</Link>}>
            <RecentRuns name={name} />
          </Section>
        </>
      )}
    </div>
  );
  return (
    <Page
      title={`Task ${name}`}
      heading={
        <span className="flex flex-wrap items-center gap-2">
          {name} <TaskBadges view={task} />
        </span>
      }
      lead={<Link href="/tasks">All tasks</Link>}
      actions={
        <>
          <EnabledSwitch view={task} />
          <Button look="primary" icon="play" op="tasks.trigger" disabledWhy={record.deleted_from_code_at !== null && "No code has it any more"} onClick={() => setView({ run: true }, { replace: true })}>
            Run
          </Button>
        </>
      }
    >
      {found.error && <ErrorPanel problem={found.error} onRetry={() => void found.refetch()} compact />}
      {!record.enabled && <DisabledNote task={task} />}
      {record.schedule_deleted_at !== null && can("schedules.read") && <DeletedSchedule name={name} at={record.schedule_deleted_at} />}
      <Tabs
        label="Task"
        value={view.tab}
        onChange={(tab) => setView({ tab })}
        tabs={[
          { id: "overview", label: "Overview", content: overview },
          { id: "settings", label: "Settings", count: Object.keys(record.overrides ?? {}).length || null, content: () => <Settings view={task} onEdit={() => setView({ edit: true }, { replace: true })} /> },
          { id: "schema", label: "Payload", content: () => <PayloadSchema record={record} /> },
          ...(can("schedules.read") ? [{ id: "schedules", label: "Schedules", content: () => <Schedules name={name} /> }] : []),
        ]}
      />
      {view.run && <RunDialog view={task} onClose={() => setView({ run: false }, { replace: true })} />}
      {view.edit && <SettingsDialog name={name} onClose={() => setView({ edit: false }, { replace: true })} />}
    </Page>
  );
}

function DisabledNote({ task: { record, held } }: { task: TaskView }) {
  return (
    <Notice tone="warn" icon="pause">
      Disabled <Time at={record.disabled_at} empty="" />
      {record.disabled_by ? ` by ${record.disabled_by}` : ""}
      {record.disable_reason ? `: ${record.disable_reason}` : ""}
      {held && held.count > 0 && (
        <>
          {" · "}
          <Count value={held.count} capped={held.capped} /> of its jobs wait
        </>
      )}
    </Notice>
  );
}

/** The schedule that code gives the task was deleted, and can be restored. */
function DeletedSchedule({ name, at }: { name: string; at: string }) {
  const restore = useAct("post", "/api/admin/schedules/{name}/restore", { done: "Schedule restored" });
  return (
    <Notice tone="warn" icon="clock">
      <span className="inline-flex flex-wrap items-center gap-2">
        <span>
          Schedule deleted <Time at={at} />
        </span>
        <Button op="schedules.change" busy={restore.isPending} onClick={() => restore.mutate({ path: { name } })}>
          Restore schedule
        </Button>
      </span>
    </Notice>
  );
}

function About({ task: { record, workers } }: { task: TaskView }) {
  return (
    <Facts
      items={[
        ["Queue", <Link href={`/queues/${encodeURIComponent(record.queue)}`}>{record.queue}</Link>],
        ["Runs", record.strategy === "recurring" ? "one row for each key, again and again" : record.run_once ? "once" : record.strategy === "init" ? "at each sync" : "when it is enqueued"],
        ["Live workers", workers === 0 ? "none knows it" : workers],
        record.listens.length > 0 && ["Listens to", record.listens.join(", ")],
        record.tags.length > 0 && [
          "Tags",
          <span className="flex flex-wrap gap-1">
            {record.tags.map((tag) => (
              <Badge key={tag}>{tag}</Badge>
            ))}
          </span>,
        ],
        fieldsOf(record).length > 0 && [
          "Fields",
          <span className="flex flex-wrap gap-1">
            {fieldsOf(record).map((field) => (
              <Badge key={field}>{field}</Badge>
            ))}
          </span>,
        ],
        record.concurrency_key !== null && ["Limited by key", <code className="font-mono text-xs">{record.concurrency_key}</code>],
        ["Synced", <Time at={record.synced_at} />],
        record.deleted_from_code_at !== null && ["Gone from code", <Time at={record.deleted_from_code_at} />],
      ]}
    />
  );
}
