/** Tables of rows: keyboard, selection, every state a list can be in, and rows that hold still while somebody is at them. */

import { type ReactNode, useCallback, useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import type { ListState } from "@/api/hooks";
import { cx } from "@/lib/classes";
import { count } from "@/lib/format";
import { type Key, useKeys } from "@/lib/keys";
import { Button } from "./button";
import { useSlow } from "./spinner";
import { ErrorPanel } from "./states";
import { useReading, useStill } from "./still";

export interface Column<T> {
  key: string;
  title: ReactNode;
  cell: (row: T) => ReactNode;
  align?: "right";
  /** A width, as CSS has it ("8rem"); without one it takes what is left. */
  width?: string;
  /** Left out on screens narrower than this. */
  hideBelow?: "sm" | "md" | "lg" | "xl";
  /** May be longer than its place: cut off with dots. */
  truncate?: boolean;
}

export interface Selection {
  selected: ReadonlySet<string>;
  onChange: (selected: Set<string>) => void;
}

interface TableProps<T> {
  /** What the rows are, for who cannot see them: "Jobs". */
  label: string;
  list: ListState<T>;
  columns: Column<T>[];
  rowKey: (row: T) => string;
  /** Where a row leads: Enter, `o` and a click go there. */
  href?: (row: T) => string;
  /** Or what it does instead. */
  onOpen?: (row: T) => void;
  selection?: Selection;
  /** Keys for the row that has the focus, as `r` and `c`. */
  rowKeys?: { keys: string; does: string; run: (row: T) => void }[];
  /** What stands here when there are none. */
  empty: ReactNode;
  /** Marks a row, as one that is being peeked at. */
  current?: string | null;
  /** Keys j, k, x only count in the one table of a page that has them. */
  keyboard?: boolean;
  /** What narrows the rows down in the page itself: with another word it is another list, which is not held still. */
  of?: string;
  /** Tells which rows are shown. */
  onRows?: (rows: T[]) => void;
}

const HIDE = { sm: "max-sm:hidden", md: "max-md:hidden", lg: "max-lg:hidden", xl: "max-xl:hidden" };

export function Table<T>({ label, list, columns, rowKey, href, onOpen, selection, rowKeys = [], empty, current, keyboard = true, of, onRows }: TableProps<T>) {
  const [at, setAt] = useState<string | null>(null);
  const [, navigate] = useLocation();
  const body = useRef<HTMLTableSectionElement>(null);
  const wide = useWide();
  const slow = useSlow(list.loading);
  const reader = useReading(list.rows.length);
  const still = useStill(list, rowKey, reader.reading || (selection?.selected.size ?? 0) > 0, reader.span, of);
  const { rows, gone } = still;
  useEffect(() => onRows?.(rows), [onRows, rows]);
  const index = rows.findIndex((row) => rowKey(row) === at);
  const opens = onOpen ?? (href && ((row: T) => navigate(href(row))));

  const go = (to: number) => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, to))];
    if (row === undefined) return;
    setAt(rowKey(row));
    const element = body.current?.querySelector<HTMLElement>(`[data-row="${CSS.escape(rowKey(row))}"]`);
    element?.focus();
    element?.scrollIntoView?.({ block: "nearest" });
  };
  const toggle = (key: string) => {
    const next = new Set(selection?.selected);
    if (!next.delete(key)) next.add(key);
    selection?.onChange(next);
  };
  const here = () => rows[index];
  const keys: Key[] = keyboard
    ? [
        { keys: "j", does: "Next row", run: () => go(index + 1), when: () => rows.length > 0, group: "Lists" },
        { keys: "k", does: "Row before", run: () => go(index < 0 ? 0 : index - 1), when: () => rows.length > 0, group: "Lists" },
        ...(opens ? [{ keys: "o", does: "Open the row", run: () => opens(here()!), when: () => index >= 0, group: "Lists" }] : []),
        ...(selection ? [{ keys: "x", does: "Select the row", run: () => toggle(rowKey(here()!)), when: () => index >= 0, group: "Lists" }] : []),
        ...(selection ? [{ keys: "Escape", does: "Select none", run: () => selection.onChange(new Set()), when: () => selection.selected.size > 0, group: "Lists" }] : []),
        ...rowKeys.map((key): Key => ({ keys: key.keys, does: key.does, run: () => key.run(here()!), when: () => index >= 0, group: "Lists" })),
      ]
    : [];
  useKeys(keys);

  const allOn = selection !== undefined && rows.length > 0 && rows.every((row) => selection.selected.has(rowKey(row)));
  const share = `${100 / Math.max(1, columns.filter((column) => column.truncate && !column.width).length)}%`; // what is left, between those that are cut off
  const cellClass = (column: Column<T>) => cx(column.align === "right" && "text-right", column.hideBelow && HIDE[column.hideBelow], column.truncate && "truncate");
  const cellStyle = (column: Column<T>) => {
    const fixed = column.width?.endsWith("%") ? undefined : column.width;
    return { width: column.width ?? (column.truncate ? share : undefined), minWidth: column.truncate ? fixed : undefined, maxWidth: column.truncate ? (fixed ?? 0) : undefined };
  };
  const around = (content: ReactNode) => (
    <div ref={reader.frame} className="min-w-0" {...reader.handlers}>
      {content}
    </div>
  );
  if (list.error && rows.length === 0) return around(<ErrorPanel problem={list.error} onRetry={list.refetch} />);
  if (!list.loading && rows.length === 0) return around(list.hasMore ? <Further list={list} /> : empty);
  const showNew = () => {
    still.show();
    reader.toTop();
  };
  return around(
    <>
      {list.error && <ErrorPanel problem={list.error} onRetry={list.refetch} compact />}
      {still.added > 0 && <NewRows added={still.added} more={still.addedMore} onShow={showNew} />}
      <div ref={wide} className="overflow-x-clip data-wide:overflow-x-auto">
        <table className="w-full border-collapse" aria-label={label} aria-busy={list.fetching}>
          <thead>
            <tr className="text-left text-xs text-muted">
              {selection && (
                <th scope="col" className="sticky top-0 z-10 w-8 border-b bg-page py-1.5 pl-2">
                  <Tick label={allOn ? "Select none" : "Select all rows shown"} checked={allOn} some={selection.selected.size > 0} onChange={() => selection.onChange(new Set(allOn ? [] : rows.map(rowKey)))} />
                </th>
              )}
              {columns.map((column) => (
                <th key={column.key} scope="col" style={cellStyle(column)} className={cx("sticky top-0 z-10 border-b bg-page px-2 py-1.5 font-medium in-[dialog]:bg-raised whitespace-nowrap", cellClass(column))}>
                  {column.title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody ref={body}>
            {list.loading && slow && <SkeletonRows columns={columns.length + (selection ? 1 : 0)} />}
            {rows.map((row, number) => {
              const key = rowKey(row);
              const on = selection?.selected.has(key);
              return (
                <tr
                  key={key}
                  data-row={key}
                  tabIndex={(at === null ? number === 0 : key === at) ? 0 : -1}
                  aria-selected={selection ? on : undefined}
                  aria-current={current === key ? true : undefined}
                  title={gone.has(key) ? "No longer in this list" : undefined}
                  onFocus={() => setAt(key)}
                  onKeyDown={(event) => {
                    if (event.target !== event.currentTarget) return;
                    if (event.key === "Enter") opens?.(row);
                    else if (event.key === "ArrowDown") go(number + 1);
                    else if (event.key === "ArrowUp") go(number - 1);
                    else if (event.key === " " && selection) toggle(key);
                    else return;
                    event.preventDefault();
                  }}
                  onClick={(event) => {
                    if (!opens || (event.target as Element).closest("a, button, input, label, summary, select") || getSelection()?.toString()) return;
                    if (event.metaKey || event.ctrlKey) return;
                    opens(row);
                  }}
                  className={cx("border-b border-line focus-visible:-outline-offset-2", opens && "cursor-pointer", gone.has(key) && "opacity-50", on || current === key ? "bg-accent-soft" : "hover:bg-hover")}
                >
                  {selection && (
                    <td className="py-1.5 pl-2">
                      <Tick label="Select" checked={on ?? false} onChange={() => toggle(key)} />
                    </td>
                  )}
                  {columns.map((column) => (
                    <td key={column.key} style={column.truncate ? cellStyle(column) : undefined} className={cx("h-9 px-2 py-0.5", cellClass(column))}>
                      {column.cell(row)}
                    </td>
                  ))}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {list.hasMore && rows.length > 0 && <More list={list} />}
    </>,
  );
}

/** Over the head of the table, so that no row moves for its sake. */
function NewRows({ added, more, onShow }: { added: number; more: boolean; onShow: () => void }) {
  return (
    <div className="pointer-events-none sticky top-0 z-30 flex h-0 justify-center">
      <button type="button" onClick={onShow} title="Show the new rows" className="pointer-events-auto mt-0.5 inline-flex h-6 items-center gap-1 rounded-full bg-accent-fill px-3 text-xs font-medium text-on-accent shadow-pop hover:bg-accent-fill-hover">
        {`${count(added)}${more ? "+" : ""} new ↑`}
      </button>
    </div>
  );
}

/** For a search that found nothing in what the server has looked through. */
function Further<T>({ list }: { list: ListState<T> }) {
  return (
    <div className="flex flex-col items-center gap-2 py-10 text-muted">
      <p>Nothing found in what has been looked through so far.</p>
      <Button onClick={list.loadMore} busy={list.loadingMore}>
        Look further
      </Button>
    </div>
  );
}

/** Marks a frame whose table is wider than it, which then scrolls; in one that scrolls, the head would not stay in sight. */
function useWide(): (frame: HTMLDivElement | null) => (() => void) | undefined {
  return useCallback((frame: HTMLDivElement | null) => {
    const table = frame?.firstElementChild;
    if (!frame || !table) return undefined;
    const observer = new ResizeObserver(() => frame.toggleAttribute("data-wide", table.scrollWidth > frame.clientWidth + 1));
    observer.observe(frame);
    observer.observe(table);
    return () => observer.disconnect();
  }, []);
}

function Tick({ label, checked, some, onChange }: { label: string; checked: boolean; some?: boolean; onChange: () => void }) {
  return (
    <input
      type="checkbox"
      aria-label={label}
      checked={checked}
      onChange={onChange}
      ref={(box) => {
        if (box) box.indeterminate = Boolean(some) && !checked;
      }}
      className="block size-3.5 accent-accent-fill"
    />
  );
}

function SkeletonRows({ columns }: { columns: number }) {
  return Array.from({ length: 8 }, (_, row) => (
    <tr key={row} className="border-b" aria-hidden>
      {Array.from({ length: columns }, (_, column) => (
        <td key={column} className="h-9 px-2">
          <div className={cx("h-3 animate-skeleton rounded-sm bg-active", ["w-3/4", "w-1/2", "w-2/3"][(row + column) % 3])} />
        </td>
      ))}
    </tr>
  ));
}

/** The next page: by itself when one comes near the end, or by the button. */
function More<T>({ list }: { list: ListState<T> }) {
  const own = useRef<HTMLDivElement>(null);
  const latest = useRef(list);
  latest.current = list;
  useEffect(() => {
    if (typeof IntersectionObserver === "undefined") return;
    const observer = new IntersectionObserver(
      ([seen]) => {
        if (seen?.isIntersecting && !latest.current.fetching && !latest.current.error && latest.current.rows.length < 1000) latest.current.loadMore();
      },
      { rootMargin: "200px" },
    );
    observer.observe(own.current!);
    return () => observer.disconnect();
  }, [list.rows.length]);
  return (
    <div ref={own} className="flex justify-center py-3">
      <Button look="quiet" onClick={list.loadMore} busy={list.loadingMore}>
        {list.loadingMore ? "Loading…" : "Show more"}
      </Button>
    </div>
  );
}
