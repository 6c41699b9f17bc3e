/** JSON whose whole numbers stay whole: Python's have no end, a browser's do at 2^53. */

type Reviver = (this: unknown, key: string, value: unknown, context?: { source?: string }) => unknown;
const LONG = /\d{16}/;

/** Reads JSON; whole numbers too long for a number become BigInts, where the browser lets us see them. */
export function parseJson(text: string): unknown {
  if (!LONG.test(text)) return JSON.parse(text);
  const revive: Reviver = (_key, value, context) => {
    const unsafe = typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "");
    return unsafe ? BigInt(context!.source!) : value;
  };
  return JSON.parse(text, revive as (key: string, value: unknown) => unknown);
}

/** Writes JSON, BigInts as the numbers they are. */
export function toJson(value: unknown, indent?: number): string {
  const raw = (JSON as { rawJSON?: (text: string) => unknown }).rawJSON;
  const replace = (_key: string, each: unknown) => (typeof each === "bigint" ? (raw ? raw(each.toString()) : Number(each)) : each);
  return JSON.stringify(value, replace, indent) ?? "null";
}

// Controls, and what turns text round or has no width: shown as it is, a line would not say what it holds.
const UNSEEN = /[\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** JSON with everything in it to be seen: what is invisible as an escape, which means the same. */
export function visible(json: string): string {
  return json.replace(UNSEEN, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Whether two values are the same JSON, whatever the order of their members. */
export function sameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null || Array.isArray(a) !== Array.isArray(b)) return false;
  const left = Object.entries(a);
  const right = b as Record<string, unknown>;
  return left.length === Object.keys(b).length && left.every(([key, value]) => Object.hasOwn(right, key) && sameJson(value, right[key]));
}
