import { screen, waitFor, within } from "@testing-library/react";
import { expect, test } from "vitest";
import { never, offline, pageOf, problem, renderPage } from "@/test/kit";
import { HOSTILE, ago, uuid } from "../jobs/samples";
import OwnJobs from ".";
import { requestOf, wrongOf } from "./create";

const LIST = "GET /jobs";
const own = (number: number, change: object = {}) => ({
  id: uuid(number), task: "http_call", state: "failed", method: "POST", url: "https://api.example.org/hooks", headers: ["X-Api-Key"], run_at: ago(60), timeout_s: 30, attempt: 3, max_attempts: 3,
  idempotency_key: null, cancel_requested: false, created_at: ago(70), updated_at: ago(30), finished_at: ago(30), last_status: 503, last_error: "503 Service Unavailable", ...change,
});
const attempt = (number: number, change: object = {}) => ({ attempt: number, outcome: "failed", started_at: ago(40), finished_at: ago(39), duration_ms: 812, status: 503, reason: "status", error: "it answered 503", redirects: 0, retry_after_s: 20, response: { content_type: "text/html", head: HOSTILE[0], bytes: 2048, cut: false }, ...change });
const BASE = {
  [LIST]: pageOf([own(1), own(2, { state: "queued", finished_at: null, last_status: null, last_error: null })]),
  "GET /jobs/{id}": own(1),
  "GET /jobs/{id}/attempts": pageOf([attempt(3), attempt(2)]),
};
const show = (api: Record<string, unknown> = {}, at = "/own-jobs") => renderPage(<OwnJobs />, { at, role: "user", api: { ...BASE, ...api } });

test("lists one's own jobs, without a stream", async () => {
  show();
  const table = await screen.findByRole("table", { name: "Your jobs" });
  expect((await within(table).findAllByText("https://api.example.org/hooks")).length).toBe(2);
  expect(within(table).getByText("503")).toBeTruthy();
  expect(within(table).getByText("503 Service Unavailable")).toBeTruthy();
});

test("teaches, waits, says what is wrong", async () => {
  const first = show({ [LIST]: pageOf([]) });
  expect(await screen.findByText("No calls yet")).toBeTruthy();
  first.unmount();
  const second = show({ [LIST]: never });
  expect(await screen.findByRole("table", { name: "Your jobs", busy: true })).toBeTruthy();
  second.unmount();
  show({ [LIST]: offline });
  expect(await screen.findByRole("heading", { name: "The server cannot be reached" })).toBeTruthy();
});

test("narrows by state, in the address", async () => {
  const { api, user, where } = show();
  await screen.findByRole("table", { name: "Your jobs" });
  await user.click(screen.getByRole("button", { name: "failed" }));
  await user.click(screen.getByRole("button", { name: "canceled" }));
  expect(where()).toBe("/own-jobs?state=failed,canceled");
  await waitFor(() => expect(api.of(LIST).at(-1)!.query.getAll("state")).toEqual(["failed", "canceled"]));
});

test("one job with what became of each attempt, as text", async () => {
  const { user, where, container } = show();
  await screen.findByRole("table", { name: "Your jobs" });
  await screen.findAllByText("https://api.example.org/hooks");
  await user.keyboard("jo");
  expect(where()).toBe(`/own-jobs?job=${uuid(1)}`);
  const dialog = await screen.findByRole("dialog", { name: "POST https://api.example.org/hooks" });
  expect((await within(dialog).findAllByText("it answered 503")).length).toBe(2);
  expect(within(dialog).getAllByText(/called again in 20 s/).length).toBe(2);
  expect(within(dialog).getByLabelText("Answer to attempt 3").textContent).toBe(HOSTILE[0]);
  expect(container.querySelector("img, script")).toBeNull();
});

test("another's job is like one that is not there", async () => {
  show({ "GET /jobs/{id}": problem(404, "not_found", "there is no job, or it is not yours") }, `/own-jobs?job=${uuid(9)}`);
  expect(await screen.findByText("This job is not there")).toBeTruthy();
});

test("retry by key, cancel after a question", async () => {
  const { api, user } = show({ "POST /jobs/{id}/retry": own(1, { state: "queued" }), "POST /jobs/{id}/cancel": own(2, { state: "canceled" }) });
  await screen.findAllByText("https://api.example.org/hooks");
  await user.keyboard("jr");
  await waitFor(() => expect(api.of(`POST /jobs/${uuid(1)}/retry`)).toHaveLength(1));
  await user.keyboard("jc");
  const dialog = await screen.findByRole("dialog", { name: "Cancel the job" });
  await user.click(within(dialog).getByRole("button", { name: "Cancel the job" }));
  await waitFor(() => expect(api.of(`POST /jobs/${uuid(2)}/cancel`)).toHaveLength(1));
});

test("makes a call: checked here, then by the server, field by field", async () => {
  const { api, user, where } = show({ "POST /jobs": problem(422, "validation", "the request does not fit", [{ field: "body.url", code: "usage", detail: "may not be called: it is private" }]) });
  await user.click(await screen.findByRole("button", { name: "New call" }));
  expect(where()).toBe("/own-jobs?new=1");
  const dialog = screen.getByRole("dialog", { name: "New call" });
  await user.click(within(dialog).getByRole("button", { name: "Call now" }));
  expect(within(dialog).getByText("Where to?")).toBeTruthy();
  expect(api.of("POST /jobs")).toHaveLength(0);
  await user.type(within(dialog).getByLabelText(/^URL/), "http://10.0.0.1/x");
  await user.click(within(dialog).getByRole("button", { name: "Add a header" }));
  await user.type(within(dialog).getByLabelText("Name of header 1"), "X-Api-Key");
  await user.type(within(dialog).getByLabelText("Value of header 1"), "0123");
  await user.selectOptions(within(dialog).getByLabelText("Body"), "json");
  await user.click(within(dialog).getByLabelText("JSON"));
  await user.paste('{"order": 7}');
  await user.click(within(dialog).getByRole("button", { name: "Call now" }));
  expect((await within(dialog).findAllByText("may not be called: it is private")).length).toBeGreaterThan(0);
  expect(api.of("POST /jobs")[0]!.body).toEqual({ url: "http://10.0.0.1/x", method: "POST", headers: { "X-Api-Key": "0123" }, json: { order: 7 } });
  api.on("POST /jobs", own(5, { state: "queued" }));
  await user.click(within(dialog).getByRole("button", { name: "Call now" }));
  await waitFor(() => expect(where()).toBe(`/own-jobs?job=${uuid(5)}`));
});

test("says so where HTTP jobs are off", async () => {
  const { user } = show({ "POST /jobs": problem(409, "http_jobs_off", "HTTP jobs are off here") }, "/own-jobs?new=1");
  await user.type(await screen.findByLabelText(/^URL/), "https://example.org{Enter}");
  expect(await screen.findByText("HTTP jobs are off here")).toBeTruthy();
});

test("a form means a request", () => {
  const form = { url: " https://a.b/c ", method: "PUT" as const, headers: [{ name: "", value: "" }], kind: "text" as const, body: "hi", later: true, at: "2030-01-02T03:04:05", timeout: "10", attempts: "2", base: "", cap: "", key: "k", secret: "s" };
  expect(requestOf(form)).toEqual({ url: "https://a.b/c", method: "PUT", body: "hi", run_at: new Date("2030-01-02T03:04:05").toISOString(), timeout_s: 10, retry: { max_attempts: 2 }, idempotency_key: "k", signing_secret: "s" });
  expect(wrongOf({ ...form, url: "javascript:alert(1)", timeout: "soon", kind: "json", body: "{" })).toMatchObject({ url: expect.any(String), timeout_s: expect.any(String), json: expect.any(String) });
});
