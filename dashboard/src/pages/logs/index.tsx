/** What handlers have said: searched, and followed as it comes. */

import { useMemo } from "react";
import { get } from "@/api";
import { useKeys } from "@/lib/keys";
import { useRights } from "@/lib/rights";
import { useUrlState } from "@/lib/urlState";
import { Badge, Button, Empty, ErrorPanel, IconButton, Input, Page, type Qualifier, SearchBox, Select, Skeleton } from "@/ui";
import { useReading } from "@/ui/still";
import { LogLine } from "./line";
import { type Filter, keyOf, useLines } from "./lines";

const LEVELS = ["debug", "info", "warning", "error", "critical"] as const;
const LEVEL_OPTIONS = [{ value: "", label: "All levels" }, ...LEVELS.map((level) => ({ value: level, label: level === "critical" ? "critical" : `${level} or worse` }))];
const SINCE = [
  { value: "", label: "Any time" },
  { value: "15m", label: "Last 15 minutes" },
  { value: "1h", label: "Last hour" },
  { value: "24h", label: "Last day" },
  { value: "7d", label: "Last week" },
];

export default function Logs() {
  const [view, setView] = useUrlState({ q: "", level: "", task: "", job: "", attempt: 0, since: "", until: "", follow: true });
  const { can, why } = useRights();
  const filter = useMemo(
    (): Filter => ({
      text: view.q || undefined,
      task: view.task || undefined,
      level: LEVELS.find((level) => level === view.level),
      job_id: view.job || undefined,
      attempt: view.job && view.attempt > 0 ? view.attempt : undefined,
      since: view.since || undefined,
      until: view.until || undefined,
    }),
    [view.q, view.task, view.level, view.job, view.attempt, view.since, view.until],
  );
  if (!can("logs.read")) {
    return (
      <Page title="Logs">
        <Empty title="You may not see logs" icon="lock">
          {why("logs.read")}
        </Empty>
      </Page>
    );
  }
  return (
    <Page title="Logs">
      <Filters view={view} setView={setView} />
      <Found filter={filter} view={view} setView={setView} />
    </Page>
  );
}

interface View {
  q: string;
  level: string;
  task: string;
  job: string;
  attempt: number;
  since: string;
  until: string;
  follow: boolean;
}
interface ViewProps {
  view: View;
  setView: (change: Partial<View>, options?: { replace?: boolean }) => void;
}

const WORDS: Qualifier[] = [];

function Filters({ view, setView }: ViewProps) {
  const tasks = useMemo((): Qualifier[] => [{ name: "task", help: "of this task", values: async (typed) => (await get("/api/admin/jobs/values", { query: { of: "task", text: typed } })).items }], []);
  // One box: `task:` is taken out of it into its own place in the address.
  const take = (text: string) => {
    const task = /(?:^|\s)task:("[^"]*"|\S+)/.exec(text);
    if (!task) return setView({ q: text });
    setView({ q: text.replace(task[0], " ").trim(), task: task[1]!.replace(/^"|"$/g, "") });
  };
  return (
    <div className="flex flex-wrap items-start gap-2">
      <SearchBox label="Search the logs" placeholder='Words, "a phrase", -without, task:send_mail' value={view.q} onChange={take} qualifiers={view.task ? WORDS : tasks} />
      {view.task && <Chip label={`task: ${view.task}`} onRemove={() => setView({ task: "" })} />}
      {view.job && <Chip label={`job: ${view.job.slice(-8)}${view.attempt > 0 ? `, attempt ${view.attempt}` : ""}`} onRemove={() => setView({ job: "", attempt: 0 })} />}
      <Select label="Level" hideLabel value={view.level} options={LEVEL_OPTIONS} onChange={(level) => setView({ level })} className="w-36" />
      <Select label="Since" hideLabel value={view.since} options={SINCE.some((each) => each.value === view.since) ? SINCE : [...SINCE, { value: view.since, label: `Since ${view.since}` }]} onChange={(since) => setView({ since })} className="w-36" />
      <Until value={view.until} onChange={(until) => setView({ until })} />
    </div>
  );
}

/** Back in time: lines before this. The address has UTC. */
function Until({ value, onChange }: { value: string; onChange: (until: string) => void }) {
  const at = value ? new Date(value) : null;
  const shown = at && !Number.isNaN(at.getTime()) ? new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16) : "";
  return (
    <div className="flex items-center gap-1.5">
      <span aria-hidden className="text-xs text-muted">
        before
      </span>
      <Input label="Before" hideLabel title="Only lines before this time, on your clocks" type="datetime-local" value={shown} onChange={(text) => onChange(text && !Number.isNaN(Date.parse(text)) ? new Date(text).toISOString() : "")} className="w-46" />
      {value && <IconButton small icon="cross" label="Up to now" onClick={() => onChange("")} />}
    </div>
  );
}

function Chip({ label, onRemove }: { label: string; onRemove: () => void }) {
  return (
    <span className="inline-flex h-7.5 max-w-64 items-center gap-1 rounded-md bg-accent-soft pl-2 text-xs text-accent">
      <span className="truncate font-mono">{label}</span>
      <IconButton small icon="cross" label={`Remove ${label}`} onClick={onRemove} />
    </span>
  );
}

function Found({ filter, view, setView }: ViewProps & { filter: Filter }) {
  const reader = useReading();
  const reading = view.follow && reader.reading;
  const lines = useLines(filter, view.follow && !reading);
  const live = !view.until;
  const follow = (on: boolean) => setView({ follow: on }, { replace: true });
  useKeys([
    { keys: "f", does: view.follow ? "Pause" : "Follow new lines", run: () => follow(!view.follow), when: () => live },
    { keys: "r", does: "Look again", run: lines.restart },
  ]);
  const filtered = Object.values(filter).some((each) => each !== undefined);
  return (
    <>
      <div className="flex min-h-7.5 flex-wrap items-center gap-2 border-b pb-2">
        {live ? (
          <>
            <Button icon={view.follow ? "pause" : "play"} onClick={() => follow(!view.follow)}>
              {view.follow ? "Pause" : "Follow"}
            </Button>
            <span role="status" className="inline-flex items-center gap-2 text-muted">
              {reading ? <Badge icon="pause" title="Lines hold still under the pointer and when you have scrolled down">Waiting while you read</Badge> : view.follow ? <Badge tone={lines.followProblem ? "warn" : "ok"} icon={lines.followProblem ? "warning" : "play"}>{lines.followProblem ? "Trying again" : "Following"}</Badge> : <Badge tone="warn" icon="pause">Paused</Badge>}
              {lines.followProblem && <span className="text-xs text-warn wrap-anywhere">{lines.followProblem.message}</span>}
            </span>
            {(!view.follow || reading) && lines.held > 0 && (
              <Button
                small
                look="primary"
                onClick={() => {
                  follow(true);
                  reader.toTop();
                }}
              >
                Show {lines.held} new {lines.held === 1 ? "line" : "lines"}
              </Button>
            )}
          </>
        ) : (
          <span className="text-muted">Lines before the time that you chose; new ones are not followed.</span>
        )}
        <span className="ml-auto text-xs text-muted">Newest first</span>
      </div>
      {lines.error && <ErrorPanel problem={lines.error} onRetry={lines.refetch} compact={lines.rows.length > 0} />}
      {lines.loading && <Skeleton lines={10} />}
      {!lines.loading && !lines.error && lines.rows.length === 0 && !lines.hasMore && (filtered ? <Nothing onAll={() => setView({ q: "", level: "", task: "", job: "", attempt: 0, since: "", until: "" })} /> : <Teach />)}
      <ol ref={reader.frame} {...reader.handlers} aria-label="Log lines" aria-busy={lines.fetching} className={lines.rows.length === 0 ? "hidden" : undefined}>
        {lines.rows.map((line) => (
          <LogLine key={keyOf(line)} line={line} withTask={!view.task} />
        ))}
      </ol>
      <div className="flex justify-center py-2">
        {lines.gap && (
          <span className="flex flex-wrap items-center justify-center gap-2 text-muted">
            So many lines came that older ones were let go here.
            <Button small onClick={lines.restart}>
              Load them again
            </Button>
          </span>
        )}
        {lines.hasMore && (
          <Button look="quiet" onClick={lines.loadMore} busy={lines.loadingMore}>
            Show older lines
          </Button>
        )}
      </div>
    </>
  );
}

function Nothing({ onAll }: { onAll: () => void }) {
  return (
    <Empty title="No line fits" icon="search" action={<Button onClick={onAll}>Show all lines</Button>}>
      Whole words are looked for. New lines that fit come here by themselves.
    </Empty>
  );
}

const SNIPPET = `@app.task
def send_invoice(ctx: Context, user_id: int) -> None:
    ctx.log.info("sent", user_id=user_id)`;

function Teach() {
  return (
    <Empty title="No task has said anything yet" icon="logs" snippet={SNIPPET} waiting="waiting for the first line…">
      What handlers log, with ctx.log or the logging module, is kept with its job.
    </Empty>
  );
}
