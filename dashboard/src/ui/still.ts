/** Keeps the rows of a live list in their places while somebody reads or chooses among them. */

import { type PointerEvent, createContext, useCallback, useContext, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState, useSyncExternalStore } from "react";
import type { ListState, Part } from "@/api/hooks";

/** Places of the first and the last row that can be seen. */
type Span = readonly [from: number, to: number];

interface Held<T> {
  rows: T[];
  /** Rows of the list on the server that are not shown yet. */
  added: number;
  /** There are more of them than were counted. */
  addedMore: boolean;
  /** Keys of rows that are shown and no longer belong to the list. */
  gone: ReadonlySet<string>;
}

const NONE: ReadonlySet<string> = new Set();

/** The rows in the order they had `before`, as they are now; rows that were loaded after the last of them follow. */
export function holdStill<T>(before: T[], loaded: T[], parts: Part<T>[], key: (row: T) => string, current: T[] = []): Held<T> {
  const places = new Map(before.map((row, place) => [key(row), place]));
  const newest = new Map([...loaded, ...parts.flatMap((part) => part.items), ...current].map((row) => [key(row), row]));
  const last = loaded.findLastIndex((row) => places.has(key(row)));
  const following = last < 0 ? [] : loaded.slice(last + 1);
  const rows = [...before.map((row) => newest.get(key(row)) ?? row), ...following];
  const shown = new Set(rows.map(key));
  const first = parts[0];
  const added = first?.items.filter((row) => !shown.has(key(row))).length ?? 0;
  return { rows, added, addedMore: added > 0 && first?.next !== null && added === first?.items.length, gone: goneFrom(before, places, parts, key) };
}

/** Rows that a part of the list no longer has. A part whose order has changed does not tell: its rows may be in another one. */
function goneFrom<T>(before: T[], places: Map<string, number>, parts: Part<T>[], key: (row: T) => string): Set<string> {
  const gone = new Set<string>();
  parts.forEach((part, index) => {
    const found = part.items.flatMap((row) => places.get(key(row)) ?? []);
    if (found.some((place, at) => at > 0 && place < found[at - 1]!)) return;
    const from = index === 0 ? 0 : found[0];
    const to = part.next === null ? before.length - 1 : found.at(-1);
    if (from === undefined || to === undefined) return;
    const kept = new Set(found);
    for (let place = from; place <= to; place++) if (!kept.has(place)) gone.add(key(before[place]!));
  });
  return gone;
}

let open = 0;
const watchers = new Set<() => void>();
/** How many dialogs something is in. */
export const DialogDepth = createContext(0);

/** Counts a dialog for as long as it is there. */
export function useOpenDialog(): void {
  useEffect(() => {
    const tell = (by: number) => {
      open += by;
      for (const watcher of watchers) watcher();
    };
    tell(1);
    return () => tell(-1);
  }, []);
}

/** Whether a dialog is open above this. */
function useCovered(): boolean {
  const depth = useContext(DialogDepth);
  return useSyncExternalStore(watch, () => open > depth);
}

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => void watchers.delete(watcher);
}

const SETTLE_MS = 100;

/** Whether somebody is at the list inside of this frame: with the pointer, scrolled down in it, or in a dialog above it. */
export function useReading(size = 0): { reading: boolean; span: Span; frame: (element: HTMLElement | null) => void; handlers: object; toTop: () => void } {
  const [pointed, setPointed] = useState(false);
  const [view, setView] = useState<{ scrolled: boolean; span: Span }>({ scrolled: false, span: [0, 0] });
  const own = useRef<HTMLElement | null>(null);
  const covered = useCovered();
  useEffect(() => {
    // Anew whenever there are more or fewer rows.
    let timer: ReturnType<typeof setTimeout> | undefined;
    const measure = () => {
      timer = undefined;
      const next = viewOf(own.current);
      setView((now) => (now.scrolled === next.scrolled && now.span[0] === next.span[0] && now.span[1] === next.span[1] ? now : next));
    };
    const soon = () => void (timer ??= setTimeout(measure, SETTLE_MS));
    soon();
    window.addEventListener("scroll", soon, { capture: true, passive: true });
    window.addEventListener("resize", soon);
    return () => {
      clearTimeout(timer);
      window.removeEventListener("scroll", soon, { capture: true });
      window.removeEventListener("resize", soon);
    };
  }, [size]);
  const handlers = {
    onPointerEnter: () => setPointed(true),
    onPointerLeave: () => setPointed(false),
    // What is under a finger that was lifted is not pointed at any more.
    onPointerUp: (event: PointerEvent) => event.pointerType === "touch" && setPointed(false),
    onPointerCancel: () => setPointed(false),
  };
  const toTop = () => scrollerOf(own.current)?.scrollTo?.({ top: 0 });
  return { reading: pointed || view.scrolled || covered, span: view.span, frame: useCallback((element) => void (own.current = element), []), handlers, toTop };
}

function scrollerOf(frame: HTMLElement | null): HTMLElement | null {
  return frame?.closest<HTMLElement>("main, [data-body]") ?? null;
}

/** Whether the first row is out of sight above, and which rows can be seen. */
function viewOf(frame: HTMLElement | null): { scrolled: boolean; span: Span } {
  const rows = frame?.querySelectorAll("[data-row]") ?? [];
  if (!frame || rows.length === 0) return { scrolled: false, span: [0, 0] };
  const area = scrollerOf(frame)?.getBoundingClientRect() ?? { top: 0, bottom: window.innerHeight };
  const firstBelow = (edge: number) => {
    let [low, high] = [0, rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rows[middle]!.getBoundingClientRect().bottom > edge) high = middle;
      else low = middle + 1;
    }
    return low;
  };
  const first = firstBelow(area.top);
  const head = frame.querySelector("thead")?.getBoundingClientRect().height ?? 0; // stays in sight, over the rows
  return { scrolled: rows[0]!.getBoundingClientRect().bottom < area.top + head, span: [first, Math.min(firstBelow(area.bottom), rows.length - 1)] };
}

export interface StillList<T> extends Held<T> {
  /** Shows the list as it is now. */
  show: () => void;
}

/** The rows of a list to show: as it is now, or `held` still, with how many are new. Another list (`of`) is never held. */
export function useStill<T>(list: ListState<T>, key: (row: T) => string, held: boolean, span: Span, of = ""): StillList<T> {
  const name = `${list.of} ${of}`;
  const base = useRef<{ of: string; rows: T[] } | null>(null);
  const [turn, again] = useReducer((count: number) => count + 1, 0);
  const still = held || list.parts !== null; // until what was learned meanwhile is in the list itself
  const view = useMemo((): Held<T> => {
    const before = base.current;
    const parts = list.parts ?? [{ items: list.rows, next: list.hasMore ? "" : null }];
    const empty = parts[0]?.items.length === 0 && parts[0].next === null;
    if (!still || empty || before?.of !== name || before.rows.length === 0) return { rows: empty ? [] : once(list.rows, key), added: 0, addedMore: false, gone: NONE };
    return holdStill(before.rows, list.rows, parts, key, list.current);
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [still, name, list.rows, list.parts, list.current, list.hasMore, turn]);
  useLayoutEffect(() => void (base.current = { of: name, rows: view.rows }), [name, view]);
  const { hold } = list;
  const [from, to] = span;
  const seen = useRef<T[]>([]);
  seen.current = view.rows.slice(from, to + 1);
  const keys = held ? seen.current.map(key).join("\n") : null;
  useEffect(() => hold(keys === null ? null : { from, to, rows: seen.current }), [hold, keys, from, to]);
  const show = () => {
    base.current = { of: name, rows: list.parts?.[0]?.items ?? list.rows };
    void list.show();
    again();
  };
  return { ...view, show };
}

/** Each row once: one that has moved to the next page while that was loaded is in both. */
function once<T>(rows: T[], key: (row: T) => string): T[] {
  const found = new Map(rows.map((row) => [key(row), row]));
  return found.size === rows.length ? rows : [...found.values()];
}
