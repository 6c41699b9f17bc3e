/** Short messages that come and go; `Toasts` shows them. */

export interface ToastMessage {
  id: number;
  words: string;
  kind: "ok" | "bad" | "info";
  /** A way back, or on. */
  action?: { label: string; run: () => void };
}

let last = 0;
let shown: readonly ToastMessage[] = [];
const listeners = new Set<() => void>();

/** Says something in passing. Errors stay longer, and what has an action too. */
export function toast(words: string, options: Partial<Pick<ToastMessage, "kind" | "action">> = {}): void {
  const message: ToastMessage = { id: ++last, words, kind: "ok", ...options };
  set([...shown.filter((each) => each.words !== words), message].slice(-4));
  setTimeout(() => dismiss(message.id), message.kind === "bad" || message.action ? 10_000 : 4_000);
}

export function dismiss(id: number): void {
  if (shown.some((each) => each.id === id)) set(shown.filter((each) => each.id !== id));
}

export function toasts(): readonly ToastMessage[] {
  return shown;
}

export function onToasts(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

function set(next: readonly ToastMessage[]): void {
  shown = next;
  for (const listener of listeners) listener();
}
