/** Logs: found, followed, paused, and back in time. */

import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { type Call, never, offline, pageOf, problem, renderPage } from "@/test/kit";
import Logs from "./index";
import { NOTHING, reduce } from "./lines";

const LIST = "GET /api/admin/logs";
const FOLLOW = "GET /api/admin/logs/follow";
const JOB = "0198a000-0000-7000-8000-00000000beef";

function line(sequence: number, change: object = {}) {
  return { at: new Date(Date.UTC(2026, 2, 1, 10, 0, sequence)).toISOString(), task: "send_invoice", job_id: JOB, attempt: 1, sequence, level: 20, message: `line ${sequence}`, fields: null, ...change };
}
const quiet = { [FOLLOW]: pageOf([], "c1") };
const messages = () => within(screen.getByRole("list", { name: "Log lines" })).getAllByRole("listitem").map((each) => /line \d+/.exec(each.textContent ?? "")?.[0]);

describe("what was said", () => {
  test("is shown with level, task, fields and the way to its job", async () => {
    const { user } = renderPage(<Logs />, { at: "/logs", api: { ...quiet, [LIST]: pageOf([line(2, { level: 40, fields: { order: { id: 7 }, who: "ada" } }), line(1)]) } });
    const list = await screen.findByRole("list", { name: "Log lines" });
    const [bad] = within(list).getAllByRole("listitem");
    expect(within(bad!).getByText("error")).toBeTruthy();
    expect(within(bad!).getByText("send_invoice")).toBeTruthy();
    expect(within(bad!).getByRole("link", { name: "0000beef/1" }).getAttribute("href")).toBe(`/dashboard/jobs/${JOB}?tab=logs`);
    await user.click(within(bad!).getByRole("button", { name: /Fields/ }));
    expect(within(bad!).getByRole("group", { name: "Fields" }).textContent).toContain('"ada"');
  });

  test("is text, whatever it says", async () => {
    const message = '<script>alert(1)</script><img src=x onerror=alert(2)>';
    const { container } = renderPage(<Logs />, { api: { ...quiet, [LIST]: pageOf([line(1, { message, fields: { "<svg onload=alert(3)>": message } })]) } });
    expect((await screen.findAllByText(message, { exact: false })).length).toBe(2);
    expect(container.querySelector("script, img, svg[onload]")).toBeNull();
  });

  test("is filtered by words, level, task and job, all in the address", async () => {
    const { api, user, where } = renderPage(<Logs />, { at: `/logs?q=refused&level=warning&task=send_invoice&job=${JOB}&attempt=2`, api: { ...quiet, [LIST]: pageOf([line(1)]) } });
    await screen.findByText("line 1");
    const { query } = api.of(LIST)[0]!;
    expect(Object.fromEntries(query)).toMatchObject({ text: "refused", level: "warning", task: "send_invoice", job_id: JOB, attempt: "2" });
    await user.click(screen.getByRole("button", { name: /Remove job/ }));
    expect(where()).toBe("/logs?q=refused&level=warning&task=send_invoice");
    await user.selectOptions(screen.getByRole("combobox", { name: "Level" }), "error");
    await waitFor(() => expect(api.of(LIST).at(-1)!.query.get("level")).toBe("error"));
  });

  test("takes task: out of the search", async () => {
    const { user, where } = renderPage(<Logs />, { at: "/logs", api: { ...quiet, [LIST]: pageOf([line(1)]), "GET /api/admin/jobs/values": pageOf(["send_invoice"]) } });
    await screen.findByText("line 1");
    await user.type(screen.getByRole("combobox", { name: "Search the logs" }), "refused task:send_invoice{Enter}");
    expect(where()).toBe("/logs?q=refused&task=send_invoice");
  });

  test("goes back in time by pages, and by a time", async () => {
    const answer = (call: Call) => (call.query.get("cursor") === "older" ? pageOf([line(1)]) : pageOf(Array.from({ length: 30 }, (_, index) => line(59 - index)), "older"));
    const { user, api, where } = renderPage(<Logs />, { at: "/logs", api: { ...quiet, [LIST]: answer } });
    await user.click(await screen.findByRole("button", { name: "Show older lines" }));
    expect(await screen.findByText("line 1")).toBeTruthy();
    expect(screen.queryByRole("button", { name: "Show older lines" })).toBeNull();
    const before = screen.getByLabelText("Before");
    await user.type(before, "2026-02-01T12:00");
    await waitFor(() => expect(api.of(LIST).at(-1)!.query.get("until")).toBe(new Date("2026-02-01T12:00").toISOString()));
    expect(where()).toContain("until=2026-0");
    expect(screen.getByText(/new ones are not followed/)).toBeTruthy();
  });

  test("is loading, empty, or in error", async () => {
    const first = renderPage(<Logs />, { api: { ...quiet, [LIST]: never } });
    expect(await screen.findByRole("status", { name: "Loading" })).toBeTruthy();
    first.unmount();
    const second = renderPage(<Logs />, { api: { ...quiet, [LIST]: pageOf([]) } });
    expect(await screen.findByText("No task has said anything yet")).toBeTruthy();
    second.unmount();
    const third = renderPage(<Logs />, { at: "/logs?q=nope", api: { ...quiet, [LIST]: pageOf([]) } });
    expect(await screen.findByText("No line fits")).toBeTruthy();
    third.unmount();
    renderPage(<Logs />, { api: { ...quiet, [LIST]: problem(503, "too_slow", "name the task") } });
    expect(await screen.findByText("name the task")).toBeTruthy();
  });

  test("is not for everybody", async () => {
    const { api } = renderPage(<Logs />, { role: "operator", api: { ...quiet, [LIST]: pageOf([]) } });
    expect(await screen.findByText("You may not see logs")).toBeTruthy();
    expect(screen.getByText(/operator/)).toBeTruthy();
    expect(api.of(LIST)).toHaveLength(0);
  });
});

describe("following", () => {
  test("puts new lines before the others, each once", async () => {
    const { api } = renderPage(<Logs />, { api: { [LIST]: pageOf([line(2), line(1)]), [FOLLOW]: pageOf([line(1), line(2), line(3)], "c1") } });
    expect(await screen.findByText("line 3")).toBeTruthy();
    expect(messages()).toEqual(["line 3", "line 2", "line 1"]);
    api.on(FOLLOW, pageOf([line(3), line(5), line(4, { job_id: "0198a000-0000-7000-8000-00000000cafe" })], "c2"));
    expect(await screen.findByText("line 4")).toBeTruthy();
    expect(messages()).toEqual(["line 5", "line 4", "line 3", "line 2", "line 1"]); // by time, also those that come late
    expect(api.of(FOLLOW)[1]!.query.get("cursor")).toBe("c1");
    expect(screen.getByText("Following")).toBeTruthy();
  });

  test("holds them back while paused, and shows them after", async () => {
    const { user, api, where } = renderPage(<Logs />, { at: "/logs", api: { ...quiet, [LIST]: pageOf([line(1)]) } });
    await screen.findByText("line 1");
    await user.click(screen.getByRole("button", { name: "Pause" }));
    expect(where()).toBe("/logs?follow=0");
    expect(screen.getByText("Paused")).toBeTruthy();
    api.on(FOLLOW, pageOf([line(2), line(3)], "c2"));
    const more = await screen.findByRole("button", { name: "Show 2 new lines" });
    expect(messages()).toEqual(["line 1"]);
    await user.click(more);
    expect(messages()).toEqual(["line 3", "line 2", "line 1"]);
    expect(where()).toBe("/logs");
    await user.keyboard("f");
    expect(where()).toBe("/logs?follow=0");
  });

  test("says when it cannot, and goes on by itself", async () => {
    const { api } = renderPage(<Logs />, { api: { [LIST]: pageOf([line(1)]), [FOLLOW]: offline } });
    await screen.findByText("line 1");
    expect(await screen.findByText("Trying again")).toBeTruthy();
    api.on(FOLLOW, pageOf([line(2)], "c1"));
    expect(await screen.findByText("line 2")).toBeTruthy();
    expect(screen.getByText("Following")).toBeTruthy();
  });
});

test("what is kept has a bound, whatever comes", () => {
  const came = (from: number, count: number, paused = false) => ({ kind: "came" as const, lines: Array.from({ length: count }, (_, index) => line(from + index)), known: new Set<string>(), paused });
  let state = reduce(NOTHING, came(0, 999));
  for (let turn = 1; turn < 5; turn++) state = reduce(state, came(turn * 999, 999));
  expect([state.shown.length <= 2000, state.gap, state.shown[0]!.sequence]).toEqual([true, true, 4994]);
  let held = reduce(NOTHING, came(0, 10, true));
  for (let turn = 1; turn < 5; turn++) held = reduce(held, came(turn * 999, 999, true));
  expect([held.shown.length, held.held.length]).toEqual([0, 2000]);
  const released = reduce({ ...held, shown: [line(0)] }, { kind: "release" });
  expect([released.shown[0]!.sequence, released.shown.length, released.gap, released.held.length]).toEqual([4994, 2000, true, 0]);
  const burst = reduce(reduce(NOTHING, came(0, 5)), came(100, 1000, true));
  expect([burst.shown.length, burst.gap]).toEqual([5, false]); // what is read stays as it is while paused
});
