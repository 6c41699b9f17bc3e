/** The search in one line, `state:failed task:send_*`: read and changed term by term. The server reads it; here it is only taken apart. */

export const STATES = ["waiting", "queued", "running", "completed", "failed", "canceled"] as const;

interface Term {
  /** Without the colon; "" for words. */
  name: string;
  value: string;
  text: string;
}

// A name with a colon, a value in quotes or without, or a word; whatever else stands there is kept as it is.
const TERM = /([A-Za-z_]+(?:\.(?:"(?:[^"\\]|\\.)*"|[^\s:."]+))*):("(?:[^"\\]|\\.)*"|[^\s"]*)|"(?:[^"\\]|\\.)*"|\S+/g;

/** The terms of a search, in order. */
export function termsOf(q: string): Term[] {
  return [...q.matchAll(TERM)].map(([text, name = "", value = text]) => ({ name, value: unquote(value), text }));
}

/** The values of a qualifier: `state:failed,canceled` has two. */
export function valuesOf(q: string, name: string): string[] {
  return termsOf(q)
    .filter((term) => term.name === name)
    .flatMap((term) => (name === "state" ? term.value.split(",") : [term.value]))
    .filter(Boolean);
}

/** The search with other values of a qualifier; without any, without it. */
export function withValues(q: string, name: string, values: readonly string[]): string {
  const others = termsOf(q)
    .filter((term) => term.name !== name)
    .map((term) => term.text);
  if (values.length === 0) return others.join(" ");
  const text = name === "state" ? values.join(",") : quote(values[0]!);
  return [`${name}:${text}`, ...others].join(" ");
}

/** A value as the search takes it: in quotes where it has to be. */
export function quote(value: string): string {
  return value === "" || /[\s"]/.test(value) ? `"${value.replace(/[\\"]/g, "\\$&")}"` : value;
}

function unquote(text: string): string {
  return text.startsWith('"') ? text.slice(1, -1).replace(/\\(.)/gs, "$1") : text;
}

const SHORT = ["state", "task", "queue", "key", "owner", "error", "since", "until", "text"];

/** The search that an address with short names means (`/jobs?state=failed&queue=mail`); null: it has none of them. */
export function fromShort(search: string): string | null {
  const given = new URLSearchParams(search);
  let q = given.get("q") ?? "";
  let found = false;
  for (const name of SHORT) {
    const values = given.getAll(name).flatMap((value) => (name === "state" ? value.split(",") : [value])).filter(Boolean);
    if (values.length === 0) continue;
    found = true;
    q = withValues(q, name, values);
  }
  return found ? q : null;
}
