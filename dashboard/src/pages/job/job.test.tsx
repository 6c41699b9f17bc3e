import { act, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { type Call, never, pageOf, problem, renderPage } from "@/test/kit";
import { HOSTILE, ago, detail, record, run, uuid } from "../jobs/samples";
import Job from ".";

const GET = "GET /api/admin/jobs/{id}";
const ERROR = {
  type: "TimeoutError",
  module: "shop.mail",
  message: "no answer <b>in time</b>",
  traceback: '  File "shop/mail.py", line 12, in send\n    post(url)\n',
  causes: [{ type: "OSError", message: "host is down", traceback: '  File "socket.py", line 1, in connect\n' }],
  fingerprint: "3f9a00112233aabb",
};
const BASE = {
  [GET]: detail(record(1), [{ attempt: 2, outcome: "failed", started_at: ago(40), finished_at: ago(39), worker_id: uuid(900), error: ERROR, result: null }]),
  "GET /api/admin/jobs/{id}/why": { job_id: uuid(1), state: "failed", reasons: [{ code: "failed", sentence: "It failed for good at noon." }] },
  "GET /api/admin/jobs/{id}/runs": pageOf([run(1, 2), run(1, 1, { error_type: "ValueError", error: "first try" })]),
};
const LINEAGE = {
  job_id: uuid(1),
  origin: { kind: "schedule", sentence: "Made by schedule nightly, for 2026-02-22 03:00:00 UTC.", user: null, schedule: { id: uuid(50), name: "nightly" }, scheduled_for: "2026-02-22T03:00:00Z" },
  parents: pageOf([{ id: uuid(20), task: null, state: null, settled: true }]),
  children: pageOf([{ id: uuid(21), task: "publish", state: "waiting", settled: false }], "more"),
  edits: [{ attempt: 1, payload: { user_id: 41, lang: "en" }, edited_at: ago(50), edited_by: { kind: "manual", user: "ada@example.org" } }],
};
const show = (api: Record<string, unknown> = {}, options: { at?: string; role?: string } = {}) => renderPage(<Job />, { at: options.at ?? `/jobs/${uuid(1)}`, route: "/jobs/:id", role: options.role, api: { ...BASE, ...api } });

describe("a job", () => {
  test("shows its state, why, its timeline and its last error", async () => {
    show();
    expect(await screen.findByRole("heading", { level: 1, name: /send_mail failed/ })).toBeTruthy();
    expect(await screen.findByText("It failed for good at noon.")).toBeTruthy();
    const timeline = screen.getByRole("region", { name: "Timeline" });
    expect([...timeline.querySelectorAll("li")].map((row) => row.textContent!.replace(/[\d:-]+ [\d:]+$/, ""))).toEqual([
      expect.stringMatching(/^Enqueued/),
      expect.stringMatching(/^Waited/),
      expect.stringMatching(/^Attempt 1 failed1 s/),
      expect.stringMatching(/^Waited to run again9 s/),
      expect.stringMatching(/^Attempt 2 failed1 s/),
      expect.stringMatching(/^Waited to run again/),
      expect.stringMatching(/^Failed/),
    ]);
    expect(document.title).toContain("send_mail");
  });

  test("shows the structured error with its causes, as text", async () => {
    const { container } = show();
    expect(await screen.findByText("shop.mail.TimeoutError")).toBeTruthy();
    expect(screen.getByText(/no answer <b>in time<\/b>/)).toBeTruthy();
    expect(screen.getAllByLabelText("Traceback")[0]!.textContent).toContain('File "shop/mail.py", line 12');
    expect(screen.getByText("Caused by")).toBeTruthy();
    expect(screen.getByText(/host is down/)).toBeTruthy();
    expect(screen.getByRole("link", { name: "3f9a00112233aabb" }).getAttribute("href")).toBe("/dashboard/errors?group=3f9a00112233aabb");
    expect(container.querySelector("h1 b, p b")).toBeNull();
  });

  test("an older attempt is asked for when it is opened", async () => {
    const { api, user } = show({ "GET /api/admin/runs/{job_id}/{attempt}": { ...run(1, 1), error: { type: "ValueError", message: "the whole story" }, payload: null, result: null } });
    await user.click(await screen.findByRole("button", { name: /^Attempt 1\s*failed\s*ValueError/ }));
    expect(await screen.findByText(/the whole story/)).toBeTruthy();
    expect(api.of(`GET /api/admin/runs/${uuid(1)}/1`)).toHaveLength(1);
  });

  test("is followed live through its states", async () => {
    const queued = record(1, { state: "queued", finished_at: null, last_error: null, attempt: 0, run_at: ago(1) });
    const { api, emit } = show({ [GET]: detail(queued), "GET /api/admin/jobs/{id}/runs": pageOf([]), "GET /api/admin/jobs/{id}/why": { job_id: uuid(1), state: "queued", reasons: [{ code: "queue_paused", sentence: "Queue 'mail' is paused: `rota queues resume mail`." }] } });
    expect(await screen.findByRole("region", { name: "Why it has not run" })).toBeTruthy();
    expect(screen.getByText("rota queues resume mail").tagName).toBe("CODE");
    expect(screen.getByText("waiting for the first attempt…")).toBeTruthy();
    api.on(GET, detail(record(1, { state: "running", finished_at: null, attempt: 1, last_error: null, progress: { done: 30, total: 120, message: "importing" } })));
    act(() => emit("jobs"));
    expect(await screen.findByRole("progressbar", { name: "Progress" }, { timeout: 3000 })).toBeTruthy();
    expect(screen.getByText("30 of 120")).toBeTruthy();
    api.on(GET, detail(record(1, { state: "completed", last_error: null, result: { sent: true } })));
    act(() => emit("jobs"));
    await waitFor(() => expect(screen.getByRole("heading", { level: 1 }).textContent).toContain("completed"), { timeout: 4000 });
  });

  test("waits; one that is not there, or whose id is none, is gone; one that was pruned since stays", async () => {
    const waiting = show({ [GET]: never });
    expect(await screen.findByRole("status", { name: "Loading" })).toBeTruthy();
    waiting.unmount();
    const gone = show({ [GET]: problem(404, "not_found", "there is no job") });
    expect(await screen.findByText("This job is not there")).toBeTruthy();
    gone.unmount();
    const wrong = show({}, { at: "/jobs/no-id" });
    expect(await screen.findByText("This job is not there")).toBeTruthy();
    expect(wrong.api.of(GET)).toHaveLength(0);
    wrong.unmount();
    const { api, emit } = show();
    await screen.findByText("shop.mail.TimeoutError");
    api.on(GET, problem(404, "not_found", "there is no job"));
    act(() => emit("jobs"));
    expect(await screen.findByText(/has been pruned since you opened it/, undefined, { timeout: 3000 })).toBeTruthy();
    expect(screen.getByText("shop.mail.TimeoutError")).toBeTruthy();
  });

  test("says what is wrong, and tries again", async () => {
    const { api, user } = show({ [GET]: problem(503, "database", "the database is away") });
    expect(await screen.findByText("the database is away")).toBeTruthy();
    api.on(GET, BASE[GET]);
    await user.click(screen.getByRole("button", { name: "Try again" }));
    expect(await screen.findByRole("heading", { level: 1, name: /send_mail/ })).toBeTruthy();
  });
});

describe("tabs", () => {
  test("payload: secrets hidden until asked for, sealed ones always; hostile text is text", async () => {
    const payload = { password: "hunter22", card: "rota-secret:1:AAAA", notes: HOSTILE };
    const { user, where, container } = show({ [GET]: detail(record(1, { payload })) });
    await user.click(await screen.findByRole("tab", { name: "Payload" }));
    expect(where()).toBe(`/jobs/${uuid(1)}?tab=payload`);
    expect(screen.queryByText(/hunter22/)).toBeNull();
    expect(screen.getByText(/One secret is stored so that nobody can read it/)).toBeTruthy();
    await user.click(screen.getByRole("button", { name: /Show what looks like a secret/ }));
    expect(screen.getByText(/hunter22/)).toBeTruthy();
    expect(screen.queryByText(/rota-secret/)).toBeNull();
    expect(container.querySelector("img, script")).toBeNull();
    expect(screen.getByText(JSON.stringify(HOSTILE[0]))).toBeTruthy();
  });

  test("result: what it returned, or why there is none", async () => {
    const first = show({ [GET]: detail(record(1, { state: "completed", result: { sent: 3 }, last_error: null })) }, { at: `/jobs/${uuid(1)}?tab=result` });
    expect(await screen.findByText(/"sent"/)).toBeTruthy();
    first.unmount();
    show({}, { at: `/jobs/${uuid(1)}?tab=result` });
    expect(await screen.findByText("There is no result: it has not completed.")).toBeTruthy();
  });

  test("lineage: origin, relatives and pruned ones, edits with a diff", async () => {
    show({ "GET /api/admin/jobs/{id}/lineage": LINEAGE, "GET /api/admin/audit": pageOf([{ id: 1, at: ago(10), account_id: null, actor: "ada@example.org", role: "admin", via: "session", operation: "jobs.retry", target: uuid(1), detail: {} }]) }, { at: `/jobs/${uuid(1)}?tab=lineage` });
    expect(await screen.findByText(/Made by schedule nightly/)).toBeTruthy();
    expect(screen.getByRole("link", { name: "Schedule nightly" })).toBeTruthy();
    expect(screen.getByText("pruned")).toBeTruthy();
    expect(screen.getByRole("link", { name: "publish" }).getAttribute("href")).toBe(`/dashboard/jobs/${uuid(21)}`);
    const diff = screen.getByRole("group", { name: "Edit 1" });
    expect(diff.textContent).toMatch(/removed: \s*"user_id": 41/);
    expect(diff.textContent).toMatch(/added: \s*"user_id": 42/);
    expect(await screen.findByText("jobs.retry")).toBeTruthy();
  });

  test("children go on by pages", async () => {
    const { user } = show({ "GET /api/admin/jobs/{id}/lineage": LINEAGE, "GET /api/admin/audit": pageOf([]), "GET /api/admin/jobs/{id}/children": pageOf([LINEAGE.children.items[0], { id: uuid(22), task: "second_child", state: "queued", settled: false }]) }, { at: `/jobs/${uuid(1)}?tab=lineage` });
    await user.click(await screen.findByRole("button", { name: "Show more" }));
    expect(await screen.findByRole("link", { name: "second_child" })).toBeTruthy();
  });

  test("logs: in order, by level and text in the address, each line once while following", async () => {
    const line = (sequence: number, message: string, level = 20) => ({ at: ago(20 - sequence), task: "send_mail", job_id: uuid(1), attempt: 1, sequence, level, message, fields: { to: "<i>ann</i>" } });
    const running = detail(record(1, { state: "running", finished_at: null, attempt: 1, last_error: null }));
    let more = false;
    const { api, user, where } = show(
      {
        [GET]: running,
        "GET /api/admin/logs": pageOf([line(2, "second"), line(1, "first")]),
        "GET /api/admin/logs/follow": () => pageOf([line(1, "first"), line(2, "second"), ...(more ? [line(3, "third", 40)] : [])], "f1"),
      },
      { at: `/jobs/${uuid(1)}?tab=logs` },
    );
    const log = await screen.findByRole("log", { name: "Log" });
    expect(log.textContent).toMatch(/first.*second/s);
    expect(log.querySelector("i")).toBeNull();
    more = true;
    await waitFor(() => expect(log.textContent).toContain("third"), { timeout: 4000 });
    expect(log.textContent!.match(/second/g)).toHaveLength(1);
    expect(api.of("GET /api/admin/logs/follow").at(-1)!.query.get("cursor")).toBe("f1");
    await user.selectOptions(screen.getByLabelText("Level"), "error");
    await waitFor(() => expect(where()).toBe(`/jobs/${uuid(1)}?tab=logs&level=error`));
    await waitFor(() => expect(api.of("GET /api/admin/logs").at(-1)!.query.get("level")).toBe("error"));
    await user.click(screen.getByRole("switch", { name: "Follow" }));
    expect(where()).toContain("follow=0");
  });

  test("who may see neither runs nor logs is told so, and sees the last error all the same", async () => {
    const { api, user } = show({}, { role: "operator" });
    expect(await screen.findByText(/operator\) may not see runs/)).toBeTruthy();
    expect(screen.getByText(/connection reset by peer/)).toBeTruthy();
    expect(api.of("GET /api/admin/jobs/{id}/runs")).toHaveLength(0);
    await user.click(screen.getByRole("tab", { name: "Logs" }));
    expect(screen.getByText(/may not see logs/)).toBeTruthy();
    expect(api.of("GET /api/admin/logs")).toHaveLength(0);
  });
});

describe("actions", () => {
  test("retry by button and by key", async () => {
    const { api, user } = show({ "POST /api/admin/jobs/{id}/retry": record(1, { state: "queued" }) });
    await user.click(await screen.findByRole("button", { name: "Retry" }));
    expect(await screen.findByText("Retried")).toBeTruthy();
    await user.keyboard("r");
    await waitFor(() => expect(api.of("POST /api/admin/jobs/{id}/retry")).toHaveLength(2));
  });

  test("edit & retry: the form, the difference, then the members that changed", async () => {
    const schema = { type: "object", properties: { user_id: { type: "integer" }, lang: { type: "string", default: "en" } }, required: ["user_id"], additionalProperties: false };
    const { api, user } = show({
      "GET /api/admin/forms/{name}": { task: "send_mail", description: null, payload_schema: schema, default_payload: {} },
      "POST /api/admin/jobs/{id}/edit": problem(422, "payload", "it does not fit", [{ field: "user_id", code: "int", detail: "no such user" }]),
    });
    await screen.findByRole("heading", { level: 1 });
    await user.keyboard("e");
    const field = (await screen.findByRole("textbox", { name: /^user_id/ })) as HTMLInputElement;
    expect(screen.getByRole("button", { name: "Review the change" }).getAttribute("aria-disabled")).toBe("true");
    await user.clear(field);
    await user.type(field, "43");
    await user.click(screen.getByRole("button", { name: "Review the change" }));
    const diff = await screen.findByRole("group", { name: "Changes of the payload" });
    expect(diff.textContent).toMatch(/removed: \s*"user_id": 42/);
    expect(diff.textContent).toMatch(/added: \s*"user_id": 43/);
    expect(api.of("POST /api/admin/jobs/{id}/edit")).toHaveLength(0);
    await user.click(screen.getByRole("button", { name: "Retry with this payload" }));
    expect((await screen.findAllByText("no such user")).length).toBeGreaterThan(0);
    expect(api.of("POST /api/admin/jobs/{id}/edit")[0]!.body).toEqual({ changes: { user_id: 43 } });
    api.on("POST /api/admin/jobs/{id}/edit", record(1, { state: "queued" }));
    await user.click(screen.getByRole("button", { name: "Review the change" }));
    await user.click(await screen.findByRole("button", { name: "Retry with this payload" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  });

  test("edit without a form is JSON; what is taken away is sent whole", async () => {
    const { api, user } = show({ "GET /api/admin/forms/{name}": problem(404, "not_found", "there is no task send_mail"), "POST /api/admin/jobs/{id}/edit": record(1) });
    await user.click(await screen.findByRole("button", { name: "Edit & retry" }));
    const box = await screen.findByRole("textbox", { name: "Payload" });
    await user.clear(box);
    await user.click(box);
    await user.paste('{"user_id": 7');
    expect(screen.getByRole("button", { name: "Review the change" }).getAttribute("aria-disabled")).toBe("true");
    await user.paste("}");
    await user.click(screen.getByRole("button", { name: "Review the change" }));
    await user.click(await screen.findByRole("button", { name: "Retry with this payload" }));
    await waitFor(() => expect(api.of("POST /api/admin/jobs/{id}/edit")[0]!.body).toEqual({ payload: { user_id: 7 } }));
  });

  test("cancel asks, with a reason, and shows what the server says", async () => {
    const { api, user } = show({ [GET]: detail(record(1, { state: "running", finished_at: null })), "POST /api/admin/jobs/{id}/cancel": problem(409, "conflict", "it is locked by another transaction") });
    await screen.findByRole("heading", { level: 1 });
    await user.keyboard("c");
    const dialog = await screen.findByRole("dialog", { name: "Cancel the job" });
    expect(dialog.textContent).toContain("asked to stop");
    await user.type(within(dialog).getByLabelText("Reason"), "too slow");
    await user.click(within(dialog).getByRole("button", { name: "Cancel the job" }));
    expect(await within(dialog).findByText("it is locked by another transaction")).toBeTruthy();
    expect(api.of("POST /api/admin/jobs/{id}/cancel")[0]!.body).toEqual({ reason: "too slow" });
  });

  test("reschedule sends a time in UTC", async () => {
    const { api, user } = show({ [GET]: detail(record(1, { state: "queued", finished_at: null })), "POST /api/admin/jobs/{id}/reschedule": record(1) });
    await user.click(await screen.findByRole("button", { name: "Reschedule" }));
    const dialog = await screen.findByRole("dialog", { name: "Reschedule the job" });
    await user.click(within(dialog).getByRole("button", { name: "In 1 h" }));
    await user.click(within(dialog).getByRole("button", { name: "Reschedule" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    const { run_at } = api.of("POST /api/admin/jobs/{id}/reschedule")[0]!.body as { run_at: string };
    expect(Math.abs(new Date(run_at).getTime() - Date.now() - 3_600_000)).toBeLessThan(10_000);
  });

  test("copy as: in the clipboard; without one, to be read", async () => {
    const { user } = show({ [GET]: detail(record(1, { payload: { note: "it's" } })) });
    await user.click(await screen.findByRole("button", { name: "Copy as" }));
    await user.click(screen.getByRole("menuitem", { name: "SQL" }));
    expect(await navigator.clipboard.readText()).toContain(`'{"note":"it''s"}'`);
    expect(await screen.findByText("Copied as SQL")).toBeTruthy();
    await user.click(screen.getByRole("button", { name: "Copy as" }));
    await user.click(screen.getByRole("menuitem", { name: "Show…" }));
    const dialog = await screen.findByRole("dialog", { name: "Another send_mail" });
    await user.click(within(dialog).getByRole("tab", { name: "Command line" }));
    expect(dialog.textContent).toContain(`rota jobs enqueue`);
  });

  test("what cannot be done, or not by who looks, says why", async () => {
    const first = show({ [GET]: detail(record(1, { state: "completed", last_error: null })) });
    const button = await screen.findByRole("button", { name: "Retry" });
    expect(button.getAttribute("aria-disabled")).toBe("true");
    await first.user.hover(button);
    expect((await screen.findByRole("tooltip")).textContent).toContain("has completed");
    first.unmount();
    const { api, user } = show({}, { role: "read_only" });
    for (const name of ["Retry", "Edit & retry", "Cancel", "Reschedule"]) expect((await screen.findByRole("button", { name })).getAttribute("aria-disabled")).toBe("true");
    await user.keyboard("r");
    expect(await screen.findByText(/read-only\) may not change jobs/)).toBeTruthy();
    expect(api.calls.filter((call: Call) => call.method === "POST")).toHaveLength(0);
  });
});
