/** State that lives in the address: it survives a reload, can be sent to somebody, and the back button undoes it. */

import { useCallback, useMemo, useRef } from "react";
import { useLocation, useSearch } from "wouter";
import { base } from "./root";

type Value = string | number | boolean | string[];
type Widen<T> = { [K in keyof T]: T[K] extends string[] ? string[] : T[K] extends number ? number : T[K] extends boolean ? boolean : string };

/** Reads and sets what the address says. What is at its default is left out of it.
 *
 *     const [view, setView] = useUrlState({ state: [] as string[], q: "", tab: "attempts" });
 *     setView({ q: "task:mail" });                       // a step that "back" undoes
 *     setView({ q: "task:mai" }, { replace: true });     // while typing
 */
export function useUrlState<T extends Record<string, Value>>(
  defaults: T,
): [Widen<T>, (change: Partial<Widen<T>>, options?: { replace?: boolean }) => void] {
  useSearch(); // tells when it changes; what it gives has been decoded once too often
  const search = location.search.slice(1);
  const [path, navigate] = useLocation();
  const known = useRef(defaults).current;
  const latest = useRef({ search, path });
  latest.current = { search, path };
  const state = useMemo(() => read(search, known), [search, known]);
  const set = useCallback(
    (change: Partial<Widen<T>>, options: { replace?: boolean } = {}) => {
      const query = new URLSearchParams(latest.current.search);
      for (const [name, value] of Object.entries(change) as [string, Value | undefined][]) write(query, name, value, known[name]);
      const text = query.toString().replaceAll("%3A", ":").replaceAll("%2C", ",").replaceAll("%2F", "/");
      if (text === latest.current.search) return;
      latest.current.search = text;
      navigate(text ? `${latest.current.path}?${text}` : latest.current.path, { replace: options.replace ?? false });
    },
    [navigate, known],
  );
  return [state, set];
}

/** The name in the address of a thing's page, "/tasks/…", exactly as it was put there by encodeURIComponent. */
export function useName(): string {
  useLocation();
  const segment = location.pathname.slice(base.length).split("/")[2] ?? "";
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment; // typed by hand
  }
}

/** An address with something else in its query, and the rest of it as it is: for links to what `setView` would open. */
export function hrefWith(path: string, search: string, change: Record<string, string>): string {
  const query = new URLSearchParams(search);
  for (const [name, value] of Object.entries(change)) query.set(name, value);
  return `${path}?${query}`;
}

function read<T extends Record<string, Value>>(search: string, defaults: T): Widen<T> {
  const query = new URLSearchParams(search);
  const found: Record<string, Value> = {};
  for (const [name, usual] of Object.entries(defaults)) {
    const given = query.get(name);
    if (given === null) found[name] = usual;
    else if (Array.isArray(usual)) found[name] = given ? given.split(",") : [];
    else if (typeof usual === "number") found[name] = Number.isFinite(Number(given)) ? Number(given) : usual;
    else if (typeof usual === "boolean") found[name] = given === "1" || given === "true";
    else found[name] = given;
  }
  return found as Widen<T>;
}

function write(query: URLSearchParams, name: string, value: Value | undefined, usual: Value | undefined): void {
  const text = (each: Value) => (Array.isArray(each) ? each.join(",") : typeof each === "boolean" ? (each ? "1" : "0") : String(each));
  if (value === undefined || (usual !== undefined && text(value) === text(usual))) query.delete(name);
  else query.set(name, text(value));
}
