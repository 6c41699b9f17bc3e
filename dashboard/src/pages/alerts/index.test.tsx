/** Alerts, webhooks and deliveries. */

import { act, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { never, pageOf, problem, renderPage } from "@/test/kit";
import Alerts from "./index";

const LIST = "GET /api/admin/alerts";
const WEBHOOKS = "GET /api/admin/webhooks";

function alert(id: number, change: object = {}) {
  return { id, kind: "job_failed", subject: "send_invoice", fingerprint: "3f9a", severity: "error", summary: `job ${id} failed for good`, details: { job_id: "0198a000-0000-7000-8000-00000000beef" }, state: "open", count: 3, times_opened: 2, first_seen_at: "2026-03-01T10:00:00Z", last_seen_at: "2026-03-01T11:00:00Z", opened_at: "2026-03-01T10:00:00Z", acknowledged_at: null, acknowledged_by: null, note: null, resolved_at: null, ...change };
}
function webhook(id: number, change: object = {}) {
  return { id, url: "https://example.org/…", kinds: ["job_failed"], enabled: true, created_at: "2026-03-01T10:00:00Z", last_state: "delivered", last_status: 200, last_tried_at: "2026-03-01T10:00:00Z", ...change };
}

describe("alerts", () => {
  test("are listed, open ones alone unless asked for", async () => {
    const { api, user, where, emit } = renderPage(<Alerts />, { at: "/alerts", api: { [LIST]: pageOf([alert(1)]) } });
    expect(await screen.findByText("job 1 failed for good")).toBeTruthy();
    expect(screen.getByText("error")).toBeTruthy();
    expect(api.of(LIST)[0]!.query.get("all")).toBeNull();
    await user.selectOptions(screen.getByRole("combobox", { name: "Which" }), "1");
    await user.selectOptions(screen.getByRole("combobox", { name: "Kind" }), "queue_stuck");
    expect(where()).toBe("/alerts?all=1&kind=queue_stuck");
    await waitFor(() => expect(Object.fromEntries(api.of(LIST).at(-1)!.query)).toMatchObject({ all: "true", kind: "queue_stuck" }));
    api.on(LIST, pageOf([alert(2)]));
    act(() => emit("alerts"));
    expect(await screen.findByText("job 2 failed for good")).toBeTruthy();
  });

  test("are loading, none, or in error", async () => {
    const first = renderPage(<Alerts />, { api: { [LIST]: never } });
    expect(await screen.findByRole("table", { name: "Alerts", busy: true })).toBeTruthy();
    first.unmount();
    const second = renderPage(<Alerts />, { api: { [LIST]: pageOf([]) } });
    expect(await screen.findByText("Nothing needs you")).toBeTruthy();
    second.unmount();
    renderPage(<Alerts />, { api: { [LIST]: problem(503, "database", "away") } });
    expect(await screen.findByText("away")).toBeTruthy();
  });

  test("are acknowledged with a note", async () => {
    const { api, user } = renderPage(<Alerts />, { api: { [LIST]: pageOf([alert(1)]), "POST /api/admin/alerts/{id}/acknowledge": problem(409, "conflict", "it is over already") } });
    await screen.findByText("job 1 failed for good");
    await user.keyboard("jc");
    const dialog = within(screen.getByRole("dialog", { name: "Acknowledge the alert" }));
    await user.type(dialog.getByRole("textbox", { name: "Note" }), "Bo looks into it");
    await user.click(dialog.getByRole("button", { name: "Acknowledge" }));
    expect(await dialog.findByText("it is over already")).toBeTruthy();
    api.on("POST /api/admin/alerts/{id}/acknowledge", alert(1, { state: "acknowledged" }));
    await user.click(dialog.getByRole("button", { name: "Acknowledge" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(api.of("POST /api/admin/alerts/1/acknowledge").at(-1)!.body).toEqual({ note: "Bo looks into it" });
    expect(await screen.findByText("Acknowledged")).toBeTruthy();
  });

  test("one is shown with its details, as text", async () => {
    const summary = "<img src=x onerror=alert(1)> failed";
    const { user, where, container } = renderPage(<Alerts />, { at: "/alerts?alert=1", api: { [LIST]: pageOf([]), "GET /api/admin/alerts/{id}": alert(1, { summary, note: "known", acknowledged_at: "2026-03-01T12:00:00Z", acknowledged_by: "ada@example.org", state: "acknowledged" }) } });
    const sheet = await screen.findByRole("dialog", { name: "A job has failed for good" });
    expect(within(sheet).getByText(summary)).toBeTruthy();
    expect(container.querySelector("img")).toBeNull();
    expect(within(sheet).getByText(/by ada@example.org/)).toBeTruthy();
    expect(within(sheet).getByRole("link", { name: /beef/ }).getAttribute("href")).toContain("/jobs/0198a000");
    await user.keyboard("{Escape}");
    expect(where()).toBe("/alerts");
  });

  test("cannot be acknowledged by who may only read", async () => {
    const { user } = renderPage(<Alerts />, { role: "read_only", api: { [LIST]: pageOf([alert(1)]) } });
    const button = await screen.findByRole("button", { name: /Acknowledge/ });
    expect(button.getAttribute("aria-disabled")).toBe("true");
    await user.click(button);
    expect((await screen.findByRole("tooltip")).textContent).toContain("read-only");
    expect(screen.queryByRole("dialog")).toBeNull();
  });
});

describe("webhooks", () => {
  const at = "/alerts?tab=webhooks";

  test("are listed and switched", async () => {
    const { api, user } = renderPage(<Alerts />, { at, api: { [WEBHOOKS]: pageOf([webhook(1)]), "POST /api/admin/webhooks/{id}/disable": webhook(1, { enabled: false }) } });
    const toggle = await screen.findByRole("switch", { name: "Webhook 1 is enabled" });
    api.on(WEBHOOKS, pageOf([webhook(1, { enabled: false })]));
    await user.click(toggle);
    await waitFor(() => expect(screen.getByRole("switch").getAttribute("aria-checked")).toBe("false"));
    expect(screen.getByRole("button", { name: "Test" }).getAttribute("aria-disabled")).toBe("true");
  });

  test("a test message leads to the deliveries", async () => {
    const delivery = { id: "0198a000-0000-7000-8000-000000000001", webhook_id: 1, alert_id: null, state: "failed", attempt: 2, status: 500, took: "PT0.2S", error: "the server said 500", created_at: "2026-03-01T10:00:00Z", tried_at: null };
    const { api, user, where } = renderPage(<Alerts />, { at, api: { [WEBHOOKS]: pageOf([webhook(1)]), "POST /api/admin/webhooks/{id}/test": { delivery_id: delivery.id }, "GET /api/admin/webhooks/deliveries": pageOf([delivery]) } });
    await user.click(await screen.findByRole("button", { name: "Test" }));
    await user.click(await screen.findByRole("button", { name: "Show deliveries" }));
    expect(where()).toBe("/alerts?tab=deliveries&webhook=1");
    expect(await screen.findByText("the server said 500")).toBeTruthy();
    expect(api.of("GET /api/admin/webhooks/deliveries")[0]!.query.get("webhook")).toBe("1");
    expect(screen.getByText("test")).toBeTruthy();
  });

  test("one is added, and its secret shown this once", async () => {
    const { api, user, where } = renderPage(<Alerts />, { at, api: { [WEBHOOKS]: pageOf([]), "POST /api/admin/webhooks": problem(422, "validation", "no", [{ field: "body.url", code: "url", detail: "it must begin with https://" }]) } });
    await user.click(await screen.findByRole("button", { name: "Add a webhook" }));
    const dialog = within(screen.getByRole("dialog", { name: "Add a webhook" }));
    await user.click(dialog.getByRole("button", { name: "Add" }));
    expect(dialog.getByText(/Where to\?/)).toBeTruthy();
    await user.type(dialog.getByRole("textbox", { name: /URL/ }), "ftp://x");
    await user.click(dialog.getByRole("checkbox", { name: "A worker is gone without a word" }));
    await user.click(dialog.getByRole("button", { name: "Add" }));
    expect(await dialog.findByText("it must begin with https://")).toBeTruthy();
    api.on("POST /api/admin/webhooks", { id: 5, secret: "whsec_abc" }).on(WEBHOOKS, pageOf([webhook(5)]));
    await user.click(dialog.getByRole("button", { name: "Add" }));
    const once = within(await screen.findByRole("dialog", { name: "Webhook 5 is added" }));
    expect(once.getByText("whsec_abc")).toBeTruthy();
    expect(api.of("POST /api/admin/webhooks").at(-1)!.body).toEqual({ url: "ftp://x", kinds: ["worker_died"] });
    await user.click(once.getByRole("button", { name: "I have kept it" }));
    expect(screen.queryByText("whsec_abc")).toBeNull();
    expect(where()).toBe(at);
    await user.click(await screen.findByRole("button", { name: "Add a webhook" }));
    expect(screen.queryByText("whsec_abc")).toBeNull();
  });

  test("one is removed after asking", async () => {
    const { api, user } = renderPage(<Alerts />, { at, api: { [WEBHOOKS]: pageOf([webhook(1)]), "DELETE /api/admin/webhooks/{id}": undefined } });
    await user.click(await screen.findByRole("button", { name: "Actions for webhook 1" }));
    await user.click(screen.getByRole("menuitem", { name: /Remove/ }));
    await user.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Remove" }));
    await waitFor(() => expect(api.of("DELETE /api/admin/webhooks/1")).toHaveLength(1));
  });

  test("are not for operators, and it says so", async () => {
    const { api } = renderPage(<Alerts />, { at, role: "operator", api: { [WEBHOOKS]: pageOf([]) } });
    expect(await screen.findByText("You may not see webhooks")).toBeTruthy();
    expect(api.of(WEBHOOKS)).toHaveLength(0);
  });
});
