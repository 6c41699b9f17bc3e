/** The table of schedules, its actions, and what is at its side. */

import { act, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { never, pageOf, problem, renderPage } from "@/test/kit";
import Schedules from "./index";
import { line, preview, record } from "./sample";

const LIST = "GET /api/admin/schedules";
const BASE = { "GET /api/admin/schedules/preview": preview(), "GET /api/admin/firings": pageOf([]) };

function firing(outcome: string, more: object = {}) {
  return { at: "2026-03-25T02:00:00Z", until: null, instants: 1, outcome, reason: null, late: [], job_id: null, started_at: null, finished_at: null, ...more };
}

describe("the table", () => {
  test("says when each fires, in words, and what became of the last times", async () => {
    const firings = [firing("completed"), firing("failed"), firing("missed", { reason: "outage", instants: 7 })];
    renderPage(<Schedules />, { at: "/schedules", api: { ...BASE, [LIST]: pageOf([line("nightly")]), "GET /api/admin/firings": pageOf([{ id: "id-nightly", firings }]) } });
    const table = await screen.findByRole("table", { name: "Schedules" });
    expect((await within(table).findAllByText("At 03:00 every day")).length).toBe(2); // in its column, and below the name on a phone
    expect(within(table).getByText("0 3 * * *")).toBeTruthy();
    expect(within(table).getByText(/Europe\/Berlin/)).toBeTruthy();
    expect(within(table).getByText("in 1 h")).toBeTruthy();
    expect(within(table).getByText("completed")).toBeTruthy();
    expect(await within(table).findByRole("img", { name: "Last firings of nightly: 1 fine, 1 bad, 1 not run" })).toBeTruthy();
  });

  test("knows intervals, single times, recurring rows and late ones", async () => {
    const rows = [
      line("often", { timing: { strategy: "interval", cron: null, every: "PT1H30M" }, next_run_at: new Date(Date.now() - 600_000).toISOString() }),
      line("single", { timing: { strategy: "interval", cron: null, every: "P1D", starts_at: "2026-05-01T10:00:00Z", ends_at: "2026-05-01T10:00:01Z" }, enabled: false }),
      line("x", { name: null, task: "fetch_feed", key: "feed:7", timing: { strategy: "recurring", cron: null, every: "PT15M" }, failing_since: "2026-01-01T00:00:00Z", consecutive_failures: 4 }),
    ];
    const { api } = renderPage(<Schedules />, { api: { ...BASE, [LIST]: pageOf(rows) } });
    expect((await screen.findAllByText("Every 1h30m")).length).toBe(2);
    expect(screen.getByText("late")).toBeTruthy();
    expect(screen.getAllByText(/^Once, on 2026-05-01/).length).toBe(2);
    expect(screen.getByText("disabled")).toBeTruthy();
    expect(screen.getByRole("link", { name: "fetch_feed/feed:7" })).toBeTruthy();
    expect(screen.getByText("failing")).toBeTruthy();
    await waitFor(() => expect(api.of("GET /api/admin/firings")[0]!.query.getAll("id")).toEqual(["id-often", "id-single"]));
  });

  test("is loading, empty, or in error", async () => {
    const first = renderPage(<Schedules />, { api: { ...BASE, [LIST]: never } });
    expect(await screen.findByRole("table", { name: "Schedules", busy: true })).toBeTruthy();
    first.unmount();
    const second = renderPage(<Schedules />, { api: { ...BASE, [LIST]: pageOf([]) } });
    expect(await screen.findByText("Nothing runs by itself yet")).toBeTruthy();
    second.unmount();
    const third = renderPage(<Schedules />, { at: "/schedules?task=nope", api: { ...BASE, [LIST]: pageOf([]) } });
    expect(await screen.findByText("No schedule fits")).toBeTruthy();
    await third.user.click(screen.getByRole("button", { name: "Show all" }));
    expect(third.where()).toBe("/schedules");
    third.unmount();
    renderPage(<Schedules />, { api: { ...BASE, [LIST]: problem(503, "database", "the database is away") } });
    expect(await screen.findByText("the database is away")).toBeTruthy();
  });

  test("shows hostile names as the text they are", async () => {
    const name = "<img src=x onerror=alert(1)>";
    const { container } = renderPage(<Schedules />, { api: { ...BASE, [LIST]: pageOf([line(name)]) } });
    expect(await screen.findByText(name)).toBeTruthy();
    expect(container.querySelector("img")).toBeNull();
  });

  test("keeps its filters in the address", async () => {
    const { api, user, where } = renderPage(<Schedules />, { at: "/schedules?kind=failing&enabled=false", api: { ...BASE, [LIST]: pageOf([line("a")]) } });
    await screen.findByText("a");
    const { query } = api.of(LIST)[0]!;
    expect([query.get("failing"), query.get("enabled"), query.get("recurring")]).toEqual(["true", "false", null]);
    await user.selectOptions(screen.getByRole("combobox", { name: "Which" }), "recurring");
    expect(where()).toBe("/schedules?kind=recurring&enabled=false");
  });

  test("follows the stream", async () => {
    const { api, emit } = renderPage(<Schedules />, { api: { ...BASE, [LIST]: pageOf([line("a")]) } });
    await screen.findByText("a");
    api.on(LIST, pageOf([line("a"), line("new-one")]));
    act(() => emit("schedules"));
    expect(await screen.findByText("new-one")).toBeTruthy();
  });
});

describe("what can be done", () => {
  test("the switch disables and enables", async () => {
    const { api, user } = renderPage(<Schedules />, { api: { ...BASE, [LIST]: pageOf([line("nightly")]), "POST /api/admin/schedules/{name}/disable": record("nightly", { enabled: false }), "POST /api/admin/schedules/{name}/enable": record("nightly") } });
    const toggle = await screen.findByRole("switch", { name: "nightly is enabled" });
    expect(toggle.getAttribute("aria-checked")).toBe("true");
    api.on(LIST, pageOf([line("nightly", { enabled: false })]));
    await user.click(toggle);
    expect(await screen.findByText("nightly is disabled")).toBeTruthy();
    await waitFor(() => expect(screen.getByRole("switch").getAttribute("aria-checked")).toBe("false"));
    expect(api.of("POST /api/admin/schedules/id-nightly/disable")).toHaveLength(1);
    await user.click(screen.getByRole("switch"));
    await waitFor(() => expect(api.of("POST /api/admin/schedules/id-nightly/enable")).toHaveLength(1));
  });

  test("an error of the switch is said", async () => {
    const { user } = renderPage(<Schedules />, { api: { ...BASE, [LIST]: pageOf([line("nightly")]), "POST /api/admin/schedules/{name}/disable": problem(404, "not_found", "there is no schedule 'nightly'") } });
    await user.click(await screen.findByRole("switch"));
    expect(await screen.findByText("there is no schedule 'nightly'")).toBeTruthy();
    expect(screen.getByRole("switch").getAttribute("aria-checked")).toBe("true");
  });

  test("runs one now, and leads to the job", async () => {
    const { user, api, where } = renderPage(<Schedules />, { api: { ...BASE, [LIST]: pageOf([line("nightly")]), "POST /api/admin/schedules/{name}/run": { job_id: "0198a000-0000-7000-8000-00000000beef" } } });
    await screen.findByText("nightly");
    await user.keyboard("jr");
    const dialog = screen.getByRole("dialog", { name: "Run nightly now" });
    await user.click(within(dialog).getByRole("button", { name: "Run now" }));
    expect(await screen.findByText("nightly is on its way")).toBeTruthy();
    expect(api.of("POST /api/admin/schedules/id-nightly/run")).toHaveLength(1);
    await user.click(screen.getByRole("button", { name: "Show the job" }));
    expect(where()).toBe("/jobs/0198a000-0000-7000-8000-00000000beef");
  });

  test("deletes only after the name was typed, and shows what the server says", async () => {
    const { api, user } = renderPage(<Schedules />, { api: { ...BASE, [LIST]: pageOf([line("nightly", { definition: { cron: "0 3 * * *" } })]), "DELETE /api/admin/schedules/{name}": problem(409, "conflict", "it is being changed") } });
    await user.click(await screen.findByRole("button", { name: "Actions for nightly" }));
    await user.click(screen.getByRole("menuitem", { name: /Delete/ }));
    const dialog = screen.getByRole("dialog", { name: "Delete nightly" });
    expect(within(dialog).getByText("Defined in code")).toBeTruthy();
    const button = within(dialog).getByRole("button", { name: "Delete" });
    await user.click(button);
    expect(api.of("DELETE /api/admin/schedules/{name}")).toHaveLength(0);
    await user.type(within(dialog).getByRole("textbox"), "nightly");
    await user.click(button);
    expect(await within(dialog).findByText("it is being changed")).toBeTruthy();
    api.on("DELETE /api/admin/schedules/{name}", undefined).on(LIST, pageOf([]));
    await user.click(button);
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(api.of("DELETE /api/admin/schedules/id-nightly")).toHaveLength(2);
    expect(await screen.findByText("Nothing runs by itself yet")).toBeTruthy();
  });

  test("is disabled with the reason for who may only read", async () => {
    const { user, api } = renderPage(<Schedules />, { role: "read_only", api: { ...BASE, [LIST]: pageOf([line("nightly")]) } });
    const toggle = await screen.findByRole("switch");
    expect(toggle.getAttribute("aria-disabled")).toBe("true");
    await user.click(toggle);
    expect((await screen.findByRole("tooltip")).textContent).toContain("read-only");
    await user.keyboard("jrn");
    expect(screen.queryByRole("dialog")).toBeNull();
    expect(screen.getByRole("button", { name: "New schedule" }).getAttribute("aria-disabled")).toBe("true");
    expect(api.calls.filter((call) => call.method !== "GET")).toHaveLength(0);
  });

  test("recurring rows cannot be edited or deleted, and it says why", async () => {
    const { user } = renderPage(<Schedules />, { api: { ...BASE, [LIST]: pageOf([line("x", { name: null, key: "feed:7", task: "fetch_feed", timing: { strategy: "recurring", cron: null } })]) } });
    await user.click(await screen.findByRole("button", { name: "Actions for fetch_feed/feed:7" }));
    expect(screen.getByRole("menuitem", { name: /Edit/ }).getAttribute("aria-disabled")).toBe("true");
    expect(screen.getByRole("menuitem", { name: /Delete/ }).getAttribute("aria-disabled")).toBe("true");
    expect(screen.getByRole("menuitem", { name: /Run now/ }).getAttribute("aria-disabled")).not.toBe("true");
  });
});

describe("one at the side", () => {
  test("tells its settings, next times and what became of the last ones", async () => {
    const detail = {
      record: record("nightly"),
      words: "At 03:00 every day, Europe/Berlin",
      upcoming: [],
      ledger: [{ instant: "2026-03-24T02:00:00Z", until: null, instants: 1, outcome: "fired", reason: null, job_id: "0198a000-0000-7000-8000-00000000beef", decided_at: "2026-03-24T02:00:00Z", missed: ["finish"], state: "failed", started_at: "2026-03-24T02:00:01Z", finished_at: "2026-03-24T02:00:04Z", error: null }],
    };
    const { user, where } = renderPage(<Schedules />, {
      at: "/schedules?show=nightly",
      api: { ...BASE, [LIST]: pageOf([line("nightly")]), "GET /api/admin/schedules/{name}": detail, "GET /api/admin/schedules/{name}/times": pageOf(preview("", { 4: "clocks go forward: 02:30 does not exist, runs at 03:00" }).times) },
    });
    const sheet = await screen.findByRole("dialog", { name: "nightly" });
    expect(await within(sheet).findByRole("list", { name: "Next times" })).toBeTruthy();
    expect(within(sheet).getByText("clocks go forward: 02:30 does not exist, runs at 03:00")).toBeTruthy();
    expect(within(sheet).getByText("failed")).toBeTruthy();
    expect(within(sheet).getByText("too late to finish")).toBeTruthy();
    expect(within(sheet).getByText("Last firing").nextSibling?.textContent).toBe("1 failed"); // its own counters only count recurring rows
    expect(within(sheet).getByRole("link", { name: "0000beef" }).getAttribute("href")).toContain("/jobs/0198a000");
    await user.keyboard("{Escape}");
    expect(where()).toBe("/schedules");
  });

  test("that is not there says so", async () => {
    renderPage(<Schedules />, { at: "/schedules?show=gone", api: { ...BASE, [LIST]: pageOf([]), "GET /api/admin/schedules/{name}": problem(404, "not_found", "there is no schedule 'gone'") } });
    expect(await screen.findByText("there is no schedule 'gone'")).toBeTruthy();
  });
});
