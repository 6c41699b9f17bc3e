/** Secrets in payloads are not shown: those that are stored as such never, those that only have the name of one until somebody asks. */

/** What stands in the place of a value that is not shown. */
export const HIDDEN = "[hidden]";

const SEALED = /^\[redacted\]$|^rota-(secret|open):/; // what the server shows of a stored secret, and what it stores
const ALWAYS = /passw|passphrase|pwd|secret|private[_-]?key/i;
const NAMES = /passw|passphrase|pwd|secret|private[_-]?key|token|authorization|cookie|api[_-]?key|access[_-]?key|credential/i;
const DEEPEST = 50;

/** Whether it is stored as a secret: nobody reads it, here or in the database. */
export function isSealed(value: unknown): boolean {
  return typeof value === "string" && SEALED.test(value);
}

/** Whether a member looks like a secret by its name: a count of tokens is no token. */
function isNamed(name: string, value: unknown): boolean {
  if (typeof value === "string") return value !== "" && NAMES.test(name);
  return (typeof value === "number" || typeof value === "bigint") && ALWAYS.test(name);
}

export interface Shown {
  value: unknown;
  /** How many are stored as secrets. */
  sealed: number;
  /** How many have the name of one. */
  named: number;
}

/** A value as it may be shown. With `named` those that only have the name of a secret are shown all the same. */
export function conceal(value: unknown, { named: shown = false }: { named?: boolean } = {}): Shown {
  const found: Shown = { value: undefined, sealed: 0, named: 0 };
  const walk = (each: unknown, name: string, depth: number): unknown => {
    if (isSealed(each)) {
      found.sealed++;
      return HIDDEN;
    }
    if (isNamed(name, each)) {
      found.named++;
      return shown ? each : HIDDEN;
    }
    if (typeof each !== "object" || each === null || depth > DEEPEST) return each;
    if (Array.isArray(each)) return each.map((inner) => walk(inner, name, depth + 1));
    return Object.fromEntries(Object.entries(each).map(([key, inner]) => [key, walk(inner, key, depth + 1)]));
  };
  found.value = walk(value, "", 0);
  return found;
}

/** Two values to be compared: of a secret that differs it is said that it does, and no more. */
export function concealBoth(before: unknown, after: unknown): [unknown, unknown] {
  const walk = (left: unknown, right: unknown, name: string, depth: number): [unknown, unknown] => {
    const secret = isSealed(left) || isSealed(right) || isNamed(name, left) || isNamed(name, right);
    if (secret) return [left === undefined ? undefined : HIDDEN, right === undefined ? undefined : left === right ? HIDDEN : "[hidden, another one]"];
    const both = typeof left === "object" && typeof right === "object" && left !== null && right !== null && Array.isArray(left) === Array.isArray(right);
    if (!both || depth > DEEPEST) return [conceal(left).value, conceal(right).value];
    if (Array.isArray(left) && Array.isArray(right)) {
      const pairs = Array.from({ length: Math.max(left.length, right.length) }, (_, index) => walk(left[index], right[index], name, depth + 1));
      return [pairs.slice(0, left.length).map(([each]) => each), pairs.slice(0, right.length).map(([, each]) => each)];
    }
    const a = left as Record<string, unknown>;
    const b = right as Record<string, unknown>;
    const pairs = new Map([...Object.keys(a), ...Object.keys(b)].map((key) => [key, walk(a[key], b[key], key, depth + 1)]));
    // In the order of the left one: that members stand in another order is no change.
    const side = (of: Record<string, unknown>, index: 0 | 1) => Object.fromEntries([...pairs].filter(([key]) => Object.hasOwn(of, key)).map(([key, pair]) => [key, pair[index]]));
    return [side(a, 0), side(b, 1)];
  };
  return walk(before, after, "", 0);
}
