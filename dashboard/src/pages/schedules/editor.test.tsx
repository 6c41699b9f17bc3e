/** The dialog: what it says while one types, what it sends, and what it does when somebody else was faster. */

import { screen, waitFor, within } from "@testing-library/react";
import type { UserEvent } from "@testing-library/user-event";
import { beforeEach, describe, expect, test } from "vitest";
import { type Call, offline, pageOf, problem, renderPage } from "@/test/kit";
import Schedules from "./index";
import { FORM, line, preview, record } from "./sample";

const PREVIEW = "GET /api/admin/schedules/preview";
const BASE = {
  "GET /api/admin/schedules": pageOf([]),
  "GET /api/admin/firings": pageOf([]),
  "GET /api/admin/jobs/values": pageOf(["send_invoice"]),
  "GET /api/admin/forms/{name}": (call: Call) => (call.path.endsWith("/send_invoice") ? FORM : problem(404, "not_found", "there is no task")),
  [PREVIEW]: preview(),
};
const BAD = "cron='61 * * * *' is not a schedule: minute (field 1 of 5): 61 is out of range 0-59";

beforeEach(() => {
  Element.prototype.scrollIntoView = () => {};
});

async function open(api: Record<string, unknown> = {}, at = "/schedules?new=1") {
  const page = renderPage(<Schedules />, { at, api: { ...BASE, ...api } });
  await screen.findByRole("dialog");
  // The one that waits for the schedule gives way to the one with its fields.
  if (at.includes("edit=")) await waitFor(() => expect(screen.queryByRole("status", { name: "Loading" })).toBeNull());
  return { ...page, dialog: within(screen.getByRole("dialog")) };
}

/** Puts a text into a field at once: keys one by one take long in a dialog of this size. */
async function put(user: UserEvent, field: HTMLElement, text: string) {
  await user.clear(field);
  await user.click(field);
  await user.paste(text);
}

describe("validation as one types", () => {
  test("a good expression is put into words, with the next ten times and what the clocks do", async () => {
    const note = "clocks go forward: 02:30 does not exist, runs at 03:00";
    const { dialog, user, api } = await open({ [PREVIEW]: preview("At 02:30 every day, Europe/Berlin", { 4: note }) });
    const cron = dialog.getByRole("textbox", { name: /Cron expression/ });
    await user.type(cron, "30 2 * * *");
    expect(await dialog.findByText("At 02:30 every day, Europe/Berlin")).toBeTruthy();
    const times = within(dialog.getByRole("list", { name: "Next times" })).getAllByRole("listitem");
    expect(times).toHaveLength(10);
    expect(times[0]!.textContent).toContain("Wed 2026-03-25 03:00");
    expect(within(times[4]!).getByText("Clocks change")).toBeTruthy();
    expect(within(times[4]!).getByText(note)).toBeTruthy();
    const asked = api.of(PREVIEW);
    expect(asked.length).toBeLessThan(5); // not for every key
    expect(asked.at(-1)!.query.get("cron")).toBe("30 2 * * *");
    expect(asked.at(-1)!.query.get("count")).toBe("10");
  });

  test("a bad one shows the server's words at the field, and cannot be saved", async () => {
    const { dialog, user, api } = await open({ [PREVIEW]: problem(422, "invalid_schedule", BAD, [{ field: "cron", code: "invalid_schedule", detail: BAD }]) });
    const cron = dialog.getByRole("textbox", { name: /Cron expression/ });
    await user.type(cron, "61 * * * *");
    expect(await dialog.findByText(BAD)).toBeTruthy();
    expect(cron.getAttribute("aria-invalid")).toBe("true");
    const said = cron.getAttribute("aria-describedby")!.split(" ").map((id) => document.getElementById(id)?.textContent);
    expect(said).toContain(BAD);
    const save = dialog.getByRole("button", { name: "Create" });
    expect(save.getAttribute("aria-disabled")).toBe("true");
    await user.click(save);
    expect(api.of("POST /api/admin/schedules")).toHaveLength(0);
    api.on(PREVIEW, preview());
    await put(user, cron, "1 * * * *");
    await waitFor(() => expect(dialog.queryByText(BAD)).toBeNull());
    expect(await dialog.findByText("At 03:00 every day, Europe/Berlin")).toBeTruthy();
    expect(save.getAttribute("aria-disabled")).toBeNull();
  });

  test("a zone that is none is said at the zone", async () => {
    const { dialog, user } = await open({ [PREVIEW]: problem(422, "usage", "tz='Mars' is not a time zone", [{ field: "tz", code: "usage", detail: "tz='Mars' is not a time zone" }]) });
    await put(user, dialog.getByRole("textbox", { name: /Cron expression/ }), "@daily");
    const zone = dialog.getByRole("combobox", { name: "Time zone" });
    await put(user, zone, "Mars");
    expect(await dialog.findByText("tz='Mars' is not a time zone")).toBeTruthy();
    expect(zone.getAttribute("aria-invalid")).toBe("true");
  });

  test("an example is taken with a click", async () => {
    const { dialog, user } = await open();
    await user.click(dialog.getByText("Cron help and examples"));
    await user.click(dialog.getByRole("button", { name: "Take 0 9 * * mon-fri: on workdays at nine" }));
    expect((dialog.getByRole("textbox", { name: /Cron expression/ }) as HTMLInputElement).value).toBe("0 9 * * mon-fri");
  });

  test("without the server it says so, and lets one save all the same", async () => {
    const { dialog, user } = await open({ [PREVIEW]: offline });
    await put(user, dialog.getByRole("textbox", { name: /Cron expression/ }), "@daily");
    expect(await dialog.findByText(/cannot be reached/)).toBeTruthy();
    expect(dialog.getByRole("button", { name: "Create" }).getAttribute("aria-disabled")).toBeNull();
  });

  test("what is missing is said when one tries, at the fields", async () => {
    const { dialog, user, api } = await open();
    await user.click(dialog.getByRole("button", { name: "Create" }));
    expect(dialog.getByText("Give it a name.")).toBeTruthy();
    expect(dialog.getByText("Which task is to run?")).toBeTruthy();
    expect(dialog.getByText(/Write a cron expression/)).toBeTruthy();
    expect(api.of("POST /api/admin/schedules")).toHaveLength(0);
  });
});

describe("a new schedule", () => {
  async function fill(page: Awaited<ReturnType<typeof open>>) {
    const { dialog, user } = page;
    await put(user, dialog.getByRole("textbox", { name: /Name/ }), "nightly");
    await put(user, dialog.getByRole("combobox", { name: /Task/ }), "send_invoice");
    await user.type(await dialog.findByRole("textbox", { name: /user_id/ }), "7");
  }

  test("is sent with the payload of the task's form and the policies", async () => {
    const page = await open({ "POST /api/admin/schedules": record("nightly") });
    const { dialog, user, api, where } = page;
    await fill(page);
    await put(user, dialog.getByRole("textbox", { name: /Cron expression/ }), "0 3 * * *");
    const zone = dialog.getByRole("combobox", { name: "Time zone" });
    await put(user, zone, "Europe/Berlin");
    await user.click(dialog.getByText(/Overlap, outages/));
    await user.selectOptions(dialog.getByRole("combobox", { name: "While the last job still runs" }), "skip");
    await user.selectOptions(dialog.getByRole("combobox", { name: "After an outage" }), "all");
    await user.click(dialog.getByRole("button", { name: "Create" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(api.of("POST /api/admin/schedules")[0]!.body).toEqual({ name: "nightly", task: "send_invoice", cron: "0 3 * * *", tz: "Europe/Berlin", misfire: "all", catch_up: 100, overlap: "skip", enabled: true, payload: { user_id: 7 } });
    expect(await screen.findByText("Made nightly")).toBeTruthy();
    expect(where()).toBe("/schedules");
  });

  test("can be an interval, or a single time", async () => {
    const page = await open({ "POST /api/admin/schedules": problem(409, "conflict", "there is a schedule 'nightly'") });
    const { dialog, user, api } = page;
    await fill(page);
    await user.selectOptions(dialog.getByRole("combobox", { name: "When" }), "interval");
    await put(user, dialog.getByRole("textbox", { name: /Every/ }), "5m");
    await user.click(dialog.getByRole("button", { name: "Create" }));
    expect(await dialog.findByText("there is a schedule 'nightly'")).toBeTruthy();
    expect(api.of("POST /api/admin/schedules")[0]!.body).toMatchObject({ every: "5m" });
    await user.selectOptions(dialog.getByRole("combobox", { name: "When" }), "once");
    const at = new Date(Date.now() + 86_400_000);
    at.setSeconds(0, 0);
    const text = new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
    const field = dialog.getByLabelText(/^At \(required/);
    await user.type(field, text);
    api.on("POST /api/admin/schedules", record("nightly"));
    await user.click(dialog.getByRole("button", { name: "Create" }));
    await waitFor(() => expect(api.of("POST /api/admin/schedules")).toHaveLength(2));
    const body = api.of("POST /api/admin/schedules")[1]!.body as Record<string, string>;
    expect(body).toMatchObject({ every: "24h", starts_at: at.toISOString(), ends_at: new Date(at.getTime() + 1000).toISOString() });
    expect(body.cron).toBeUndefined();
  });

  test("shows what the server has against the payload at its field", async () => {
    const page = await open({ "POST /api/admin/schedules": problem(422, "payload", "the payload does not fit", [{ field: "payload.user_id", code: "payload", detail: "must be over 10" }]) });
    const { dialog, user } = page;
    await fill(page);
    await put(user, dialog.getByRole("textbox", { name: /Cron expression/ }), "@daily");
    await user.click(dialog.getByRole("button", { name: "Create" }));
    expect(await dialog.findByText("must be over 10")).toBeTruthy();
    expect(dialog.getByRole("textbox", { name: /user_id/ }).getAttribute("aria-invalid")).toBe("true");
    page.api.on("POST /api/admin/schedules", problem(422, "payload", "send_invoice: note is missing, expected str"));
    await user.click(dialog.getByRole("button", { name: "Create" }));
    expect((await dialog.findByText("send_invoice: note is missing, expected str")).closest("fieldset")).toBeTruthy();
  });

  test("of a task that is not there says so before it is sent", async () => {
    const { dialog, user } = await open();
    await put(user, dialog.getByRole("combobox", { name: /Task/ }), "nope");
    expect(await dialog.findByText(/There is no task of this name/)).toBeTruthy();
  });
});

describe("an edit", () => {
  const shown = (etag: string, change: Parameters<typeof record>[1] = {}) => () => new Response(JSON.stringify({ record: record("nightly", change), upcoming: [], ledger: [], words: "" }), { headers: { "content-type": "application/json", etag } });
  const GET = "GET /api/admin/schedules/{name}";
  const PUT = "PUT /api/admin/schedules/{name}";

  test("sends what was changed alone, with the version that was opened; null takes a setting away", async () => {
    const { dialog, user, api } = await open({ [GET]: shown('"v1"', { timing: { start_within: "PT5M" } }), [PUT]: record("nightly") }, "/schedules?edit=nightly");
    const cron = await dialog.findByRole("textbox", { name: /Cron expression/ });
    expect((cron as HTMLInputElement).value).toBe("0 3 * * *");
    await put(user, cron, "0 4 * * *");
    await user.click(dialog.getByText(/Overlap, outages/));
    await user.clear(dialog.getByRole("textbox", { name: "Must begin within" }));
    await user.click(dialog.getByRole("switch", { name: "Enabled" }));
    await user.click(dialog.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    const [call] = api.of(PUT);
    expect(call!.path).toBe("/api/admin/schedules/id-nightly");
    expect(call!.body).toEqual({ cron: "0 4 * * *", start_within: null, enabled: false });
    expect(call!.headers["if-match"]).toBe('"v1"');
  });

  test("without any change sends nothing", async () => {
    const { dialog, user, api } = await open({ [GET]: shown('"v1"') }, "/schedules?edit=nightly");
    await user.click(await dialog.findByRole("button", { name: "Save" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(api.of(PUT)).toHaveLength(0);
  });

  test("of what somebody else has changed meanwhile asks what to do", async () => {
    const { dialog, user, api } = await open({ [GET]: shown('"v1"'), [PUT]: problem(412, "stale", "it was changed"), "GET /api/admin/schedules": pageOf([line("nightly")]) }, "/schedules?edit=nightly");
    const cron = await dialog.findByRole("textbox", { name: /Cron expression/ });
    await put(user, cron, "0 4 * * *");
    api.on(GET, shown('"v2"', { timing: { cron: "0 5 * * *" } }));
    await user.click(dialog.getByRole("button", { name: "Save" }));
    expect(await dialog.findByText(/Somebody else has changed this schedule/)).toBeTruthy();
    expect(dialog.getByText(/0 5 \* \* \*/)).toBeTruthy();
    expect((cron as HTMLInputElement).value).toBe("0 4 * * *"); // mine is still there
    api.on(PUT, record("nightly"));
    await user.click(dialog.getByRole("button", { name: "Save mine over it" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(api.of(PUT).map((call) => call.headers["if-match"])).toEqual(['"v1"', '"v2"']);
  });

  test("can start again from theirs", async () => {
    const { dialog, user, api } = await open({ [GET]: shown('"v1"'), [PUT]: problem(412, "stale", "it was changed") }, "/schedules?edit=nightly");
    const cron = await dialog.findByRole("textbox", { name: /Cron expression/ });
    await user.type(cron, "x");
    await put(user, cron, "0 4 * * *");
    api.on(GET, shown('"v2"', { timing: { cron: "0 5 * * *" } }));
    await user.click(dialog.getByRole("button", { name: "Save" }));
    await user.click(await screen.findByRole("button", { name: "Start again from theirs" }));
    await waitFor(() => expect((screen.getByRole("textbox", { name: /Cron expression/ }) as HTMLInputElement).value).toBe("0 5 * * *"));
    expect(screen.queryByText(/Somebody else/)).toBeNull();
  });

  test("of what is not there says so", async () => {
    const { dialog } = await open({ [GET]: problem(404, "not_found", "there is no schedule 'nightly'") }, "/schedules?edit=nightly");
    expect(await dialog.findByText("there is no schedule 'nightly'")).toBeTruthy();
  });
});
