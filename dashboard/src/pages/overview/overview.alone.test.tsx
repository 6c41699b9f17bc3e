/** The first page: teaches, flips when the first job comes, says how it goes, and what one may not see. */

import { act, screen, waitFor, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { never, offline, pageOf, problem, renderPage } from "@/test/kit";
import Overview from "./index";

vi.mock("@/ui/chart-canvas", () => ({ default: ({ series }: { series: { label: string }[] }) => <p>drawn: {series.map((each) => each.label).join(", ")}</p> }));

const none = { count: 0, capped: false, estimated: false };
const HEALTHY = {
  at: "2026-02-22T10:00:00Z",
  app: "default",
  environment: "local",
  version: "1.0",
  health: "ok",
  sentence: "All is well",
  problems: [],
  queued: { count: 10_000, capped: true, estimated: false },
  delayed: { count: 61_234, capped: false, estimated: true },
  running: { count: 7, capped: false, estimated: false },
  waiting: none,
  oldest: { queue: "mail", age: "PT4M" },
  failed_1h: { count: 2, capped: false, estimated: false },
  workers: { live: 2, silent: 0, dead: 1, slots: 32, busy: 7 },
  alerts: { open: none, worst: null },
  next_run: { at: new Date(Date.now() + 240_000).toISOString(), late: false, id: "s1", name: "nightly", task: "close", kind: "cron", words: "At 03:00 every day", resting: false },
};
const EMPTY = { ...HEALTHY, health: "empty", sentence: "Nothing has run yet", queued: none, delayed: none, running: none, oldest: null, failed_1h: none, next_run: null };
const SERIES = { period: "1h", width: 60, at: [1, 2], completed: [5, 6], failed: [0, 1], canceled: [0, 0], p50: [0.1, null], p95: [0.2, null], wait_p50: [null, null], wait_p95: [null, null], hourly_before: null, complete: true };
const group = { fingerprint: "3f9a", type: "ValueError", message: "<img src=x onerror=alert(1)>", tasks: ["charge"], count: { count: 12, capped: false, estimated: false }, first_seen: "2026-02-22T09:00:00Z", last_seen: "2026-02-22T09:59:00Z" };
const upcoming = { ...HEALTHY.next_run, late: true, at: new Date(Date.now() - 180_000).toISOString() };
const API = {
  "GET /api/admin/overview": HEALTHY as unknown,
  "GET /api/admin/stats/series": SERIES as unknown,
  "GET /api/admin/errors": pageOf([group]) as unknown,
  "GET /api/admin/upcoming": pageOf([upcoming]) as unknown,
};

test("shows how it goes: the sentence, the numbers, charts, errors, next runs", async () => {
  const { api } = renderPage(<Overview />, { api: API });
  expect((await screen.findByRole("status", { name: "Health" })).textContent).toContain("All is well");
  const tiles = within(screen.getByRole("list", { name: "Now" }));
  expect(tiles.getByRole("link", { name: /Queued 10k\+ ≈ 61.2k not due yet/ })).toBeTruthy();
  expect(tiles.getByRole("link", { name: /Running 7 of 32 slots/ })).toBeTruthy();
  expect(tiles.getByRole("link", { name: /Oldest wait 4 min in mail/ }).getAttribute("href")).toBe("/dashboard/queues/mail");
  expect(tiles.getByRole("link", { name: /Failed 2/ })).toBeTruthy();
  expect(tiles.getByRole("link", { name: /Live workers 2 1 died in the last day/ })).toBeTruthy();
  expect(tiles.getByRole("link", { name: /Next run in 4 min nightly/ })).toBeTruthy();
  expect(await screen.findByText("drawn: completed, failed, canceled")).toBeTruthy();
  expect(api.of("GET /api/admin/stats/series")[0]!.query.get("period")).toBe("1h");
  expect(await screen.findByText("<img src=x onerror=alert(1)>")).toBeTruthy(); // as text
  const next = within(await screen.findByRole("table", { name: "Next runs" }));
  expect(next.getByText("late")).toBeTruthy();
});

test("says what is wrong as one sentence of links, all of it on demand", async () => {
  const problems = [
    { code: "queue_behind", severity: "error", queues: ["mail"], sentence: "mail is 4 min behind" },
    { code: "queue_paused", severity: "warning", queues: ["a", "b"], sentence: "2 queues are paused: a, b" },
    { code: "schedule_late", severity: "error", queues: [], sentence: "1 schedule is late" },
    { code: "worker_dead", severity: "warning", queues: [], sentence: "1 worker has died with 2 jobs in hand" },
    { code: "jobs_failed", severity: "warning", queues: [], sentence: "9 jobs failed in the last hour" },
  ];
  const { user } = renderPage(<Overview />, { api: { ...API, "GET /api/admin/overview": { ...HEALTHY, health: "error", problems } } });
  const health = await screen.findByRole("status", { name: "Health" });
  expect(health.textContent).toBe("mail is 4 min behind; 2 queues are paused: a, b; 1 schedule is late; and 2 more");
  expect(within(health).getByRole("link", { name: "2 queues are paused: a, b" }).getAttribute("href")).toBe("/dashboard/queues");
  expect(within(health).getByRole("link", { name: "mail is 4 min behind" }).getAttribute("href")).toBe("/dashboard/queues/mail");
  await user.click(within(health).getByRole("button", { name: "and 2 more" }));
  expect(within(health).getByRole("link", { name: "9 jobs failed in the last hour" })).toBeTruthy();
});

test("teaches when nothing has run, and flips when the first job comes", async () => {
  const { api, emit } = renderPage(<Overview />, { api: { ...API, "GET /api/admin/overview": EMPTY } });
  expect(await screen.findByText("waiting for the first job…")).toBeTruthy();
  expect(screen.getByText(/@app.task/)).toBeTruthy();
  expect(screen.getByRole("button", { name: "Copy the code" })).toBeTruthy();
  expect(screen.queryByRole("list", { name: "Now" })).toBeNull();
  api.on("GET /api/admin/overview", HEALTHY);
  act(() => emit("jobs"));
  expect(await screen.findByRole("list", { name: "Now" }, { timeout: 3000 })).toBeTruthy();
  expect(screen.queryByText("waiting for the first job…")).toBeNull();
});

test("does not call workers responding when there is none", async () => {
  renderPage(<Overview />, { api: { ...API, "GET /api/admin/overview": { ...HEALTHY, workers: { live: 0, silent: 0, dead: 0, slots: 0, busy: 0 } } } });
  const tiles = within(await screen.findByRole("list", { name: "Now" }));
  expect(tiles.getByRole("link", { name: "Live workers 0 none is running" })).toBeTruthy();
});

test("tells that no worker is there to run the first job", async () => {
  renderPage(<Overview />, { api: { ...API, "GET /api/admin/overview": { ...EMPTY, workers: { live: 0, silent: 0, dead: 0, slots: 0, busy: 0 } } } });
  expect(await screen.findByText(/No worker is live now/)).toBeTruthy();
});

test("explains the demo, and only the demo", async () => {
  const { unmount } = renderPage(<Overview />, { me: { app: "rota-demo" }, api: API });
  expect(await screen.findByText(/This is the demo/)).toBeTruthy();
  unmount();
  renderPage(<Overview />, { api: API });
  await screen.findByRole("list", { name: "Now" });
  expect(screen.queryByText(/This is the demo/)).toBeNull();
});

test("waits, says errors, tries again, and keeps what it has when the server goes away", async () => {
  const first = renderPage(<Overview />, { api: { ...API, "GET /api/admin/overview": never } });
  expect(await screen.findByRole("status", { name: "Loading" })).toBeTruthy();
  first.unmount();
  const { api, user, emit } = renderPage(<Overview />, { api: { ...API, "GET /api/admin/overview": problem(503, "too_slow", "ask for less") } });
  expect(await screen.findByText("ask for less")).toBeTruthy();
  api.on("GET /api/admin/overview", HEALTHY);
  await user.click(screen.getByRole("button", { name: "Try again" }));
  expect(await screen.findByText("All is well")).toBeTruthy();
  api.on("GET /api/admin/overview", offline);
  act(() => emit("jobs"));
  expect(await screen.findByText("The server cannot be reached", undefined, { timeout: 3000 })).toBeTruthy();
  expect(screen.getByText("All is well")).toBeTruthy();
});

test("keeps the period in the address, by click and by key", async () => {
  const { api, user, where } = renderPage(<Overview />, { at: "/?period=24h", api: API });
  const day = await screen.findByRole("button", { name: "24h" });
  expect(day.getAttribute("aria-pressed")).toBe("true");
  expect(api.of("GET /api/admin/stats/series")[0]!.query.get("period")).toBe("24h");
  await user.click(screen.getByRole("button", { name: "7d" }));
  expect(where()).toBe("/?period=7d");
  await user.keyboard("-");
  expect(where()).toBe("/?period=24h");
  await waitFor(() => expect(api.of("GET /api/admin/stats/series").some((call) => call.query.get("period") === "7d")).toBe(true));
});

test("does not ask for what the role may not see, and says why it is not there", async () => {
  const { api } = renderPage(<Overview />, { role: "read_only", api: API });
  expect(await screen.findByText(/Charts and errors are made of runs.*read-only/)).toBeTruthy();
  expect(api.of("GET /api/admin/stats/series")).toHaveLength(0);
  expect(api.of("GET /api/admin/errors")).toHaveLength(0);
  expect(await screen.findByRole("table", { name: "Next runs" })).toBeTruthy();
});

test("has a good word when there are no errors, and teaches schedules when there are none", async () => {
  renderPage(<Overview />, { api: { ...API, "GET /api/admin/errors": pageOf([]), "GET /api/admin/upcoming": pageOf([]) } });
  expect(await screen.findByText("No errors in the last 24 hours")).toBeTruthy();
  expect(await screen.findByText("Nothing runs by itself yet")).toBeTruthy();
});
