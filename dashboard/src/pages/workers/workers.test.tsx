/** Workers: what each does, those that have died, one of them, and none at all. */

import { act, screen, within } from "@testing-library/react";
import { expect, test } from "vitest";
import { never, pageOf, problem, renderPage } from "@/test/kit";
import Workers from "./index";

const ago = (s: number) => new Date(Date.now() - s * 1000).toISOString();
const worker = (id: string, change: object = {}) => ({
  id,
  state: "live",
  host: "node-a",
  pid: 42,
  app: "shop",
  version: "1.0",
  queues: ["default", "mail"],
  tasks: ["send", "charge"],
  slots: 16,
  holds: 3,
  jobs: ["j1", "j2", "j3"].map((job) => ({ id: job, task: `task_${job}`, claimed_at: ago(5), lease_until: ago(-30) })),
  started_at: ago(3600),
  seen_at: ago(4),
  seen_ago: "PT4S",
  stopped_at: null,
  stop_reason: null,
  ...change,
});
const LIST = "GET /api/admin/workers";
const dead = worker("w2", { pid: 43, state: "dead", seen_at: ago(600), stopped_at: ago(0), stop_reason: "died", holds: 0, jobs: [] });

test("lists workers with heartbeat, slots, current jobs, queues and version", async () => {
  renderPage(<Workers />, { api: { [LIST]: pageOf([worker("w1"), dead]) } });
  const link = await screen.findByRole("link", { name: "node-a:42" });
  const row = link.closest("tr")!;
  expect(within(row).getByText("live")).toBeTruthy();
  expect(row.textContent).toMatch(/\d s ago/);
  expect(row.textContent).toContain("3 of 16");
  expect(within(row).getByRole("meter").getAttribute("aria-valuenow")).toBe("3");
  expect(within(row).getByRole("link", { name: "task_j1" }).getAttribute("href")).toBe("/dashboard/jobs/j1");
  expect(row.textContent).toContain("+1");
  expect(row.textContent).toContain("default, mail");
  expect(screen.getByText("Workers that have ended stay here for a day.")).toBeTruthy();
});

test("says when a dead worker was last seen, not when its death was noticed", async () => {
  renderPage(<Workers />, { at: "/workers?worker=w2", api: { [LIST]: pageOf([dead]), "GET /api/admin/workers/{id}": dead } });
  const row = (await screen.findByRole("link", { name: "node-a:43" })).closest("tr")!;
  expect(within(row).getByText("dead")).toBeTruthy();
  expect(within(row).getByText("10 min ago")).toBeTruthy();
  expect(within(row).queryByText("now")).toBeNull();
  const sheet = await screen.findByRole("dialog", { name: "node-a:43" });
  expect((await within(sheet).findByText("Last seen")).nextSibling!.textContent).toBe("10 min ago");
  expect(within(sheet).getByText("Found dead").nextSibling!.textContent).toBe("now; live workers take over its jobs");
});

test("filters by state, in the address", async () => {
  const { user, where } = renderPage(<Workers />, { at: "/workers", api: { [LIST]: pageOf([worker("w1"), dead]) } });
  await user.click(await screen.findByRole("button", { name: /dead/ }));
  expect(where()).toBe("/workers?state=dead");
  expect(screen.queryByText("node-a:42")).toBeNull();
  expect(screen.getByText("node-a:43")).toBeTruthy();
});

test("says when several versions are live", async () => {
  renderPage(<Workers />, { api: { [LIST]: pageOf([worker("w1"), worker("w3", { version: "0.9" })]) } });
  expect(await screen.findByText("2 versions are live: 1.0, 0.9")).toBeTruthy();
});

test("shows one, with all its jobs and tasks; Escape closes it", async () => {
  const { user, where } = renderPage(<Workers />, { at: "/workers", api: { [LIST]: pageOf([worker("w1")]), "GET /api/admin/workers/{id}": worker("w1") } });
  await screen.findByText("node-a:42");
  await user.keyboard("jo");
  const sheet = await screen.findByRole("dialog", { name: "node-a:42" });
  expect(where()).toBe("/workers?worker=w1");
  expect(within(sheet).getByRole("link", { name: "task_j3" })).toBeTruthy();
  expect(within(sheet).getByRole("link", { name: "charge" }).getAttribute("href")).toBe("/dashboard/tasks/charge");
  await user.keyboard("{Escape}");
  expect(screen.queryByRole("dialog")).toBeNull();
});

test("says that one is forgotten", async () => {
  renderPage(<Workers />, { at: "/workers?worker=w9", api: { [LIST]: pageOf([]), "GET /api/admin/workers/{id}": problem(404, "not_found", "there is no worker w9 of the last day") } });
  expect(await screen.findByText("there is no worker w9 of the last day")).toBeTruthy();
});

test("teaches when there is none, and flips when one comes", async () => {
  const { api, emit } = renderPage(<Workers />, { api: { [LIST]: pageOf([]) } });
  expect(await screen.findByText("waiting for the first worker…")).toBeTruthy();
  expect(screen.getByText("rota worker -a app")).toBeTruthy();
  api.on(LIST, pageOf([worker("w1")]));
  act(() => emit("workers"));
  expect(await screen.findByText("node-a:42", undefined, { timeout: 3000 })).toBeTruthy();
});

test("waits, and says errors", async () => {
  const { unmount } = renderPage(<Workers />, { api: { [LIST]: never } });
  expect(await screen.findByRole("table", { name: "Workers", busy: true })).toBeTruthy();
  unmount();
  renderPage(<Workers />, { api: { [LIST]: problem(403, "forbidden", "you may not see workers") } });
  expect(await screen.findByText("you may not see workers")).toBeTruthy();
});
