/** Jobs: search, facets, selection, and a peek at one. */

import { type ReactNode, useEffect, useState } from "react";
import { useSearch } from "wouter";
import { get, useAct, useApi, usePages } from "@/api";
import { cx } from "@/lib/classes";
import { count, shortCount } from "@/lib/format";
import { useKeys } from "@/lib/keys";
import { useRights } from "@/lib/rights";
import { toast } from "@/lib/toasts";
import { useUrlState } from "@/lib/urlState";
import { Button, type Column, Empty, IconButton, Page, type Qualifier, SearchBox, Switch, Table } from "@/ui";
import { CancelDialog } from "../job/dialogs";
import { type Action, type Bulk, BulkDialog } from "./bulk";
import { BY_ID, COLUMNS, type Job } from "./columns";
import { whyNoCancel, whyNoRetry } from "./doable";
import { FacetList } from "./facets";
import { NoJobs, QueryHelp } from "./nothing";
import { Peek } from "./peek";
import { STATES, fromShort, valuesOf } from "./query";

const QUALIFIERS: Qualifier[] = [
  { name: "state", help: "in one of these states", values: STATES, several: true },
  { name: "task", help: "of this task, or a pattern: send_*", values: (text) => names("task", text) },
  { name: "queue", help: "in this queue", values: (text) => names("queue", text) },
  { name: "payload.", help: "with this in the payload: payload.user.id:42" },
  { name: "since", help: "created since", values: ["15m", "1h", "6h", "24h", "7d"] },
  { name: "until", help: "created before", values: ["1h", "24h", "7d"] },
  { name: "key", help: "with this idempotency key" },
  { name: "owner", help: "of this account" },
  { name: "error", help: "of this group of errors" },
  { name: "text", help: "with this in the error" },
];

async function names(of: "task" | "queue", text: string): Promise<readonly string[]> {
  return (await get("/api/admin/jobs/values", { query: { of, text } })).items;
}

const COUNT_MS = 5_000;

export default function Jobs() {
  useShortNames();
  const [view, setView] = useUrlState({ q: "", peek: "", live: true });
  const [selected, setSelected] = useState(new Map<string, Job>());
  const [bulk, setBulk] = useState<Bulk | null>(null);
  const [canceling, setCanceling] = useState<Job | null>(null);
  const [narrow, setNarrow] = useState(false);
  const rights = useRights();
  const may = rights.can("jobs.change");
  const list = usePages("/api/admin/jobs", { query: { q: view.q } }, view.live ? { byKey: BY_ID } : { live: [] });
  // Counting is expensive, and counts that are a few seconds old are good enough here.
  const facets = useApi("/api/admin/jobs/facets", { query: { q: view.q } }, view.live ? { calmMs: COUNT_MS } : { live: [] });
  const retry = useAct("post", "/api/admin/jobs/{id}/retry", { done: (job) => `Retried ${job.task}` });

  useEffect(() => setSelected(new Map()), [view.q]);
  const setQ = (q: string) => setView({ q });
  const bad = list.error?.code === "query" || list.error?.field("q") !== undefined ? (list.error.field("q") ?? list.error.message) : null;
  const [shown, setShown] = useState<Job[]>([]);
  const known = shown.map((job) => job.id);
  const select = (ids: Set<string>) => {
    const rows = new Map(shown.map((job) => [job.id, job]));
    setSelected(new Map([...ids].flatMap((id) => (rows.has(id) ? [[id, rows.get(id)!] as const] : selected.has(id) ? [[id, selected.get(id)!] as const] : []))));
  };
  const one = (action: Action, job: Job) => {
    const why = !may ? rights.why("jobs.change") : action === "retry" ? whyNoRetry(job) : whyNoCancel(job);
    if (why) return toast(why, { kind: "info" });
    if (action === "retry") retry.mutate({ path: { id: job.id } });
    else setCanceling(job);
  };
  const several = (action: Action) => (may ? setBulk({ action, jobs: [...selected.values()].map((job) => shown.find((each) => each.id === job.id) ?? job) }) : toast(rights.why("jobs.change"), { kind: "info" }));
  useKeys([
    { keys: "r", does: "Retry what is selected, or the row", run: () => several("retry"), when: () => selected.size > 0, group: "Lists" },
    { keys: "c", does: "Cancel what is selected, or the row", run: () => several("cancel"), when: () => selected.size > 0, group: "Lists" },
  ]);

  const columns: Column<Job>[] = [...COLUMNS, { key: "do", title: <span className="sr-only">Actions</span>, width: "2.5rem", align: "right", cell: (job) => <span className="flex justify-end"><RowAction job={job} onAct={(action) => one(action, job)} /></span> }];
  const total = totalOf(facets.data, view.q, list);
  return (
    <Page
      title="Jobs"
      actions={
        <>
          <Switch label="Live" checked={view.live} onChange={(live) => setView({ live }, { replace: true })} />
          {!view.live && <IconButton label="Refresh" icon="retry" busy={list.fetching} onClick={() => (list.refetch(), void facets.refetch())} />}
        </>
      }
    >
      <div className="flex items-start gap-2">
        <SearchBox label="Search jobs" value={view.q} onChange={setQ} qualifiers={QUALIFIERS} placeholder="state:failed task:send_* payload.user_id:42 since:1h" error={bad} />
        <Button icon="filter" className="lg:hidden" aria-expanded={narrow} onClick={() => setNarrow(!narrow)}>
          Filters
        </Button>
      </div>
      <div className="flex gap-6 max-lg:flex-col">
        <aside aria-label="Filters" className={narrow ? "shrink-0 lg:w-48" : "shrink-0 max-lg:hidden lg:w-48"}>
          <FacetList facets={facets.data} q={view.q} onChange={setQ} />
        </aside>
        <div className="min-w-0 grow">
          <Toolbar stays={selected.size > 0}>
            {selected.size > 0 ? (
              <SelectionBar selected={selected} shown={known} total={total} narrowed={view.q !== ""} mayAll={list.hasMore} onAct={several} onAll={(action) => setBulk({ action, filter: { q: view.q }, words: "that match" })} onNone={() => setSelected(new Map())} />
            ) : (
              <p className="px-2 py-2 text-muted">{total && `${totalWords(total)} ${total.count === 1 && !total.capped ? "job" : "jobs"}${view.q ? " found" : ""}`}</p>
            )}
          </Toolbar>
          {bad ? (
            <QueryHelp />
          ) : (
            <Table
              label="Jobs"
              list={list}
              columns={columns}
              rowKey={(job) => job.id}
              onOpen={(job) => setView({ peek: job.id }, { replace: view.peek !== "" })}
              current={view.peek || null}
              onRows={setShown}
              selection={{ selected: new Set(selected.keys()), onChange: select }}
              rowKeys={[
                { keys: "r", does: "Retry the row", run: (job) => one("retry", job) },
                { keys: "c", does: "Cancel the row", run: (job) => one("cancel", job) },
              ]}
              empty={view.q ? <Empty title="No job matches" icon="search" action={<Button onClick={() => setQ("")}>Show all jobs</Button>}>Old jobs are removed after a while, and may have been here.</Empty> : <NoJobs />}
            />
          )}
        </div>
      </div>
      {view.peek && !bulk && !canceling && <Peek id={view.peek} among={known} onGo={(peek) => setView({ peek }, { replace: true })} onClose={() => setView({ peek: "" }, { replace: true })} />}
      {bulk && (
        <BulkDialog
          bulk={bulk}
          onClose={() => {
            setBulk(null);
            setSelected(new Map());
          }}
        />
      )}
      {canceling && <CancelDialog job={canceling} onClose={() => setCanceling(null)} />}
    </Page>
  );
}

/** Above the rows, as high with a selection as without, so that no row moves when one is selected. */
function Toolbar({ stays, children }: { stays: boolean; children: ReactNode }) {
  return (
    <div className={cx("h-10", stays && "sticky top-0 z-20")}>
      <div className="absolute inset-x-0 top-0">{children}</div>
    </div>
  );
}

function RowAction({ job, onAct }: { job: Job; onAct: (action: Action) => void }) {
  if (job.state === "failed" || job.state === "canceled") return <IconButton small label="Retry" icon="retry" op="jobs.change" onClick={() => onAct("retry")} />;
  if (whyNoCancel(job) === null) return <IconButton small label="Cancel" icon="ban" op="jobs.change" onClick={() => onAct("cancel")} />;
  return null;
}

interface BarProps {
  selected: Map<string, Job>;
  shown: string[];
  total: Capped | null;
  narrowed: boolean;
  mayAll: boolean;
  onAct: (action: Action) => void;
  onAll: (action: Action) => void;
  onNone: () => void;
}

function SelectionBar({ selected, shown, total, narrowed, mayAll, onAct, onAll, onNone }: BarProps) {
  const [all, setAll] = useState(false);
  const everyRow = shown.length > 0 && shown.every((id) => selected.has(id));
  const gone = [...selected.keys()].filter((id) => !shown.includes(id)).length;
  const go = (action: Action) => (all ? onAll(action) : onAct(action));
  useEffect(() => setAll(false), [selected]);
  return (
    <div role="region" aria-label="Selection" className="flex min-h-9 flex-wrap items-center gap-2 rounded-md border bg-raised px-3 py-1">
      <span className="font-medium" role="status">
        {all ? (total ? `All ${totalWords(total)} that match` : "All that match") : `${selected.size} selected`}
      </span>
      {!all && gone > 0 && <span className="text-xs text-muted">{gone} of them not shown any more</span>}
      {everyRow && mayAll && !all && (
        <Button small look="quiet" onClick={() => setAll(true)} disabledWhy={!narrowed && "Search for something first: a change to every job there is takes a filter"}>
          Select all that match
        </Button>
      )}
      <span className="ml-auto flex items-center gap-2">
        <Button small collapse icon="retry" op="jobs.change" onClick={() => go("retry")}>
          Retry
        </Button>
        <Button small collapse icon="ban" op="jobs.change" onClick={() => go("cancel")}>
          Cancel
        </Button>
        <IconButton small label="Select none" icon="cross" onClick={onNone} />
      </span>
    </div>
  );
}

type Capped = { count: number; capped: boolean; estimated: boolean };

/** How many jobs match: counted by state, or as many as were found, where that is more or all of them. */
export function totalOf(facets: { states: Record<string, Capped | undefined> } | undefined, q: string, list: { rows: unknown[]; hasMore: boolean; loading: boolean; error: unknown }): Capped | null {
  if (!list.loading && !list.hasMore && !list.error) return { count: list.rows.length, capped: false, estimated: false };
  if (!facets) return null;
  const asked = valuesOf(q, "state");
  const parts = STATES.filter((state) => asked.length === 0 || asked.includes(state)).flatMap((state) => facets.states[state] ?? []);
  const counted = parts.reduce((sum, part) => sum + part.count, 0);
  if (!parts.some((part) => part.capped)) return { count: counted, capped: false, estimated: parts.some((part) => part.estimated) };
  const known = Math.max(counted, list.rows.length);
  return known === 0 ? null : { count: known, capped: true, estimated: false };
}

function totalWords({ count: known, capped, estimated }: Capped): string {
  return capped ? `more than ${count(known)}` : estimated ? `about ${shortCount(known)}` : count(known);
}

/** Links from other pages say `?state=failed`; here all of it stands in the one search. */
function useShortNames(): void {
  const search = useSearch();
  const [, setView] = useUrlState({ q: "", state: "", task: "", queue: "", key: "", owner: "", error: "", since: "", until: "", text: "" });
  useEffect(() => {
    const q = fromShort(search);
    if (q !== null) setView({ q, state: "", task: "", queue: "", key: "", owner: "", error: "", since: "", until: "", text: "" }, { replace: true });
  }, [search, setView]);
}
