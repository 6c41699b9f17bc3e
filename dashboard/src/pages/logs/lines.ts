/** Log lines as they come: those that were found, and those that came since. */

import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useReducer, useRef } from "react";
import { type ItemOf, type ListState, get, usePages } from "@/api";
import type { Problem } from "@/api/problem";

export type Line = ItemOf<"/api/admin/logs">;

export interface Filter {
  text?: string;
  task?: string;
  level?: "debug" | "info" | "warning" | "error" | "critical";
  job_id?: string;
  attempt?: number;
  since?: string;
  until?: string;
}

const EVERY_MS = 2000;
const AT_ONCE = 1000; // lines that one answer brings at most
const MOST = 2000; // that are kept while following; beyond that, older ones are let go
const KEPT = 1000;

/** Which line it is, whoever tells of it. */
export function keyOf(line: Line): string {
  return `${line.job_id}/${line.attempt}/${line.sequence}`;
}

interface Followed {
  /** The newest first. */
  shown: Line[];
  /** Those that came while it was paused. */
  held: Line[];
  /** Older ones were let go, or never seen: what was found before no longer joins on. */
  gap: boolean;
  /** The same between those that are shown and those that are held. */
  heldGap: boolean;
  problem: Problem | null;
}

type Action = { kind: "came"; lines: Line[]; known: ReadonlySet<string>; paused: boolean } | { kind: "release" } | { kind: "reset" } | { kind: "problem"; problem: Problem | null };

export const NOTHING: Followed = { shown: [], held: [], gap: false, heldGap: false, problem: null };

/** What becomes of the lines when some came, or were asked for again. */
export function reduce(state: Followed, action: Action): Followed {
  switch (action.kind) {
    case "reset":
      return NOTHING;
    case "problem":
      return state.problem === action.problem ? state : { ...state, problem: action.problem };
    case "release":
      if (state.heldGap) return bounded({ ...state, shown: state.held, held: [], gap: true, heldGap: false });
      return bounded({ ...state, shown: inOrder([...state.held, ...state.shown]), held: [] });
    case "came": {
      const seen = new Set([...state.shown, ...state.held].map(keyOf));
      const fresh = action.lines.filter((line) => !seen.has(keyOf(line)) && !action.known.has(keyOf(line))).toReversed();
      // As many as one answer can bring, and none of them seen: there were more.
      const missed = fresh.length >= AT_ONCE && (seen.size > 0 || action.known.size > 0);
      if (fresh.length === 0) return state.problem ? { ...state, problem: null } : state;
      const next = { ...state, problem: null };
      if (!action.paused) return bounded({ ...next, gap: state.gap || missed, shown: missed ? fresh : inOrder([...fresh, ...state.shown]) });
      const held = missed ? fresh : inOrder([...fresh, ...state.held]);
      return { ...next, held: held.slice(0, MOST), heldGap: state.heldGap || missed || held.length > MOST };
    }
  }
}

/** The newest first: lines of some jobs come later than those of others. */
function inOrder(lines: Line[]): Line[] {
  return lines.toSorted((a, b) => Date.parse(b.at) - Date.parse(a.at) || (a.job_id === b.job_id && a.attempt === b.attempt ? b.sequence - a.sequence : 0));
}

function bounded(state: Followed): Followed {
  return state.shown.length > MOST ? { ...state, shown: state.shown.slice(0, KEPT), gap: true } : state;
}

export interface Lines extends Omit<ListState<Line>, "count" | "updatedAt" | "of" | "parts" | "current" | "hold" | "show"> {
  /** That came while it was paused. */
  held: number;
  /** Older lines are no longer joined to those shown. */
  gap: boolean;
  /** Why nothing new comes. */
  followProblem: Problem | null;
  /** Begins again with the newest lines. */
  restart: () => void;
}

/** The lines that fit, the newest first; new ones are put before them, or held back while `follow` is false. */
export function useLines(filter: Filter, follow: boolean): Lines {
  const client = useQueryClient();
  const key = JSON.stringify(filter);
  const found = usePages("/api/admin/logs", { query: { ...filter, limit: 100 } }, { live: [] });
  const [followed, tell] = useReducer(reduce, NOTHING);
  const known = useMemo(() => new Set(found.rows.slice(0, AT_ONCE).map(keyOf)), [found.rows]);
  const latest = useRef({ known, follow });
  latest.current = { known, follow };
  const wanted = !found.loading && !filter.until; // what ends at some time has no news

  useEffect(() => tell({ kind: "reset" }), [key]);
  useEffect(() => {
    if (follow) tell({ kind: "release" });
  }, [follow]);
  useEffect(() => {
    if (!wanted) return;
    const stop = new AbortController();
    let cursor: string | null = null;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async () => {
      try {
        if (!document.hidden) {
          const answer = await get("/api/admin/logs/follow", { query: { ...(JSON.parse(key) as Filter), cursor, limit: cursor ? AT_ONCE : 100 } }, stop.signal);
          cursor = answer.next;
          if (!stop.signal.aborted) tell({ kind: "came", lines: answer.items, known: latest.current.known, paused: !latest.current.follow });
        }
      } catch (problem) {
        if (!stop.signal.aborted) tell({ kind: "problem", problem: problem as Problem });
      }
      if (!stop.signal.aborted) timer = setTimeout(() => void ask(), EVERY_MS);
    };
    timer = setTimeout(() => void ask(), EVERY_MS);
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key, wanted]);

  const rows = useMemo(() => {
    if (followed.gap) return followed.shown;
    const seen = new Set(followed.shown.map(keyOf));
    return [...followed.shown, ...found.rows.filter((line) => !seen.has(keyOf(line)))];
  }, [followed.shown, followed.gap, found.rows]);
  const restart = useCallback(() => {
    tell({ kind: "reset" });
    void client.resetQueries({ queryKey: ["/api/admin/logs"] });
  }, [client]);
  return {
    rows,
    loading: found.loading,
    fetching: found.fetching,
    error: found.error,
    hasMore: found.hasMore && !followed.gap,
    loadMore: found.loadMore,
    loadingMore: found.loadingMore,
    refetch: found.refetch,
    held: followed.held.length,
    gap: followed.gap,
    followProblem: followed.problem,
    restart,
  };
}
