/** The lines of a job's log: what there is, and with `on` what comes. */

import { useEffect, useMemo, useState } from "react";
import { type ListState, type Schema, get, usePages } from "@/api";
import { type Problem, asProblem } from "@/api/problem";

type Line = Schema<"LogLine">;
type Level = "debug" | "info" | "warning" | "error" | "critical";

export interface LogFilter {
  job_id: string;
  attempt?: number;
  level?: Level;
  text?: string;
}

const EVERY_MS = 1500;
const AFTER_ERROR_MS = 5000;
const MOST = 5000; // lines that are kept of what comes

const keyOf = (line: Line) => `${line.attempt}/${line.sequence}`;

/** Lines in their order, each once; those of before by pages, from the newest back. */
export function useLog(filter: LogFilter, on: boolean): { lines: Line[]; before: ListState<Line>; problem: Problem | null } {
  const before = usePages("/api/admin/logs", { query: { ...filter, limit: 200 } }, { live: on ? [] : undefined });
  const [tail, setTail] = useState<{ of: string; lines: Map<string, Line> }>({ of: "", lines: new Map() });
  const [problem, setProblem] = useState<Problem | null>(null);
  const of = JSON.stringify(filter);

  useEffect(() => {
    if (!on) return;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let cursor: string | null = null;
    const turn = async () => {
      let wait = EVERY_MS;
      if (!document.hidden) {
        try {
          const page: { items: Line[]; next: string | null } = await get("/api/admin/logs/follow", { query: { ...(JSON.parse(of) as LogFilter), cursor: cursor ?? undefined, limit: 500 } }, abort.signal);
          cursor = page.next;
          setProblem(null);
          setTail((held) => {
            const had = held.of === of ? held.lines : new Map<string, Line>();
            const fresh = page.items.filter((line) => !had.has(keyOf(line)));
            if (held.of === of && fresh.length === 0) return held;
            const all = [...had, ...fresh.map((line) => [keyOf(line), line] as const)];
            return { of, lines: new Map(all.slice(-MOST)) };
          });
        } catch (error) {
          if (abort.signal.aborted) return;
          setProblem(asProblem(error));
          wait = AFTER_ERROR_MS;
        }
      }
      if (!abort.signal.aborted) timer = setTimeout(() => void turn(), wait);
    };
    void turn();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [of, on]);

  const lines = useMemo(() => {
    const all = new Map(before.rows.map((line) => [keyOf(line), line]));
    if (tail.of === of) for (const [key, line] of tail.lines) all.set(key, line);
    return [...all.values()].sort((a, b) => a.attempt - b.attempt || a.sequence - b.sequence);
  }, [before.rows, tail, of]);
  return { lines, before, problem: on ? problem : null };
}
