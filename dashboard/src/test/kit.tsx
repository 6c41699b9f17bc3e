/** What tests of pages need: a server that answers as told, and a page inside of everything it has round it. */

import { QueryClientProvider } from "@tanstack/react-query";
import { type RenderResult, render } from "@testing-library/react";
import userEvent, { type UserEvent } from "@testing-library/user-event";
import { type ReactElement, Suspense, useEffect } from "react";
import { Route, Router, Switch } from "wouter";
import { vi } from "vitest";
import { LiveProvider } from "@/app/live";
import { makeQueryClient } from "@/app/queries";
import { SignedIn } from "@/app/session";
import { listenForKeys } from "@/lib/keys";
import { Toasts } from "@/ui/toasts";
import { FakeEventSource } from "./events";

export interface Call {
  method: string;
  path: string;
  query: URLSearchParams;
  body: unknown;
  headers: Record<string, string>;
  /** What stood in the place of {name} in the path of the answer. */
  params: Record<string, string>;
}

type Answer = unknown | ((call: Call) => unknown);

/** Answers by "METHOD /path/{part}". A function is called; a Problem-like `problem(…)` is an error; `never` does not come. */
export class FakeApi {
  calls: Call[] = [];
  constructor(private answers: Record<string, Answer> = {}) {}

  /** Sets, or changes, what is answered. */
  on(route: string, answer: Answer): this {
    this.answers = { ...this.answers, [route]: answer };
    return this;
  }

  /** The calls of a route so far. */
  of(route: string): Call[] {
    return this.calls.filter((call) => matches(route, call.method, call.path) !== null);
  }

  fetch = async (url: string | URL | Request, init: RequestInit = {}): Promise<Response> => {
    const at = new URL(String(url), location.origin);
    const call: Call = {
      method: init.method ?? "GET",
      path: decodeURI(at.pathname),
      query: at.searchParams,
      body: typeof init.body === "string" ? JSON.parse(init.body) : undefined,
      headers: (init.headers ?? {}) as Record<string, string>,
      params: {},
    };
    this.calls.push(call);
    for (const [route, answer] of Object.entries(this.answers)) {
      const params = matches(route, call.method, call.path);
      if (params === null) continue;
      const given = await (typeof answer === "function" ? (answer as (call: Call) => unknown)({ ...call, params }) : answer);
      if (given === never) return new Promise<Response>((_, reject) => init.signal?.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError"))));
      if (given === offline) throw new TypeError("Failed to fetch");
      if (given instanceof Response) return given;
      if (given instanceof FakeProblem) return json(given.status, given.body, { "content-type": "application/problem+json" });
      return given === undefined ? new Response(null, { status: 204 }) : json(200, given, { etag: '"v1"' });
    }
    return json(404, { code: "not_found", detail: `the test has no answer for ${call.method} ${call.path}`, request_id: "test" });
  };
}

class FakeProblem {
  constructor(
    readonly status: number,
    readonly body: unknown,
  ) {}
}

/** An error as the server sends it: `problem(422, "validation", "…", [{ field: "cron", code: "x", detail: "…" }])`. */
export function problem(status: number, code: string, detail: string, errors: { field: string; code: string; detail: string }[] = []): FakeProblem {
  return new FakeProblem(status, { type: `urn:rota:problem:${code}`, title: code, status, code, detail, request_id: "req-1", errors });
}

/** An answer that does not come: for states of loading. */
export const never = Symbol("never");
/** A server that cannot be reached. */
export const offline = Symbol("offline");

/** A page of a list, as the API answers. */
export function pageOf<T>(items: T[], next: string | null = null, count: { count: number; capped: boolean } | null = null) {
  return { items, next, count };
}

function json(status: number, body: unknown, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json", ...headers } });
}

function matches(route: string, method: string, path: string): Record<string, string> | null {
  const [wanted = "GET", pattern = route] = route.split(" ", 2);
  if (wanted !== method) return null;
  const names: string[] = [];
  const expression = pattern.replace(/[.+*?^$()|[\]\\]/g, "\\$&").replace(/\{(\w+)\}/g, (_, name: string) => (names.push(name), "([^/]+)"));
  const found = new RegExp(`^${expression}$`).exec(path);
  return found ? Object.fromEntries(names.map((name, index) => [name, decodeURIComponent(found[index + 1]!)])) : null;
}

/** What each role may, as the server has it by default. */
export const ROLES: Record<string, string[]> = (() => {
  const read_only = ["jobs.read", "queues.read", "schedules.read", "workers.read", "alerts.read", "metrics.read"];
  const operator = [...read_only, "jobs.change", "queues.change", "schedules.change", "alerts.change"];
  const admin = [...operator, ...["tasks.read", "tasks.change", "tasks.trigger", "runs.read", "logs.read", "jobs.schedule", "webhooks.read", "webhooks.change", "users.read", "users.change", "tokens.change", "audit.read"]];
  return { admin, operator, read_only, user: [] };
})();

export interface Rendered extends RenderResult {
  api: FakeApi;
  user: UserEvent;
  /** Sends a message of the stream: `emit("jobs", { changed: [], gone: [], more: false })`. */
  emit: (kind: string, data?: unknown) => void;
  /** Where the page is now, below the dashboard: "/jobs?state=failed". */
  where: () => string;
}

/** Renders a page at an address, as somebody with a role (admin unless said otherwise).
 *
 *     const { api, user } = renderPage(<Jobs />, { at: "/jobs?state=failed", api: { "GET /api/admin/jobs": pageOf([]) } });
 */
export function renderPage(page: ReactElement, options: { at?: string; route?: string; api?: Record<string, Answer>; role?: string; may?: string[]; me?: Record<string, unknown> } = {}): Rendered {
  const role = options.role ?? "admin";
  const api = new FakeApi(options.api);
  api.on("GET /auth/me", { account_id: "0198a000-0000-7000-8000-000000000001", email: `${role}@example.org`, role, via: "session", scopes: null, may: options.may ?? ROLES[role] ?? [], app: "default", apps: [], environment: "local", version: "1.0", ...options.me });
  vi.stubGlobal("fetch", api.fetch);
  window.history.replaceState(null, "", `/dashboard${options.at ?? "/"}`);
  const client = makeQueryClient();
  client.setDefaultOptions({ queries: { ...client.getDefaultOptions().queries, retry: false } });
  const rendered = render(
    <QueryClientProvider client={client}>
      <Router base="/dashboard">
        <Keys />
        <SignedIn>
          <LiveProvider on>
            <Suspense fallback="loading the page">
              <Switch>
                {/* With `route="/jobs/:id"` the page's useParams has its parts. */}
                <Route path={options.route ?? "*"}>{page}</Route>
                <Route>left the page</Route>
              </Switch>
            </Suspense>
          </LiveProvider>
        </SignedIn>
        <Toasts />
      </Router>
    </QueryClientProvider>,
  );
  return {
    ...rendered,
    api,
    user: userEvent.setup(),
    emit: (kind, data = { changed: [], gone: [], more: false }) => FakeEventSource.current?.emit(kind, data),
    where: () => (location.pathname + location.search).replace("/dashboard", ""),
  };
}

function Keys() {
  useEffect(listenForKeys, []);
  return null;
}
