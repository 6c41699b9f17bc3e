/** Errors: failures in groups of the same kind; one group with its jobs. */

import { get, type ItemOf, usePages } from "@/api";
import { useUrlState } from "@/lib/urlState";
import { Button, type Column, Count, Empty, Link, Page, type Qualifier, SearchBox, Select, Table, Time } from "@/ui";
import { Group } from "./group";

type ErrorGroup = ItemOf<"/api/admin/errors">;

export const groupHref = (fingerprint: string) => `/errors?group=${encodeURIComponent(fingerprint)}`;

const PERIODS = [
  { value: "", label: "all that is kept" },
  { value: "1h", label: "last hour" },
  { value: "24h", label: "last 24 hours" },
  { value: "7d", label: "last 7 days" },
];

const COLUMNS: Column<ErrorGroup>[] = [
  { key: "error", title: "Error", truncate: true, width: "100%", cell: (group) => <What group={group} /> },
  { key: "tasks", title: "Tasks", width: "13rem", hideBelow: "md", cell: (group) => <Tasks names={group.tasks} /> },
  { key: "count", title: "Failures", width: "5rem", align: "right", cell: (group) => <Count value={group.count.count} capped={group.count.capped} /> },
  { key: "first", title: "First seen", width: "7rem", hideBelow: "lg", cell: (group) => <Time at={group.first_seen} /> },
  { key: "last", title: "Last seen", width: "7rem", hideBelow: "sm", cell: (group) => <Time at={group.last_seen} /> },
];

// Completes the one thing that is searched by: the name of a task, without a qualifier before it.
const TASK: Qualifier[] = [{ name: "task", help: "of this task, or a pattern: send_*", values: async (text) => (await get("/api/admin/jobs/values", { query: { of: "task", text } })).items }];

export default function Errors() {
  const [view, setView] = useUrlState({ task: "", since: "", group: "" });
  if (view.group) return <Group key={view.group} fingerprint={view.group} onBack={() => setView({ group: "" })} />;
  return <Groups view={view} onView={setView} />;
}

interface GroupsProps {
  view: { task: string; since: string };
  onView: (change: { task?: string; since?: string; group?: string }) => void;
}

function Groups({ view, onView }: GroupsProps) {
  const list = usePages("/api/admin/errors", { query: { task: view.task, since: view.since } });
  const narrowed = view.task !== "" || view.since !== "";
  const q = view.task ? `task:${view.task}` : "";
  return (
    <Page title="Errors" lead="Failures of the same kind, in the same place, are one group.">
      <div className="flex flex-wrap items-start gap-2">
        <div className="min-w-60 flex-1">
          <SearchBox label="Search errors by task" value={q} onChange={(text) => onView({ task: text.replace(/^task:/, "").trim() })} qualifiers={TASK} placeholder="task:send_*" error={list.error?.field("task") ?? list.error?.field("query.task")} />
        </div>
        <Select label="Seen in" hideLabel value={view.since} onChange={(since) => onView({ since })} options={PERIODS.some((each) => each.value === view.since) ? PERIODS : [...PERIODS, { value: view.since, label: `since ${view.since}` }]} />
      </div>
      <Table
        label="Error groups"
        list={list}
        columns={COLUMNS}
        rowKey={(group) => group.fingerprint}
        onOpen={(group) => onView({ group: group.fingerprint })}
        empty={
          narrowed ? (
            <Empty title="No error matches" icon="search" action={<Button onClick={() => onView({ task: "", since: "" })}>Show all errors</Button>} />
          ) : (
            <Empty title="Nothing has failed" icon="check">
              When an attempt fails, it is grouped by its type and by where in your code it came from, so that a storm is one line.
            </Empty>
          )
        }
      />
    </Page>
  );
}

function What({ group }: { group: ErrorGroup }) {
  return (
    <span className="flex min-w-0 items-baseline gap-x-2 max-sm:flex-col">
      <Link href={groupHref(group.fingerprint)} className="max-w-full shrink-0 truncate font-medium !text-text hover:!text-accent">
        {group.type}
      </Link>
      <span className="max-w-full truncate text-xs text-muted" title={group.message}>
        {group.message}
      </span>
    </span>
  );
}

function Tasks({ names }: { names: string[] }) {
  return (
    <span className="block max-w-52 truncate" title={names.join(", ")}>
      {names.slice(0, 2).join(", ")}
      {names.length > 2 && <span className="text-muted"> and {names.length - 2} more</span>}
    </span>
  );
}
