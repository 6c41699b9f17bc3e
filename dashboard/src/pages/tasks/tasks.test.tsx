/** Tasks: the list, switches, what the database says otherwise than the code, and a sync. */

import { act, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { never, pageOf, problem, renderPage } from "@/test/kit";
import { taskView } from "./fixture";
import Tasks from "./index";

const LIST = "GET /api/admin/tasks";
const PLAN = { changes: [], drift: [], payloads: [], orphans: [], scanned: 0, cut: false };
const STATS = { task: "send", period: "PT24H", completed: 90, failed: 10, canceled: 0, snoozed: 0, released: 0, lost: 0, per_minute: 1, failure_rate: 0.1, duration: { p50: "PT0.02S", p95: "PT0.3S", p99: "PT2S" }, wait: null };
const API = { [LIST]: pageOf([taskView("send"), taskView("charge")]) as unknown, "GET /api/admin/stats/tasks": pageOf([STATS]) as unknown, "GET /api/admin/plan": PLAN as unknown };

test("lists tasks with docs, percentiles and what is not as usual", async () => {
  renderPage(<Tasks />, {
    api: { ...API, [LIST]: pageOf([taskView("send"), taskView("old", { deleted_from_code_at: "2026-02-22T10:00:00Z" }, { workers: 0 }), taskView("lost", {}, { workers: 0 }), taskView("off", { enabled: false, overrides: { rate: "1/1s" } })]) },
  });
  const row = (await screen.findByRole("link", { name: "send" })).closest("tr")!;
  await waitFor(() => expect(row.textContent).toContain("300 ms"));
  expect(row.textContent).toContain("Greets somebody.");
  expect(row.textContent).toContain("10 %");
  expect(row.textContent).toContain("100");
  expect(screen.getByText("no live worker knows this").closest("tr")!.textContent).toContain("lost");
  expect(screen.getByText("not in code").closest("tr")!.textContent).toContain("old");
  expect(screen.getByText("1 changed").closest("tr")!.textContent).toContain("disabled");
});

test("finds by words, in the address", async () => {
  const { user, where } = renderPage(<Tasks />, { at: "/tasks", api: API });
  await screen.findByRole("link", { name: "send" });
  await user.type(screen.getByRole("combobox", { name: "Search tasks" }), "char{Enter}");
  await waitFor(() => expect(screen.queryByRole("link", { name: "send" })).toBeNull());
  expect(where()).toBe("/tasks?q=char");
  expect(screen.getByRole("link", { name: "charge" })).toBeTruthy();
});

test("finds by the fields that code gives a task", async () => {
  renderPage(<Tasks />, { at: "/tasks?q=Team:Shipping", api: { ...API, [LIST]: pageOf([taskView("send"), taskView("pack", { fields: { team: "shipping", sla_hours: 4 } })]) } });
  expect(await screen.findByRole("link", { name: "pack" })).toBeTruthy();
  expect(screen.queryByRole("link", { name: "send" })).toBeNull();
});

test("disables with a reason, enables at once", async () => {
  const { api, user } = renderPage(<Tasks />, { api: { ...API, "POST /api/admin/tasks/{name}/disable": problem(404, "not_found", "gone"), "POST /api/admin/tasks/{name}/enable": taskView("send") } });
  await user.click(await screen.findByRole("switch", { name: "send enabled" }));
  const dialog = screen.getByRole("dialog", { name: "Disable send" });
  await user.type(within(dialog).getByLabelText("Reason"), "too loud");
  await user.click(within(dialog).getByRole("button", { name: "Disable" }));
  expect(await within(dialog).findByText("gone")).toBeTruthy();
  api.on("POST /api/admin/tasks/{name}/disable", taskView("send"));
  api.on(LIST, pageOf([taskView("send", { enabled: false })]));
  await user.click(within(dialog).getByRole("button", { name: "Disable" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(api.of("POST /api/admin/tasks/send/disable").at(-1)!.body).toEqual({ reason: "too loud" });
  await waitFor(() => expect(screen.getByRole("switch", { name: "send enabled" }).getAttribute("aria-checked")).toBe("false"));
  await user.click(screen.getByRole("switch", { name: "send enabled" }));
  await waitFor(() => expect(api.of("POST /api/admin/tasks/send/enable")).toHaveLength(1));
});

test("does not switch for who may not", async () => {
  const { user } = renderPage(<Tasks />, { may: ["tasks.read"], role: "operator", api: API });
  await user.click(await screen.findByRole("switch", { name: "send enabled" }));
  expect(screen.queryByRole("dialog")).toBeNull();
  expect((await screen.findByRole("tooltip")).textContent).toContain("may not change tasks");
});

test("teaches, waits, and says errors", async () => {
  const first = renderPage(<Tasks />, { api: { ...API, [LIST]: pageOf([]) } });
  expect(await screen.findByText("No tasks yet")).toBeTruthy();
  first.api.on(LIST, pageOf([taskView("send")]));
  act(() => first.emit("tasks"));
  expect(await screen.findByRole("link", { name: "send" }, { timeout: 3000 })).toBeTruthy();
  first.unmount();
  const second = renderPage(<Tasks />, { api: { ...API, [LIST]: never } });
  expect(await screen.findByRole("table", { name: "Tasks", busy: true })).toBeTruthy();
  second.unmount();
  renderPage(<Tasks />, { role: "operator", api: { ...API, [LIST]: problem(403, "forbidden", "tasks are for admins") } });
  expect(await screen.findByText("tasks are for admins")).toBeTruthy();
});

describe("code and database", () => {
  const plan = {
    ...PLAN,
    changes: [
      { task: "fresh", kind: "new", fields: {}, system: false },
      { task: "send", kind: "changed", fields: { queue: ["default", "mail"] }, system: false },
      { task: "old", kind: "gone", fields: {}, system: false },
      { task: "other", kind: "kept", fields: {}, system: false },
    ],
    drift: [{ task: "charge", setting: "rate", code: null, database: "100/60s" }],
  };
  const misfits = { ...plan, scanned: 120, payloads: [{ task: "send", jobs: 3, schedules: 1, examples: [["job 1", "user_id is missing"]] }] };
  const api = { ...API, "GET /api/admin/plan": (call: { query: URLSearchParams }) => (call.query.get("scan") === "0" ? plan : misfits) };

  test("are compared, quickly at first, and with live jobs on demand", async () => {
    const { user, where, api: server } = renderPage(<Tasks />, { at: "/tasks", api });
    expect(await screen.findByText(/differ in 3 tasks/)).toBeTruthy();
    await user.click(screen.getByRole("tab", { name: /Code and database/ }));
    const changes = within(screen.getByRole("table", { name: "Changes" }));
    expect(changes.getByText(/queue:/).textContent).toBe("queue: default → mail");
    expect(changes.getByText("gone")).toBeTruthy();
    expect(screen.getByRole("table", { name: "Drift" }).textContent).toContain("100/60s");
    expect(server.of("GET /api/admin/plan").every((call) => call.query.get("scan") === "0")).toBe(true);
    await user.click(screen.getByRole("button", { name: "Look through live jobs too" }));
    expect(where()).toBe("/tasks?tab=sync&scan=1");
    expect(await screen.findByText(/user_id is missing/)).toBeTruthy();
    expect(screen.getByText("120 were looked at")).toBeTruthy();
  });

  test("are synced, with what operators have set given up only where one says so", async () => {
    const { user, api: server } = renderPage(<Tasks />, { at: "/tasks?tab=sync", api: { ...api, "POST /api/admin/sync": problem(409, "conflict", "try again") } });
    await user.click(await screen.findByRole("button", { name: "Sync" }));
    const dialog = screen.getByRole("dialog", { name: "Sync the code's tasks" });
    expect(within(dialog).getByText(/Gone from this code.*old/)).toBeTruthy();
    await user.click(within(dialog).getByRole("button", { name: "Sync" }));
    expect(await within(dialog).findByText("try again")).toBeTruthy();
    expect(server.of("POST /api/admin/sync")[0]!.body).toEqual({ force: [] });
    server.on("POST /api/admin/sync", { created: ["fresh"], changed: ["send"], returned: [], gone: ["old"] });
    await user.click(within(dialog).getByRole("checkbox", { name: /charge: as code says/ }));
    await user.click(within(dialog).getByRole("button", { name: "Sync" }));
    expect(await screen.findByText("Synced: 1 created, 1 changed, 1 gone")).toBeTruthy();
    expect(server.of("POST /api/admin/sync")[1]!.body).toEqual({ force: ["charge"] });
  });

  test("agree, and say so", async () => {
    renderPage(<Tasks />, { at: "/tasks?tab=sync", api: API });
    expect(await screen.findByText("Code and database agree")).toBeTruthy();
    expect(screen.getByRole("button", { name: "Sync" }).getAttribute("aria-disabled")).toBe("true");
  });
});
