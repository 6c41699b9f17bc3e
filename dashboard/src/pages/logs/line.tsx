/** One line of a log. */

import { memo, useState } from "react";
import { cx } from "@/lib/classes";
import { local } from "@/lib/format";
import { toJson } from "@/lib/json";
import { Icon, Json, Link, stateLook } from "@/ui";
import type { Line } from "./lines";

const LEVELS: [least: number, name: string][] = [
  [50, "critical"],
  [40, "error"],
  [30, "warning"],
  [20, "info"],
  [0, "debug"],
];
const TEXT = { neutral: "text-muted", ok: "text-ok", warn: "text-warn", bad: "text-bad", info: "text-info", accent: "text-accent" };

/** The level as people call it; one in between is the one below. */
export function levelName(level: number): string {
  return LEVELS.find(([least]) => level >= least)?.[1] ?? "debug";
}

/** Time, level, task and message; its fields unfold. Everything of it is text. */
export const LogLine = memo(function LogLine({ line, withTask }: { line: Line; withTask: boolean }) {
  const [open, setOpen] = useState(false);
  const [day, clock] = local(line.at).split(" ");
  const name = levelName(line.level);
  const { tone, icon } = stateLook(name);
  const fields = line.fields && Object.keys(line.fields).length > 0 ? line.fields : null;
  return (
    <li data-row className={cx("border-b px-2 py-1 [contain-intrinsic-size:auto_28px] [content-visibility:auto] hover:bg-hover", (tone === "bad" || tone === "warn") && "border-l-2", tone === "bad" && "border-l-bad", tone === "warn" && "border-l-warn")}>
      <div className="flex flex-wrap items-start gap-x-2 leading-5 sm:gap-x-3 md:flex-nowrap">
        <time dateTime={line.at} title={`${line.at} (UTC)`} className="shrink-0 font-mono text-xs leading-5 whitespace-nowrap text-muted">
          <span className="max-sm:hidden">{day} </span>
          {clock}
        </time>
        <span className={cx("inline-flex shrink-0 sm:w-18 items-center gap-1 text-xs leading-5 font-medium", TEXT[tone])}>
          <Icon name={icon} size={12} />
          {name}
        </span>
        {withTask && <span className="max-w-28 truncate sm:max-w-48 font-mono text-xs leading-5 text-muted">{line.task}</span>}
        <Link href={`/jobs/${line.job_id}?tab=logs`} className="ml-auto shrink-0 font-mono text-xs leading-5 md:order-last" title={`Job ${line.job_id}, attempt ${line.attempt}`}>
          {line.job_id.slice(-8)}/{line.attempt}
        </Link>
        <span className="min-w-0 basis-full font-mono text-xs leading-5 wrap-anywhere whitespace-pre-wrap md:grow md:basis-0">
          {line.message}
          {fields && (
            <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="ml-2 inline text-left text-muted wrap-anywhere hover:text-text">
              <Icon name={open ? "down" : "right"} size={10} className="mr-0.5 inline" />
              <span className="sr-only">Fields: </span>
              {open ? "fields" : inline(fields)}
            </button>
          )}
        </span>
      </div>
      {open && fields && (
        <div className="py-1">
          <Json value={fields} label="Fields" />
        </div>
      )}
    </li>
  );
});

const SHORT = 160;

function inline(fields: Record<string, unknown>): string {
  const text = Object.entries(fields)
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : toJson(value)}`)
    .join(" ");
  return text.length > SHORT ? `${text.slice(0, SHORT)}…` : text;
}
