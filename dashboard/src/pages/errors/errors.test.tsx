import { act, screen, waitFor, within } from "@testing-library/react";
import { expect, test } from "vitest";
import { type Call, never, pageOf, problem, renderPage } from "@/test/kit";
import { HOSTILE, ago, record, summary, uuid } from "../jobs/samples";
import Errors from ".";

const LIST = "GET /api/admin/errors";
const group = (fingerprint: string, change: object = {}) => ({ fingerprint, type: "shop.Declined", message: "the card was declined", tasks: ["charge"], count: { count: 10_000, capped: true, estimated: false }, first_seen: ago(7200), last_seen: ago(20), ...change });
const BASE = {
  [LIST]: pageOf([group("aaaa000011112222"), group("bbbb", { type: "LookupError", message: "unknown", tasks: ["a", "b", "c"], count: { count: 3, capped: false, estimated: false } })]),
  "GET /api/admin/errors/{fingerprint}": { group: group("aaaa000011112222"), error: record(1).last_error, latest: [{ fingerprint: "aaaa000011112222", task: "charge", job_id: uuid(5), attempt: 3, finished_at: ago(20), error: { message: "declined again" } }] },
  "GET /api/admin/jobs": pageOf([summary(1)]),
  "GET /api/admin/jobs/values": pageOf(["charge"]),
};

test("lists groups: what, of which tasks, how often, when", async () => {
  renderPage(<Errors />, { at: "/errors", api: BASE });
  const table = await screen.findByRole("table", { name: "Error groups" });
  expect(await within(table).findByText("the card was declined")).toBeTruthy();
  expect(within(table).getByText("10k+")).toBeTruthy();
  expect(within(table).getByText("and 1 more")).toBeTruthy();
  expect(within(table).getByRole("link", { name: "shop.Declined" }).getAttribute("href")).toBe("/dashboard/errors?group=aaaa000011112222");
});

test("narrows by task and time, in the address; follows the stream", async () => {
  const { api, user, where, emit } = renderPage(<Errors />, { at: "/errors?task=send_*", api: { ...BASE, [LIST]: pageOf([]) } });
  expect(await screen.findByText("No error matches")).toBeTruthy();
  expect(api.of(LIST)[0]!.query.get("task")).toBe("send_*");
  await user.selectOptions(screen.getByLabelText("Seen in"), "24h");
  await waitFor(() => expect(where()).toBe("/errors?task=send_*&since=24h"));
  await waitFor(() => expect(api.of(LIST).at(-1)!.query.get("since")).toBe("24h"));
  api.on(LIST, pageOf([group("aaaa")]));
  act(() => emit("runs"));
  expect(await screen.findByText("the card was declined", undefined, { timeout: 3000 })).toBeTruthy();
});

test("is glad when nothing has failed, waits, and says what is wrong", async () => {
  const first = renderPage(<Errors />, { api: { ...BASE, [LIST]: pageOf([]) } });
  expect(await screen.findByText("Nothing has failed")).toBeTruthy();
  first.unmount();
  const second = renderPage(<Errors />, { api: { ...BASE, [LIST]: never } });
  expect(await screen.findByRole("table", { name: "Error groups", busy: true })).toBeTruthy();
  second.unmount();
  renderPage(<Errors />, { role: "operator", api: { ...BASE, [LIST]: problem(403, "forbidden", "operators may not do runs.read") } });
  expect(await screen.findByRole("heading", { name: "You may not see this" })).toBeTruthy();
});

test("one group: the last error, its jobs, and back", async () => {
  const { api, user, where } = renderPage(<Errors />, { at: "/errors", api: BASE });
  await screen.findByText("the card was declined");
  await user.keyboard("j{Enter}");
  expect(where()).toBe("/errors?group=aaaa000011112222");
  expect(await screen.findByRole("heading", { level: 1, name: /shop.Declined/ })).toBeTruthy();
  expect(screen.getByLabelText("Traceback").textContent).toContain("app.py");
  expect(screen.getByText("declined again")).toBeTruthy();
  expect(screen.getAllByRole("link", { name: "charge" }).map((link) => link.getAttribute("href"))).toContain(`/dashboard/jobs/${uuid(5)}?attempt=3`);
  const jobs = await screen.findByRole("table", { name: "Jobs of this error" });
  expect(await within(jobs).findByRole("link", { name: "send_mail" })).toBeTruthy();
  expect(api.of("GET /api/admin/jobs").at(-1)!.query.get("error")).toBe("aaaa000011112222");
  await user.click(screen.getByRole("button", { name: "Errors" }));
  expect(where()).toBe("/errors");
});

test("retry all: counted, confirmed, done over the cursor", async () => {
  const bodies: Record<string, unknown>[] = [];
  const { user } = renderPage(<Errors />, {
    at: "/errors?group=aaaa000011112222",
    api: {
      ...BASE,
      "POST /api/admin/jobs/bulk": (call: Call) => {
        const body = call.body as Record<string, unknown>;
        bodies.push(body);
        if (body.dry_run) return { action: "retry", dry_run: true, matched: { count: 7, capped: false, estimated: false }, changed: 0, skipped: 0, next: null };
        return { action: "retry", dry_run: false, matched: null, changed: body.cursor ? 3 : 4, skipped: 0, next: body.cursor ? null : "c1" };
      },
    },
  });
  await user.click(await screen.findByRole("button", { name: "Retry all" }));
  const dialog = await screen.findByRole("dialog", { name: "Retry jobs" });
  await user.click(await within(dialog).findByRole("button", { name: "Retry 7 jobs" }));
  expect(await within(dialog).findByText("7 jobs were retried.")).toBeTruthy();
  expect(bodies[0]).toMatchObject({ filter: { state: ["failed"], error: "aaaa000011112222" }, dry_run: true });
  expect(bodies.map((body) => body.cursor)).toEqual([undefined, null, "c1"]);
});

test("nothing to retry, and a preview that fails", async () => {
  const { api, user } = renderPage(<Errors />, { at: "/errors?group=aaaa000011112222", api: { ...BASE, "POST /api/admin/jobs/bulk": problem(503, "too_slow", "ask for less") } });
  await user.click(await screen.findByRole("button", { name: "Retry all" }));
  const dialog = await screen.findByRole("dialog", { name: "Retry jobs" });
  expect(await within(dialog).findByText("ask for less")).toBeTruthy();
  api.on("POST /api/admin/jobs/bulk", { action: "retry", dry_run: true, matched: { count: 0, capped: false, estimated: false }, changed: 0, skipped: 0, next: null });
  await user.click(within(dialog).getByRole("button", { name: "Try again" }));
  expect(await within(dialog).findByText("No job matches that can be retried.")).toBeTruthy();
  await user.click(within(dialog).getByRole("button", { name: "Retry" }));
  expect(api.of("POST /api/admin/jobs/bulk")).toHaveLength(2);
});

test("a group that was pruned is gone; who may not retry sees why; hostile text is text", async () => {
  const first = renderPage(<Errors />, { at: "/errors?group=dead", api: { ...BASE, "GET /api/admin/errors/{fingerprint}": problem(404, "not_found", "there is no error dead") } });
  expect(await screen.findByText("This error is not there")).toBeTruthy();
  first.unmount();
  const { container } = renderPage(<Errors />, {
    at: "/errors?group=aaaa",
    may: ["runs.read", "jobs.read"],
    api: { ...BASE, "GET /api/admin/errors/{fingerprint}": { group: group("aaaa", { type: HOSTILE[0], message: HOSTILE[2], tasks: HOSTILE }), error: { type: HOSTILE[0], message: HOSTILE[2], traceback: HOSTILE[0], causes: [{ message: HOSTILE[2] }, "odd"], errors: 7, extra: { x: HOSTILE[0] } }, latest: [] } },
  });
  expect((await screen.findByRole("button", { name: "Retry all" })).getAttribute("aria-disabled")).toBe("true");
  expect(container.querySelector("img, script")).toBeNull();
});
