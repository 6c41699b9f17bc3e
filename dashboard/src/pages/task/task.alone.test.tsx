/** One task: doc, schema, settings with reset and conflicts, the run form, runs and schedules. */

import { act, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, test, vi } from "vitest";
import { taskView } from "@/pages/tasks/fixture";
import { never, pageOf, problem, renderPage } from "@/test/kit";
import TaskPage from "./index";
import { SETTINGS, bodyOf, spanText, wrongSetting } from "./settings-fields";

vi.mock("@/ui/chart-canvas", () => ({ default: () => <p>drawn</p> }));

const ONE = "GET /api/admin/tasks/{name}";
const stats = { task: "send", period: "PT1H", completed: 90, failed: 8, canceled: 0, snoozed: 0, released: 0, lost: 2, per_minute: 1, failure_rate: 0.1, duration: { p50: "PT0.02S", p95: "PT0.3S", p99: "PT2S" }, wait: { p50: "PT0.01S", p95: "PT7S", p99: "PT9S" } };
const SERIES = { period: "1h", width: 60, at: [1], completed: [5], failed: [0], canceled: [0], p50: [0.1], p95: [0.2], wait_p50: [null], wait_p95: [null], hourly_before: null, complete: true };
const run = { job_id: "0198a000-0000-7000-8000-0000000000aa", attempt: 2, task: "send", queue: "default", status: "failed", final: true, started_at: new Date().toISOString(), finished_at: null, duration: "PT1S", error_type: "ValueError", error: "<svg onload=alert(1)>" };
const API = {
  [ONE]: taskView("send") as unknown,
  "GET /api/admin/tasks/{name}/stats": { "1h": stats, "24h": stats, "7d": stats } as unknown,
  "GET /api/admin/stats/series": SERIES as unknown,
  "GET /api/admin/runs": pageOf([run]) as unknown,
  "GET /api/admin/schedules": pageOf([]) as unknown,
};
const render = (at: string, api: object = {}, more: object = {}) => renderPage(<TaskPage />, { at, route: "/tasks/:name", api: { ...API, ...api }, ...more });
const answer = (body: unknown, etag: string) => () => new Response(JSON.stringify(body), { headers: { "content-type": "application/json", etag } });

test("shows doc, percentiles, chart and runs; hostile text is text", async () => {
  const { api } = render("/tasks/send");
  expect(await screen.findByText(/With <script>alert\(1\)<\/script>/)).toBeTruthy();
  const percentiles = await screen.findByRole("table", { name: "Percentiles" });
  await waitFor(() => expect(percentiles.textContent).toContain("10 (10 %)"));
  expect(percentiles.textContent).toContain("7 s");
  expect((await screen.findAllByText("drawn")).length).toBe(2);
  expect(api.of("GET /api/admin/stats/series")[0]!.query.get("task")).toBe("send");
  expect(await screen.findByText("<svg onload=alert(1)>")).toBeTruthy();
  expect(screen.getByText("team:billing")).toBeTruthy();
});

test("says that it is disabled, why, by whom, and what waits", async () => {
  render("/tasks/send", { [ONE]: taskView("send", { enabled: false, disabled_at: new Date().toISOString(), disabled_by: "ada@example.org", disable_reason: "too loud" }, { held: { count: 10_000, capped: true, estimated: false } }) });
  expect(await screen.findByText(/by ada@example.org: too loud/)).toBeTruthy();
  expect(screen.getByText("10k+")).toBeTruthy();
});

test("says that its schedule was deleted, and restores it", async () => {
  const { api, user } = render("/tasks/send", { [ONE]: taskView("send", { schedule_deleted_at: new Date().toISOString() }), "POST /api/admin/schedules/{name}/restore": { name: "send" } });
  await user.click(await screen.findByRole("button", { name: "Restore schedule" }));
  await waitFor(() => expect(api.of("POST /api/admin/schedules/{name}/restore").map((sent) => sent.path)).toEqual(["/api/admin/schedules/send/restore"]));
  expect(await screen.findByText("Schedule restored")).toBeTruthy();
});

test("shows arguments and schema, and schedules", async () => {
  const { user, where } = render("/tasks/send", {
    "GET /api/admin/schedules": pageOf([{ record: { id: "s1", name: "nightly", task: "send", key: null, enabled: true, timing: { strategy: "cron", cron: "0 3 * * *", tz: "Europe/Berlin" }, next_run_at: null, last_run_at: null }, outcome: null, reason: null, job_state: null }]),
  });
  await user.click(await screen.findByRole("tab", { name: "Payload" }));
  expect(where()).toBe("/tasks/send?tab=schema");
  const table = screen.getByRole("table", { name: "Arguments" });
  expect(within(table).getByRole("row", { name: /user_id integer required Whom/ })).toBeTruthy();
  await user.click(screen.getByRole("tab", { name: "Schedules" }));
  expect((await screen.findByRole("link", { name: "nightly" })).closest("tr")!.textContent).toContain("0 3 * * * Europe/Berlin");
});

describe("the run form", () => {
  test("is made from the schema, checks, sends, and leads to the job", async () => {
    const { api, user, where } = render("/tasks/send", { "POST /api/admin/tasks/{name}/trigger": { id: run.job_id } });
    await screen.findByRole("heading", { name: /send/ });
    await user.keyboard("r");
    expect(where()).toBe("/tasks/send?run=1");
    const dialog = screen.getByRole("dialog", { name: "Run send" });
    await user.type(within(dialog).getByLabelText(/user_id/), "42");
    await user.type(within(dialog).getByLabelText("Delay"), "5");
    expect(within(dialog).getByText(/a time with its unit/)).toBeTruthy();
    await user.click(within(dialog).getByRole("button", { name: "Run" }));
    expect(api.of("POST /api/admin/tasks/send/trigger")).toHaveLength(0);
    await user.type(within(dialog).getByLabelText("Delay"), "m");
    expect(within(dialog).getByText("Smaller runs first. Empty: 0.")).toBeTruthy();
    await user.type(within(dialog).getByLabelText("Priority"), "-32768");
    await user.type(within(dialog).getByLabelText("Key"), "welcome:42");
    await user.click(within(dialog).getByRole("button", { name: "Run" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(api.of("POST /api/admin/tasks/send/trigger")[0]!.body).toEqual({ payload: { user_id: 42 }, delay: "5m", priority: -32768, key: "welcome:42" });
    await user.click(await screen.findByRole("button", { name: "Open it" }));
    expect(where()).toBe(`/jobs/${run.job_id}`);
  });

  test("shows what the server says where it belongs", async () => {
    const { user } = render("/tasks/send?run=1", { "POST /api/admin/tasks/{name}/trigger": problem(422, "payload", "it does not fit", [{ field: "payload.user_id", code: "missing", detail: "is missing" }]) });
    const dialog = await screen.findByRole("dialog", { name: "Run send" });
    await user.click(within(dialog).getByRole("button", { name: "Run" }));
    expect(await within(dialog).findByText("is missing")).toBeTruthy();
  });

  test("warns when nobody would run it", async () => {
    const { unmount } = render("/tasks/send?run=1", { [ONE]: taskView("send", {}, { workers: 0 }) });
    expect(await screen.findByText(/No live worker knows this task/)).toBeTruthy();
    unmount();
    render("/tasks/send?run=1", { [ONE]: taskView("send", { deleted_from_code_at: "2026-02-22T10:00:00Z" }) });
    const dialog = await screen.findByRole("dialog", { name: "Run send" });
    expect(within(dialog).getByText(/it cannot be run/)).toBeTruthy();
    expect(within(dialog).getByRole("button", { name: "Run" }).getAttribute("aria-disabled")).toBe("true");
  });
});

describe("settings", () => {
  const changed = taskView("send", { max_concurrency: 3, overrides: { max_concurrency: 3, timeout_s: 60 }, timeout_s: 60 });

  test("show what holds against what code says, and are reset one by one", async () => {
    const { api, user } = render("/tasks/send?tab=settings", { [ONE]: changed, "DELETE /api/admin/tasks/{name}/settings": taskView("send") });
    const row = (await screen.findByText("Time limit")).closest("tr")!;
    expect(row.textContent).toContain("1m");
    expect(row.textContent).toContain("1m30s");
    expect(within(row).getByText("set by operators")).toBeTruthy();
    await user.click(within(row).getByRole("button", { name: "Reset timeout" }));
    const dialog = screen.getByRole("dialog", { name: "Reset timeout" });
    expect(within(dialog).getByText(/what code says: 1m30s/)).toBeTruthy();
    await user.click(within(dialog).getByRole("button", { name: "Reset" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(api.of("DELETE /api/admin/tasks/send/settings")[0]!.query.getAll("setting")).toEqual(["timeout"]);
  });

  test("are edited: checked, only what differs is sent, with the version", async () => {
    const { api, user } = render("/tasks/send?tab=settings", { [ONE]: answer(taskView("send"), '"v1"'), "PUT /api/admin/tasks/{name}/settings": taskView("send") });
    await user.click(await screen.findByRole("button", { name: "Edit" }));
    const dialog = await screen.findByRole("dialog", { name: "Settings of send" });
    const timeout = await within(dialog).findByLabelText("Time limit");
    expect((timeout as HTMLInputElement).value).toBe("1m30s");
    expect((within(dialog).getByLabelText("At once for a key") as HTMLInputElement).disabled).toBe(true);
    await user.clear(timeout);
    await user.type(timeout, "soon");
    expect(within(dialog).getByText(/a time with its unit/)).toBeTruthy();
    await user.clear(timeout);
    await user.type(within(dialog).getByLabelText("Longest wait before a retry"), "x");
    expect(within(dialog).getByRole("button", { name: "Save" }).getAttribute("aria-disabled")).toBe("true");
    await user.type(within(dialog).getByLabelText("Longest wait before a retry"), "{Backspace}5s");
    await user.type(within(dialog).getByLabelText("Rate of starts"), "100/m");
    await user.click(within(dialog).getByRole("button", { name: "Save" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    const [call] = api.of("PUT /api/admin/tasks/send/settings");
    expect(call!.body).toEqual({ timeout: null, retry: { cap: "10m5s" }, rate: "100/m" });
    expect(call!.headers["if-match"]).toBe('"v1"');
  });

  test("say what somebody else has changed meanwhile, and take it over", async () => {
    const { api, user } = render("/tasks/send?edit=1", {
      [ONE]: answer(taskView("send"), '"v1"'),
      "PUT /api/admin/tasks/{name}/settings": problem(412, "stale", "task 'send' has been changed meanwhile"),
      "GET /api/admin/audit": pageOf([{ id: 1, at: new Date().toISOString(), actor: "ada@example.org", role: "admin", via: null, operation: "tasks.update", target: "send", detail: {}, account_id: null }]),
    });
    const dialog = await screen.findByRole("dialog", { name: "Settings of send" });
    await user.type(await within(dialog).findByLabelText("At once"), "5");
    api.on(ONE, answer(taskView("send", { max_concurrency: 8 }), '"v2"'));
    await user.click(within(dialog).getByRole("button", { name: "Save" }));
    expect(await within(dialog).findByText("max_concurrency: none → 8")).toBeTruthy();
    expect(await within(dialog).findByText(/ada@example.org/)).toBeTruthy();
    await user.click(within(dialog).getByRole("button", { name: "Reload it" }));
    expect((within(dialog).getByLabelText("At once") as HTMLInputElement).value).toBe("8");
  });

  test("are not for who may not", async () => {
    const { user } = render("/tasks/send?tab=settings", { [ONE]: changed }, { role: "operator", may: ["tasks.read", "runs.read"] });
    const edit = await screen.findByRole("button", { name: "Edit" });
    await user.click(edit);
    expect(screen.queryByRole("dialog")).toBeNull();
    expect((await screen.findByRole("tooltip")).textContent).toContain("may not change tasks");
    expect(screen.getByRole("button", { name: "Run" }).getAttribute("aria-disabled")).toBe("true");
  });

  test("are read and written as people do", () => {
    expect([spanText(90), spanText(0.6), spanText(3661), spanText(0), spanText(null)]).toEqual(["1m30s", "600ms", "1h1m1s", "0s", ""]);
    const payload = SETTINGS.find((each) => each.name === "default_payload")!;
    expect(wrongSetting(payload, "[1]")).toBe("an object: { … }");
    expect(wrongSetting(payload, "{")).toBeTruthy();
    expect(bodyOf({ default_payload: '{"a": 1}' }, { default_payload: '{ "a":1 }' })).toEqual({});
    expect(bodyOf({ max_attempts: "5" }, { max_attempts: "6" })).toEqual({ max_attempts: 6 });
  });
});

test("waits, says errors, and leads back from what is not there", async () => {
  const { unmount } = render("/tasks/send", { [ONE]: never });
  expect(await screen.findByRole("status", { name: "Loading" })).toBeTruthy();
  unmount();
  render("/tasks/nope", { [ONE]: problem(404, "not_found", "there is no task 'nope'") });
  expect(await screen.findByText("there is no task 'nope'")).toBeTruthy();
  expect(screen.getByRole("link", { name: "All tasks" })).toBeTruthy();
});

test("teaches when it has not run, and flips when it does", async () => {
  const { api, emit } = render("/tasks/send", { "GET /api/admin/runs": pageOf([]) });
  expect(await screen.findByText("waiting for the first run…")).toBeTruthy();
  api.on("GET /api/admin/runs", pageOf([run]));
  act(() => emit("runs"));
  expect(await screen.findByText("ValueError", undefined, { timeout: 3000 })).toBeTruthy();
});
