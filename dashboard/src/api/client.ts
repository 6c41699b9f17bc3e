/** One request: typed by the schema, errors as Problems. */

import { learnClock } from "@/lib/clock";
import { parseJson, toJson } from "@/lib/json";
import { apiUrl } from "@/lib/root";
import { Problem, problemOf } from "./problem";
import type { AnswerOf, BodyOf, Method, Params, PathOf } from "./types";

const TIMEOUT_MS = 30_000;

export interface Given {
  path?: Record<string, unknown>;
  query?: Record<string, unknown>;
  body?: unknown;
  etag?: string;
  signal?: AbortSignal;
}

/** The address of an operation: the path's parts and the query filled in; null, undefined and "" are left out of a query. */
export function addressOf(path: string, given: Pick<Given, "path" | "query"> = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(given.path?.[name] ?? "")));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given.query ?? {})) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "") query.append(name, String(each));
    }
  }
  const text = query.toString();
  return apiUrl(text ? `${filled}?${text}` : filled);
}

const lost = new Set<() => void>();

/** Calls back when the server no longer knows who asks (401). */
export function onSessionLost(listener: () => void): () => void {
  lost.add(listener);
  return () => void lost.delete(listener);
}

/** Makes a request and gives the answer with its headers; throws a Problem. */
export async function send(method: Method, path: string, given: Given = {}): Promise<{ body: unknown; headers: Headers }> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (given.body !== undefined) headers["content-type"] = "application/json";
  if (given.etag) headers["if-match"] = given.etag;
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), TIMEOUT_MS);
  given.signal?.addEventListener("abort", () => abort.abort(), { once: true });
  if (given.signal?.aborted) abort.abort();
  let answer: Response;
  let body: unknown;
  try {
    answer = await fetch(addressOf(path, given), {
      method: method.toUpperCase(),
      headers,
      body: given.body === undefined ? undefined : toJson(given.body),
      credentials: "same-origin",
      signal: abort.signal,
    });
    learnClock(answer.headers.get("date"));
    if (answer.ok) body = answer.status === 204 ? undefined : await jsonOf(answer);
  } catch (error) {
    if (error instanceof Problem || given.signal?.aborted) throw error;
    const late = abort.signal.aborted;
    throw new Problem(0, "offline", late ? "The server took too long to answer." : "The server cannot be reached.");
  } finally {
    clearTimeout(timer);
  }
  if (!answer.ok) {
    const problem = await problemOf(answer);
    if (problem.status === 401) for (const listener of lost) listener();
    throw problem;
  }
  return { body, headers: answer.headers };
}

async function jsonOf(answer: Response): Promise<unknown> {
  const text = await answer.text();
  if (!text) return undefined;
  try {
    return parseJson(text);
  } catch {
    throw new Problem(answer.status, "error", "The server's answer is not JSON: is there something else at this address?");
  }
}

/** GET, typed. */
export async function get<P extends PathOf<"get">>(path: P, params?: Params<"get", P>, signal?: AbortSignal): Promise<AnswerOf<"get", P>> {
  return (await send("get", path, { ...(params as Given | undefined), signal })).body as AnswerOf<"get", P>;
}

/** Any other request, typed, outside of hooks: for loops such as bulk changes. */
export async function act<M extends Exclude<Method, "get">, P extends PathOf<M>>(
  method: M,
  path: P,
  given: Params<M, P> & { body?: BodyOf<M, P>; etag?: string; signal?: AbortSignal } = {} as never,
): Promise<AnswerOf<M, P>> {
  return (await send(method, path, given as Given)).body as AnswerOf<M, P>;
}
