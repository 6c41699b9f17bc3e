/** What a job's handler has said: followed while it runs, by level, with search. */

import { useLayoutEffect, useRef } from "react";
import type { Schema } from "@/api";
import { cx } from "@/lib/classes";
import { local } from "@/lib/format";
import { toJson } from "@/lib/json";
import { useRights } from "@/lib/rights";
import { Button, Empty, ErrorPanel, Notice, SearchBox, Select, Skeleton, Switch } from "@/ui";
import { type LogFilter, useLog } from "./follow";

type Line = Schema<"LogLine">;
export interface LogView {
  level: string;
  text: string;
  attempt: number;
  follow: boolean;
}

const LEVELS = ["debug", "info", "warning", "error", "critical"] as const;

interface LogsProps {
  id: string;
  /** Whether something can still come. */
  live: boolean;
  attempts: number;
  view: LogView;
  onView: (change: Partial<LogView>) => void;
}

export function Logs(props: LogsProps) {
  const { can, why } = useRights();
  return can("logs.read") ? <Lines {...props} /> : <Notice icon="lock">{why("logs.read")}</Notice>;
}

function Lines({ id, live, attempts, view, onView }: LogsProps) {
  const level = LEVELS.find((each) => each === view.level);
  const filter: LogFilter = { job_id: id, ...(view.attempt ? { attempt: view.attempt } : {}), ...(level ? { level } : {}), ...(view.text ? { text: view.text } : {}) };
  const following = live && view.follow;
  const { lines, before, problem } = useLog(filter, following);
  const narrowed = Boolean(level || view.text || view.attempt);
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-2">
        <div className="min-w-48 flex-1">
          <SearchBox label="Search the log" value={view.text} onChange={(text) => onView({ text })} placeholder={'words, "a phrase", -without'} slash={false} error={before.error?.field("text")} />
        </div>
        <Select label="Level" hideLabel value={level ?? ""} onChange={(each) => onView({ level: each })} options={[{ value: "", label: "all levels" }, ...LEVELS.map((each) => ({ value: each, label: each === "critical" ? each : `${each} and worse` }))]} />
        {attempts > 1 && (
          <Select label="Attempt" hideLabel value={String(view.attempt)} onChange={(each) => onView({ attempt: Number(each) })} options={[{ value: "0", label: "all attempts" }, ...Array.from({ length: Math.min(attempts, 200) }, (_, index) => ({ value: String(attempts - index), label: `attempt ${attempts - index}` }))]} />
        )}
        <Switch label="Follow" checked={following} onChange={(follow) => onView({ follow })} disabledWhy={!live && "The job has ended: nothing more comes"} />
      </div>
      {problem && <ErrorPanel problem={problem} compact />}
      {before.error && lines.length === 0 ? (
        <ErrorPanel problem={before.error} onRetry={before.refetch} />
      ) : before.loading ? (
        <Skeleton lines={6} />
      ) : lines.length === 0 ? (
        narrowed ? (
          <Empty title="No line matches" icon="search" action={<Button onClick={() => onView({ text: "", level: "", attempt: 0 })}>Show all lines</Button>} />
        ) : (
          <Empty title="Nothing was logged" icon="logs" snippet={'@app.task\nasync def send(ctx: Context, to: str) -> None:\n    ctx.log.info("sent", to=to)'} waiting={live ? "waiting for the first line…" : undefined} />
        )
      ) : (
        <Pane lines={lines} following={following} more={before.hasMore} loadingMore={before.loadingMore} onMore={before.loadMore} />
      )}
    </div>
  );
}

function Pane({ lines, following, more, loadingMore, onMore }: { lines: Line[]; following: boolean; more: boolean; loadingMore: boolean; onMore: () => void }) {
  const pane = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const last = lines.at(-1);
  // New lines pull the view along, unless somebody has scrolled up to read.
  useLayoutEffect(() => {
    const box = pane.current;
    if (box && following && atEnd.current) box.scrollTop = box.scrollHeight;
  }, [last, following]);
  return (
    <div
      ref={pane}
      role="log"
      aria-label="Log"
      aria-live="off"
      tabIndex={0}
      onScroll={({ currentTarget: box }) => {
        atEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
      }}
      className="max-h-[65vh] overflow-auto rounded-md border bg-sunken py-1 font-mono text-xs leading-5"
    >
      {more && (
        <div className="flex justify-center py-1">
          <Button small look="quiet" busy={loadingMore} onClick={onMore}>
            Show earlier lines
          </Button>
        </div>
      )}
      {lines.map((line, index) => (
        <div key={`${line.attempt}/${line.sequence}`}>
          {line.attempt !== lines[index - 1]?.attempt && <div className={cx("px-3 py-0.5 text-2xs text-faint", index > 0 && "mt-1 border-t")}>attempt {line.attempt}</div>}
          <LineRow line={line} />
        </div>
      ))}
    </div>
  );
}

function LineRow({ line }: { line: Line }) {
  const name = levelName(line.level);
  const tone = line.level >= 40 ? "text-bad" : line.level >= 30 ? "text-warn" : line.level < 20 ? "text-faint" : "text-info";
  return (
    <div className="flex gap-3 px-3 hover:bg-hover max-sm:flex-wrap max-sm:gap-x-2 max-sm:gap-y-0">
      <time dateTime={line.at} title={line.at} className="shrink-0 text-faint">
        {local(line.at, undefined, "clock")}
      </time>
      <span className={cx("w-14 shrink-0", tone)}>{name}</span>
      <span className="min-w-0 wrap-anywhere whitespace-pre-wrap">
        {line.message}
        {line.fields &&
          Object.entries(line.fields).map(([key, value]) => (
            <span key={key} className="text-muted">
              {" "}
              <span className="text-accent">{key}</span>={typeof value === "string" ? value : toJson(value)}
            </span>
          ))}
      </span>
    </div>
  );
}

function levelName(level: number): string {
  return level >= 50 ? "critical" : level >= 40 ? "error" : level >= 30 ? "warning" : level >= 20 ? "info" : "debug";
}
