/** The week, its hours, and how one moves through them. */

import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { never, problem, renderPage } from "@/test/kit";
import Calendar from "./index";
import { addDays, clockNote, readDate } from "./week";

const CALENDAR = "GET /api/admin/calendar";
const HOUR_MS = 3_600_000;

/** A week in Berlin at which end clocks go forward on Sunday: 02:00 is left out; and on Monday an hour of two, as in autumn. */
function week(change: object = {}, runs: (day: number, hour: number) => number = (day, hour) => (day === 1 && hour === 3 ? 12 : 0)) {
  const days = Array.from({ length: 7 }, (_, day) => {
    const date = addDays("2026-03-23", day);
    let begin = Date.parse(`${date}T00:00:00+01:00`);
    const hours = Array.from({ length: 24 }, (_, hour) => hour)
      .filter((hour) => !(day === 6 && hour === 2))
      .map((hour) => {
        const length = day === 0 && hour === 2 ? 2 * HOUR_MS : HOUR_MS;
        const made = { hour, begin: new Date(begin).toISOString(), end: new Date(begin + length).toISOString(), schedules: runs(day, hour), recurring: 0, jobs: 0 };
        begin += length;
        return made;
      });
    return { date, hours };
  });
  return { now: "2026-03-23T05:30:00Z", tz: "Europe/Berlin", days, schedules: { count: 3, capped: false, estimated: false }, complete: true, caps: [], ...change };
}

describe("the week", () => {
  test("has a cell for each hour, the fuller the darker, with what clocks do", async () => {
    renderPage(<Calendar />, { at: "/calendar?tz=Europe/Berlin", api: { [CALENDAR]: week({}, (day, hour) => (day === 1 && hour === 3 ? 100 : day === 2 && hour === 3 ? 1 : 0)) } });
    const grid = await screen.findByRole("grid", { name: "What will run, by hour and day" });
    const full = within(grid).getByLabelText(/Tue 24 Mar, 03:00–04:00: 100 runs/);
    const little = within(grid).getByLabelText(/Wed 25 Mar, 03:00–04:00: 1 run$/);
    const ink = (cell: HTMLElement) => Number(/(\d+)%/.exec(cell.getAttribute("style") ?? "")?.[1] ?? 0);
    expect(full.textContent).toBe("100");
    expect(within(grid).getByLabelText(/02:00: Clocks go forward: this hour does not exist/)).toBeTruthy();
    expect(within(grid).getByLabelText(/Mon 23 Mar, 02:00–03:00.*twice/)).toBeTruthy();
    expect(within(grid).getByLabelText(/Mon 23 Mar, 00:00–01:00: past/)).toBeTruthy();
    expect(ink(full) === 0 || ink(full) > ink(little)).toBe(true);
  });

  test("is moved through by buttons and keys, in the address", async () => {
    const { user, where, api } = renderPage(<Calendar />, { at: "/calendar?tz=Europe/Berlin&from=2026-03-23", api: { [CALENDAR]: week() } });
    await screen.findByRole("grid");
    expect(screen.getByRole("heading", { level: 2 }).textContent).toBe("Mon 23 Mar – Sun 29 Mar 2026");
    await user.click(screen.getByLabelText(/Week after/));
    expect(where()).toBe("/calendar?tz=Europe/Berlin&from=2026-03-30");
    await waitFor(() => expect(api.of(CALENDAR).at(-1)!.query.get("from")).toBe("2026-03-30"));
    await user.keyboard("[[[[") /* twice: [[ is one of them */;
    expect(where()).toBe("/calendar?tz=Europe/Berlin&from=2026-03-16");
    await user.keyboard("t");
    expect(where()).toBe("/calendar?tz=Europe/Berlin");
    await waitFor(() => expect(api.of(CALENDAR).at(-1)!.query.get("from")).toBeNull());
  });

  test("arrows go from hour to hour; one cell is a stop for Tab", async () => {
    const { user } = renderPage(<Calendar />, { at: "/calendar?tz=Europe/Berlin", api: { [CALENDAR]: week() } });
    const grid = await screen.findByRole("grid");
    const stops = () => [...grid.querySelectorAll("button")].filter((each) => each.tabIndex === 0);
    expect(stops()).toHaveLength(1);
    stops()[0]!.focus();
    await user.keyboard("{ArrowRight}{ArrowDown}");
    expect(document.activeElement?.getAttribute("aria-label")).toMatch(/^Tue 24 Mar, 06:00/);
    expect(stops()).toHaveLength(1);
  });

  test("asks in another zone only when it is one", async () => {
    const { user, api, where } = renderPage(<Calendar />, { at: "/calendar?tz=UTC", api: { [CALENDAR]: week() } });
    await screen.findByRole("grid");
    const zone = screen.getByLabelText("Time zone");
    await user.clear(zone);
    await user.type(zone, "Asia/Tok");
    expect(screen.getByText("no such zone, yet")).toBeTruthy();
    expect(where()).toBe("/calendar?tz=UTC");
    await user.type(zone, "yo");
    expect(where()).toBe("/calendar?tz=Asia/Tokyo");
    await waitFor(() => expect(api.of(CALENDAR).at(-1)!.query.get("tz")).toBe("Asia/Tokyo"));
    expect(api.of(CALENDAR).map((call) => call.query.get("tz"))).toEqual(["UTC", "Asia/Tokyo"]);
  });

  test("says what was not counted", async () => {
    renderPage(<Calendar />, { api: { [CALENDAR]: week({ complete: false, caps: ["jobs are counted up to 10:15 UTC"] }) } });
    expect(await screen.findByText(/jobs are counted up to 10:15 UTC/)).toBeTruthy();
  });

  test("is loading, empty, or in error", async () => {
    const first = renderPage(<Calendar />, { api: { [CALENDAR]: never } });
    expect(await screen.findByRole("status", { name: "Loading" })).toBeTruthy();
    first.unmount();
    const second = renderPage(<Calendar />, { api: { [CALENDAR]: week({ schedules: { count: 0, capped: false, estimated: false } }, () => 0) } });
    expect(await screen.findByText("Nothing is planned")).toBeTruthy();
    second.unmount();
    const third = renderPage(<Calendar />, { api: { [CALENDAR]: week({}, () => 0) } });
    expect(await screen.findByText("Nothing will run in these days.")).toBeTruthy();
    third.unmount();
    const past = renderPage(<Calendar />, { api: { [CALENDAR]: week({ now: "2026-05-01T00:00:00Z" }, () => 0) } });
    expect(await screen.findByText(/These days are over/)).toBeTruthy();
    past.unmount();
    const fourth = renderPage(<Calendar />, { api: { [CALENDAR]: problem(503, "too_slow", "ask for less") } });
    expect(await screen.findByText("ask for less")).toBeTruthy();
    fourth.api.on(CALENDAR, week());
    await fourth.user.click(screen.getByRole("button", { name: "Try again" }));
    expect(await screen.findByRole("grid")).toBeTruthy();
  });
});

describe("an hour", () => {
  const detail = {
    begin: "2026-03-24T02:00:00.000Z",
    end: "2026-03-24T03:00:00.000Z",
    schedules: [{ id: "1", name: "<b>nightly</b>", task: "send", kind: "cron", words: "Every 5 minutes", runs: 12, first: "2026-03-24T02:00:00Z", last: "2026-03-24T02:55:00Z" }],
    recurring: [{ task: "fetch_feed", count: { count: 10000, capped: true, estimated: false }, first: "2026-03-24T02:15:00Z" }],
    jobs: [{ task: "send_mail", count: { count: 3, capped: false, estimated: false }, first: "2026-03-24T02:30:00Z" }],
    more: true,
  };

  test("lists what is behind it, with the way there", async () => {
    const { user, where, api } = renderPage(<Calendar />, { at: "/calendar?tz=Europe/Berlin", api: { [CALENDAR]: week(), "GET /api/admin/calendar/hour": detail } });
    await user.click(await screen.findByLabelText(/Tue 24 Mar, 03:00–04:00: 12 runs/));
    const sheet = await screen.findByRole("dialog", { name: "Tuesday 24 March 2026, 03:00–04:00" });
    expect(await within(sheet).findByText("12 times")).toBeTruthy();
    expect(within(sheet).getByText("03:00–03:55")).toBeTruthy();
    expect(within(sheet).getByRole("link", { name: "<b>nightly</b>" }).getAttribute("href")).toContain("/schedules?show=%3Cb%3Enightly");
    expect(within(sheet).getByText("10k+")).toBeTruthy();
    expect(within(sheet).getByRole("link", { name: "send_mail" }).getAttribute("href")).toContain("state%3Aqueued%20task%3Asend_mail");
    expect(within(sheet).getByText("There is more than is shown here.")).toBeTruthy();
    expect(api.of("GET /api/admin/calendar/hour")[0]!.query.get("begin")).toBe("2026-03-24T02:00:00.000Z");
    expect(where()).toContain("cell=2026-03-24T02:00:00.000Z");
    await user.keyboard("{Escape}");
    expect(where()).toBe("/calendar?tz=Europe/Berlin");
  });

  test("opens from its address, also when it is empty or fails", async () => {
    const first = renderPage(<Calendar />, { at: "/calendar?tz=Europe/Berlin&cell=2026-03-24T02:00:00Z", api: { [CALENDAR]: week(), "GET /api/admin/calendar/hour": { ...detail, schedules: [], recurring: [], jobs: [], more: false } } });
    expect(await screen.findByText("Nothing will run in this hour")).toBeTruthy();
    first.unmount();
    renderPage(<Calendar />, { at: "/calendar?tz=Europe/Berlin&cell=2026-03-24T02:00:00Z", api: { [CALENDAR]: week(), "GET /api/admin/calendar/hour": problem(422, "usage", "out of range") } });
    expect(await screen.findByText("out of range")).toBeTruthy();
  });
});

test("days and notes", () => {
  expect(addDays("2026-02-27", 7)).toBe("2026-03-06");
  expect([readDate("2026-03-01"), readDate("2026-13-41"), readDate("<x>")]).toEqual(["2026-03-01", "", ""]);
  expect(clockNote({ hour: 2, begin: "2026-03-24T02:00:00Z", end: "2026-03-24T02:30:00Z", schedules: 0, recurring: 0, jobs: 0 })).toContain("forward");
});
