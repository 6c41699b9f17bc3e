/** Keys for the whole page: off while somebody types, and while a dialog is open. */

import { useEffect, useRef } from "react";

export interface Key {
  /** One key ("r", "/", "Escape"), or "g" and another one ("g j"). */
  keys: string;
  /** What it does, for the help. */
  does: string;
  run: () => void;
  /** Whether it can do something now; if not, it is passed on. */
  when?: () => boolean;
  /** Where it stands in the help. */
  group?: string;
}

const GO_MS = 1200;
const registered: { current: Key[] }[] = [];
let wentAt = 0;

/** Keys that a page or a part of it has while it is there; the newest come first. */
export function useKeys(keys: Key[]): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    registered.push(latest);
    return () => void registered.splice(registered.indexOf(latest), 1);
  }, []);
}

/** All keys that do something now, each once, for the help. */
export function allKeys(): Key[] {
  const seen = new Set<string>();
  return registered
    .toReversed()
    .flatMap((each) => each.current)
    .filter((key) => !seen.has(key.keys) && seen.add(key.keys));
}

/** Whether what has the focus takes letters. */
export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target.closest("[role=textbox], [role=combobox]")) return true;
  if (target instanceof HTMLInputElement) return !["checkbox", "radio", "button", "submit", "range"].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}

function onKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (isTyping(event.target) || document.querySelector("dialog[open], [data-menu]")) return;
  if (event.key === "g" && Date.now() - wentAt > GO_MS) {
    wentAt = Date.now();
    return;
  }
  const wanted = Date.now() - wentAt <= GO_MS ? `g ${event.key}` : event.key;
  wentAt = 0;
  const key = registered
    .toReversed()
    .flatMap((each) => each.current)
    .find((each) => each.keys === wanted && (each.when?.() ?? true));
  if (key) {
    event.preventDefault();
    key.run();
  }
}

/** Begins to listen, for the whole page. */
export function listenForKeys(): () => void {
  document.addEventListener("keydown", onKey);
  return () => document.removeEventListener("keydown", onKey);
}
