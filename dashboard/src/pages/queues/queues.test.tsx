/** Queues: what is shown, pausing with a reason, limits with their checks, conflicts and rights. */

import { act, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import QueuePage from "@/pages/queue/index";
import { never, pageOf, problem, renderPage } from "@/test/kit";
import Queues from "./index";
import { limitWords, rateText, wrongCount, wrongRate } from "./limits";

const n = (count: number, capped = false, estimated = false) => ({ count, capped, estimated });
const queue = (name: string, change: object = {}) => ({
  name,
  paused_at: null,
  pause_reason: null,
  ready: n(12),
  delayed: n(3),
  held: n(0),
  waiting: n(0),
  running: n(4),
  oldest_age: "PT4M",
  workers: 2,
  max_concurrency: null,
  rate: null,
  overridden: false,
  ...change,
});
const LIST = "GET /api/admin/queues";
const ONE = "GET /api/admin/queues/{name}";
const answer = (body: unknown, etag: string) => () => new Response(JSON.stringify(body), { headers: { "content-type": "application/json", etag } });

test("lists queues with depth, age and limits", async () => {
  renderPage(<Queues />, { api: { [LIST]: pageOf([queue("mail", { ready: n(10_000, true), max_concurrency: 5, rate: "100/60s", overridden: true }), queue("slow", { paused_at: "2026-02-22T10:00:00Z", pause_reason: "<b>down</b>" })]) } });
  const table = await screen.findByRole("table", { name: "Queues" });
  const row = (await within(table).findByText("mail")).closest("tr")!;
  expect(row.textContent).toContain("10k+");
  expect(row.textContent).toContain("4 min");
  expect(row.textContent).toContain("5 at once, 100/m");
  expect(within(row).getByText("set by an operator")).toBeTruthy();
  expect(within(table).getByText(/<b>down<\/b>/)).toBeTruthy();
  expect(within(table).getByText("paused")).toBeTruthy();
});

test("marks a queue that no worker works", async () => {
  renderPage(<Queues />, { api: { [LIST]: pageOf([queue("lonely", { workers: 0 })]) } });
  expect(await screen.findByText("no worker")).toBeTruthy();
});

test("pauses with a reason, shows what the server says, and resumes", async () => {
  const { api, user, where } = renderPage(<Queues />, { at: "/queues", api: { [LIST]: pageOf([queue("mail")]), "POST /api/admin/queues/{name}/pause": problem(503, "database", "the database is away") } });
  await user.click(await screen.findByRole("button", { name: "Pause mail" }));
  expect(where()).toBe("/queues?pause=mail");
  const dialog = screen.getByRole("dialog", { name: "Pause mail" });
  await user.type(within(dialog).getByLabelText("Reason"), "mail server is down");
  await user.click(within(dialog).getByRole("button", { name: "Pause" }));
  expect(await within(dialog).findByText("the database is away")).toBeTruthy();
  api.on("POST /api/admin/queues/{name}/pause", queue("mail"));
  api.on(LIST, pageOf([queue("mail", { paused_at: "2026-02-22T10:00:00Z", pause_reason: "mail server is down" })]));
  await user.click(within(dialog).getByRole("button", { name: "Pause" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(api.of("POST /api/admin/queues/mail/pause").at(-1)!.body).toEqual({ reason: "mail server is down" });
  api.on("POST /api/admin/queues/{name}/resume", queue("mail"));
  await user.click(await screen.findByRole("button", { name: "Resume mail" }));
  expect(await screen.findByText("mail is worked again")).toBeTruthy();
});

test("refuses a reason that is too long before it is sent", async () => {
  const { api, user } = renderPage(<Queues />, { at: "/queues?pause=mail", api: { [LIST]: pageOf([queue("mail")]) } });
  const dialog = await screen.findByRole("dialog", { name: "Pause mail" });
  await user.click(within(dialog).getByLabelText("Reason"));
  await user.paste("x".repeat(501));
  expect(within(dialog).getByText(/at most 500 letters/)).toBeTruthy();
  await user.click(within(dialog).getByRole("button", { name: "Pause" }));
  expect(api.of("POST /api/admin/queues/mail/pause")).toHaveLength(0);
});

describe("limits", () => {
  const open = (change: object = {}, more: object = {}) =>
    renderPage(<Queues />, { at: "/queues?limits=mail", api: { [LIST]: pageOf([queue("mail")]), [ONE]: answer(queue("mail", change), '"v1"'), "PUT /api/admin/queues/{name}/limits": { max_concurrency: 5, rate: "100/60s" }, ...more } });

  test("are checked as one types, and only what changed is sent, with the version", async () => {
    const { api, user } = open({ rate: "100/60s" });
    const dialog = await screen.findByRole("dialog", { name: "Limits of mail" });
    const at = await within(dialog).findByLabelText("Jobs at once");
    expect((within(dialog).getByLabelText("Rate of starts") as HTMLInputElement).value).toBe("100/m");
    const save = within(dialog).getByRole("button", { name: "Save" });
    expect(save.getAttribute("aria-disabled")).toBe("true"); // nothing has changed
    await user.type(at, "0");
    expect(within(dialog).getByText(/a whole number from 1/)).toBeTruthy();
    await user.clear(at);
    await user.type(at, "5");
    await user.click(save);
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    const [call] = api.of("PUT /api/admin/queues/mail/limits");
    expect(call!.body).toEqual({ max_concurrency: 5 });
    expect(call!.headers["if-match"]).toBe('"v1"');
    expect(await screen.findByText("mail: 5 at once, 100/m")).toBeTruthy();
  });

  test("show what the server says of a field", async () => {
    const { user } = open({}, { "PUT /api/admin/queues/{name}/limits": problem(422, "validation", "it does not fit", [{ field: "body.rate", code: "x", detail: "too many" }]) });
    const dialog = await screen.findByRole("dialog", { name: "Limits of mail" });
    await user.type(await within(dialog).findByLabelText("Rate of starts"), "9/s");
    await user.click(within(dialog).getByRole("button", { name: "Save" }));
    expect((await within(dialog).findAllByText(/too many/)).length).toBeGreaterThan(0);
  });

  test("say who changed them meanwhile, and take that over on demand", async () => {
    const { api, user } = open(
      {},
      {
        "PUT /api/admin/queues/{name}/limits": problem(412, "stale", "queue 'mail' has been changed meanwhile"),
        "GET /api/admin/audit": pageOf([
          { id: 2, at: new Date().toISOString(), actor: "bo@example.org", role: "admin", via: null, operation: "tasks.update", target: "mail", detail: {}, account_id: null },
          { id: 1, at: new Date().toISOString(), actor: "ada@example.org", role: "admin", via: null, operation: "queues.limit", target: "mail", detail: {}, account_id: null },
        ]),
      },
    );
    const dialog = await screen.findByRole("dialog", { name: "Limits of mail" });
    await user.type(await within(dialog).findByLabelText("Jobs at once"), "5");
    api.on(ONE, answer(queue("mail", { max_concurrency: 8 }), '"v2"'));
    await user.click(within(dialog).getByRole("button", { name: "Save" }));
    expect(await within(dialog).findByText(/has been changed while you were editing/)).toBeTruthy();
    expect(await within(dialog).findByText(/ada@example.org/)).toBeTruthy();
    expect(within(dialog).getByText("max_concurrency: none → 8")).toBeTruthy();
    await user.click(within(dialog).getByRole("button", { name: "Save" }));
    expect(api.of("PUT /api/admin/queues/mail/limits")).toHaveLength(1);
    await user.click(within(dialog).getByRole("button", { name: "Reload it" }));
    expect((within(dialog).getByLabelText("Jobs at once") as HTMLInputElement).value).toBe("8");
    api.on("PUT /api/admin/queues/{name}/limits", { max_concurrency: 9, rate: null });
    await user.clear(within(dialog).getByLabelText("Jobs at once"));
    await user.type(within(dialog).getByLabelText("Jobs at once"), "9");
    await user.click(within(dialog).getByRole("button", { name: "Save" }));
    await waitFor(() => expect(api.of("PUT /api/admin/queues/mail/limits").at(-1)!.headers["if-match"]).toBe('"v2"'));
  });

  test("notice somebody else's change before anything is sent", async () => {
    const { api, emit } = open();
    const dialog = await screen.findByRole("dialog", { name: "Limits of mail" });
    await within(dialog).findByLabelText("Jobs at once");
    api.on(ONE, answer(queue("mail", { rate: "5/1s" }), '"v2"'));
    act(() => emit("queues"));
    expect(await within(dialog).findByText("rate: none → 5/s", undefined, { timeout: 3000 })).toBeTruthy();
  });

  test("take a queue that has only grown for the same", async () => {
    const { api, emit } = open({}, { [ONE]: answer(queue("mail"), '"v1-aaaa"') });
    const dialog = await screen.findByRole("dialog", { name: "Limits of mail" });
    await within(dialog).findByLabelText("Jobs at once");
    api.on(ONE, answer(queue("mail", { ready: n(99) }), '"v1-bbbb"'));
    const before = api.of("GET /api/admin/queues/mail").length;
    act(() => emit("queues"));
    await waitFor(() => expect(api.of("GET /api/admin/queues/mail").length).toBeGreaterThan(before), { timeout: 3000 });
    await act(() => new Promise((resolve) => setTimeout(resolve, 50)));
    expect(within(dialog).queryByText(/has been changed/)).toBeNull();
  });

  test("are given back to code", async () => {
    const { api, user } = open({ overridden: true, max_concurrency: 3 }, { "DELETE /api/admin/queues/{name}/limits": { max_concurrency: null, rate: null } });
    const dialog = await screen.findByRole("dialog", { name: "Limits of mail" });
    await user.click(await within(dialog).findByRole("button", { name: "As code says" }));
    expect(await screen.findByText("mail is limited as code says: none")).toBeTruthy();
    expect(api.of("DELETE /api/admin/queues/mail/limits")).toHaveLength(1);
  });

  test("are read and written as people do", () => {
    expect([rateText("100/60s"), rateText("5/10s"), rateText("9/1s"), rateText(null)]).toEqual(["100/m", "5/10s", "9/s", ""]);
    expect(limitWords(null, null)).toBe("none");
    expect([wrongRate(""), wrongRate("100/m"), wrongRate("5/10s"), wrongCount("")]).toEqual([undefined, undefined, undefined, undefined]);
    expect(wrongRate("fast") && wrongRate("/m") && wrongCount("1.5") && wrongCount("-1")).toBeTruthy();
  });
});

test("teaches, waits, and says errors", async () => {
  const first = renderPage(<Queues />, { api: { [LIST]: pageOf([]) } });
  expect(await screen.findByText("No queues yet")).toBeTruthy();
  first.api.on(LIST, pageOf([queue("mail")]));
  act(() => first.emit("queues"));
  expect(await screen.findByText("mail", undefined, { timeout: 3000 })).toBeTruthy();
  first.unmount();
  const second = renderPage(<Queues />, { api: { [LIST]: never } });
  expect(await screen.findByRole("table", { name: "Queues", busy: true })).toBeTruthy();
  second.unmount();
  renderPage(<Queues />, { api: { [LIST]: problem(500, "error", "broken") } });
  expect(await screen.findByText("broken")).toBeTruthy();
});

test("disables what the role may not, and says why", async () => {
  const { user } = renderPage(<Queues />, { role: "read_only", api: { [LIST]: pageOf([queue("mail")]) } });
  const pause = await screen.findByRole("button", { name: "Pause mail" });
  await user.click(pause);
  expect(screen.queryByRole("dialog")).toBeNull();
  expect((await screen.findByRole("tooltip")).textContent).toContain("may not change queues");
});

test("has keys for the row that has the focus", async () => {
  const { user } = renderPage(<Queues />, { api: { [LIST]: pageOf([queue("a"), queue("b")]) } });
  await screen.findByText("a");
  await user.keyboard("jjp");
  expect(await screen.findByRole("dialog", { name: "Pause b" })).toBeTruthy();
});

describe("one queue", () => {
  const jobs = pageOf([{ id: "0198a000-0000-7000-8000-0000000000aa", task: "send", queue: "mail", priority: 0, state: "queued", run_at: new Date().toISOString(), attempt: 0, max_attempts: 5 }]);
  const render = (role: string, change: object = {}) =>
    renderPage(<QueuePage />, { role, at: "/queues/mail", route: "/queues/:name", api: { [ONE]: queue("mail", change), "GET /api/admin/workers": pageOf([]), "GET /api/admin/jobs": jobs, "GET /api/admin/stats/series": never } });

  test("shows its numbers and jobs, and is paused from here", async () => {
    const { user, where } = render("admin");
    expect(await screen.findByRole("heading", { name: "mail" })).toBeTruthy();
    expect(await screen.findByRole("link", { name: "send" })).toBeTruthy();
    await user.keyboard("p");
    expect(await screen.findByRole("dialog", { name: "Pause mail" })).toBeTruthy();
    expect(where()).toBe("/queues/mail?dialog=pause");
  });

  test("says how to start a worker for it, and asks for no charts without the right", async () => {
    const { api } = render("operator", { workers: 0 });
    expect(await screen.findByText("rota worker -a app --queue mail")).toBeTruthy();
    expect(api.of("GET /api/admin/stats/series")).toHaveLength(0);
  });

  test("that is not there leads back", async () => {
    renderPage(<QueuePage />, { at: "/queues/nope", route: "/queues/:name", api: { [ONE]: problem(404, "not_found", "there is no queue 'nope'") } });
    expect(await screen.findByText("there is no queue 'nope'")).toBeTruthy();
    expect(screen.getByRole("link", { name: "All queues" })).toBeTruthy();
  });
});
