/** Oneself, users, tokens and the audit. */

import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { never, pageOf, problem, renderPage } from "@/test/kit";
import { readAudit } from "./audit";
import Settings from "./index";

const ME = "0198a000-0000-7000-8000-000000000001";
const USERS = "GET /api/admin/users";

function user_(email: string, change: object = {}) {
  return { id: `id-${email.split("@")[0]}`, email, role: "operator", created_at: "2026-01-01T00:00:00Z", signed_in_at: null, disabled_at: null, ...change };
}
function token(id: number, change: object = {}) {
  return { id, name: `token-${id}`, hint: "rota_abcde", account_id: ME, email: "admin@example.org", parent_id: null, scopes: ["jobs.read"], created_at: "2026-01-01T00:00:00Z", created_by: "admin@example.org", expires_at: null, revoked_at: null, last_used_at: null, ...change };
}

describe("you", () => {
  test("who one is, what one may, and the way out", async () => {
    const { user, api, where } = renderPage(<Settings />, { at: "/settings", role: "operator", route: "/settings", api: { "POST /auth/logout": undefined } });
    expect(await screen.findByText("operator@example.org")).toBeTruthy();
    expect(within(screen.getByRole("list", { name: "Your rights" })).getByText("schedules.change")).toBeTruthy();
    await user.click(screen.getByRole("button", { name: "Sign out" }));
    await waitFor(() => expect(where()).toBe("/sign-in"));
    expect(api.of("POST /auth/logout")).toHaveLength(1);
  });

  test("a user of HTTP jobs is told what is theirs, and that the rest is not", async () => {
    const { user, api } = renderPage(<Settings />, { role: "user", api: {} });
    expect(await screen.findByText(/HTTP jobs and tokens of your own/)).toBeTruthy();
    await user.click(screen.getByRole("tab", { name: "Users" }));
    expect(screen.getByText("You may not see users")).toBeTruthy();
    await user.click(screen.getByRole("tab", { name: "Audit" }));
    expect(screen.getByText("You may not see the audit")).toBeTruthy();
    expect(api.calls.every((call) => call.path === "/auth/me")).toBe(true);
  });
});

describe("users", () => {
  const at = "/settings?tab=users";

  test("are listed, loading, or in error", async () => {
    const first = renderPage(<Settings />, { at, api: { [USERS]: pageOf([user_("ada@example.org"), user_("<b>x</b>@example.org", { disabled_at: "2026-01-02T00:00:00Z" })]) } });
    expect(await screen.findByText("ada@example.org")).toBeTruthy();
    expect(screen.getByText("<b>x</b>@example.org")).toBeTruthy();
    expect(screen.getByText("disabled")).toBeTruthy();
    first.unmount();
    const second = renderPage(<Settings />, { at, api: { [USERS]: never } });
    expect(await screen.findByRole("table", { name: "Users", busy: true })).toBeTruthy();
    second.unmount();
    renderPage(<Settings />, { at, api: { [USERS]: problem(503, "database", "away") } });
    expect(await screen.findByText("away")).toBeTruthy();
  });

  test("are invited, with a link by mail", async () => {
    const { api, user, where } = renderPage(<Settings />, { at, api: { [USERS]: pageOf([]), "POST /api/admin/users": problem(409, "conflict", "ada@example.org has an account"), "POST /auth/magic-link": { message: "" } } });
    await user.click(await screen.findByRole("button", { name: "Invite" }));
    const dialog = within(screen.getByRole("dialog", { name: "Invite somebody" }));
    await user.click(dialog.getByRole("button", { name: "Invite" }));
    expect(dialog.getByText(/Write their email address/)).toBeTruthy();
    await user.type(dialog.getByRole("textbox", { name: /Email address/ }), "ada@example.org");
    await user.selectOptions(dialog.getByRole("combobox", { name: "Role" }), "read_only");
    await user.click(dialog.getByRole("button", { name: "Invite" }));
    expect(await dialog.findByText("ada@example.org has an account")).toBeTruthy();
    expect(api.of("POST /auth/magic-link")).toHaveLength(0);
    api.on("POST /api/admin/users", user_("ada@example.org"));
    await user.click(dialog.getByRole("button", { name: "Invite" }));
    expect(await screen.findByText(/ada@example.org is invited/)).toBeTruthy();
    expect(api.of("POST /api/admin/users").at(-1)!.body).toEqual({ email: "ada@example.org", role: "read_only" });
    expect(api.of("POST /auth/magic-link")[0]!.body).toEqual({ email: "ada@example.org" });
    expect(where()).toBe(at);
  });

  test("get another role after asking; the server's no is shown", async () => {
    const { api, user } = renderPage(<Settings />, { at, api: { [USERS]: pageOf([user_("ada@example.org", { role: "admin" })]), "PATCH /api/admin/users/{who}": problem(409, "conflict", "the last admin stays one") } });
    await user.selectOptions(await screen.findByRole("combobox", { name: "Role of ada@example.org" }), "user");
    const dialog = within(screen.getByRole("dialog", { name: "Change the role" }));
    await user.click(dialog.getByRole("button", { name: "Change" }));
    expect(await dialog.findByText("the last admin stays one")).toBeTruthy();
    expect(api.of("PATCH /api/admin/users/id-ada")[0]!.body).toEqual({ role: "user" });
  });

  test("are disabled and enabled; oneself is not", async () => {
    const { api, user } = renderPage(<Settings />, { at, api: { [USERS]: pageOf([user_("admin@example.org", { id: ME }), user_("bo@example.org"), user_("cy@example.org", { disabled_at: "2026-01-02T00:00:00Z" })]), "POST /api/admin/users/{who}/disable": user_("bo@example.org"), "POST /api/admin/users/{who}/enable": user_("cy@example.org") } });
    expect((await screen.findByRole("button", { name: "Disable admin@example.org" })).getAttribute("aria-disabled")).toBe("true");
    await user.click(screen.getByRole("button", { name: "Disable bo@example.org" }));
    await user.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Disable" }));
    await waitFor(() => expect(api.of("POST /api/admin/users/id-bo/disable")).toHaveLength(1));
    await user.click(screen.getByRole("button", { name: "Enable cy@example.org" }));
    await waitFor(() => expect(api.of("POST /api/admin/users/id-cy/enable")).toHaveLength(1));
  });

  test("cannot be changed by who may only see them", async () => {
    renderPage(<Settings />, { at, may: ["users.read"], api: { [USERS]: pageOf([user_("ada@example.org")]) } });
    expect((await screen.findByRole("button", { name: "Disable ada@example.org" })).getAttribute("aria-disabled")).toBe("true");
    expect(screen.getByRole("button", { name: "Invite" }).getAttribute("aria-disabled")).toBe("true");
    expect(screen.queryByRole("combobox")).toBeNull();
  });
});

describe("tokens", () => {
  const at = "/settings?tab=tokens";
  const OWN = "GET /auth/tokens";

  test("of one's own are made, and shown once", async () => {
    const { api, user, where } = renderPage(<Settings />, { at, role: "user", api: { [OWN]: pageOf([]), "POST /auth/tokens": { token: "rota_secret", record: token(1, { name: "laptop" }) } } });
    expect(await screen.findByText("No tokens yet")).toBeTruthy();
    await user.click(screen.getByRole("button", { name: "New token" }));
    const dialog = within(screen.getByRole("dialog", { name: "New token" }));
    await user.click(dialog.getByRole("button", { name: "Make it" }));
    expect(dialog.getByText(/Give it a name/)).toBeTruthy();
    expect(dialog.getByText(/Choose what it is for/)).toBeTruthy();
    await user.type(dialog.getByRole("textbox", { name: /Name/ }), "laptop");
    await user.click(dialog.getByRole("checkbox", { name: "own.read" }));
    api.on(OWN, pageOf([token(1, { name: "laptop" })]));
    await user.click(dialog.getByRole("button", { name: "Make it" }));
    const once = within(await screen.findByRole("dialog", { name: "laptop is made" }));
    expect(once.getByText("rota_secret")).toBeTruthy();
    expect(once.getByText(/only time/)).toBeTruthy();
    expect(api.of("POST /auth/tokens")[0]!.body).toEqual({ name: "laptop", scopes: ["own.read"], days: 90 });
    await user.click(once.getByRole("button", { name: "I have kept it" }));
    expect(document.body.textContent).not.toContain("rota_secret");
    expect(where()).toBe(at);
    expect(await screen.findByText("laptop")).toBeTruthy();
    expect(screen.queryByRole("combobox", { name: "Whose" })).toBeNull();
  });

  test("are revoked after asking", async () => {
    const { api, user } = renderPage(<Settings />, { at, role: "user", api: { [OWN]: pageOf([token(1), token(2, { revoked_at: "2026-01-02T00:00:00Z" })]), "DELETE /auth/tokens/{id}": token(1) } });
    await user.click(await screen.findByRole("button", { name: "Revoke token-1" }));
    await user.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Revoke" }));
    await waitFor(() => expect(api.of("DELETE /auth/tokens/1")).toHaveLength(1));
    expect(screen.queryByRole("button", { name: "Revoke token-2" })).toBeNull();
    expect(screen.getByText("revoked")).toBeTruthy();
  });

  test("name the token that created them", async () => {
    renderPage(<Settings />, { at, role: "user", api: { [OWN]: pageOf([token(2, { parent_id: 1 }), token(3, { parent_id: 99 }), token(1)]) } });
    expect(await screen.findByText("created with token-1")).toBeTruthy();
    expect(screen.getByText("created with token 99")).toBeTruthy();
  });

  test("of everybody are for admins, who make them for others too", async () => {
    const { api, user } = renderPage(<Settings />, { at: `${at}&whose=all`, api: { "GET /api/admin/tokens": pageOf([token(3, { email: "bo@example.org" })]), "POST /api/admin/tokens": problem(404, "not_found", "nobody has this address", []) } });
    expect(await screen.findByText("bo@example.org")).toBeTruthy();
    await user.click(screen.getByRole("button", { name: "New token" }));
    const dialog = within(screen.getByRole("dialog"));
    await user.type(dialog.getByRole("textbox", { name: /Name/ }), "deploy");
    const owner = dialog.getByRole("textbox", { name: /Owner/ });
    await user.clear(owner);
    await user.type(owner, "cy@example.org");
    await user.click(dialog.getByRole("checkbox", { name: "All that its owner may" }));
    await user.selectOptions(dialog.getByRole("combobox", { name: "Good for" }), "");
    await user.click(dialog.getByRole("button", { name: "Make it" }));
    expect(await dialog.findByText("nobody has this address")).toBeTruthy();
    expect(api.of("POST /api/admin/tokens")[0]!.body).toEqual({ name: "deploy", owner: "cy@example.org", scopes: null, days: null });
  });
});

describe("the audit", () => {
  const AUDIT = "GET /api/admin/audit";
  const entry = { id: 9, at: "2026-03-01T10:00:00Z", account_id: ME, actor: "ada@example.org", role: "admin", via: "session", operation: "schedules.update", target: "<i>nightly</i>", detail: { changed: ["cron"] } };

  test("is filtered in the address, and one entry is shown whole", async () => {
    const { api, user, where } = renderPage(<Settings />, { at: "/settings?tab=audit&q=operation:schedules.update", api: { [AUDIT]: pageOf([entry]) } });
    expect((await screen.findAllByText("<i>nightly</i>", { exact: false })).length).toBe(2);
    expect(api.of(AUDIT)[0]!.query.get("operation")).toBe("schedules.update");
    await user.click(screen.getByRole("button", { name: "ada@example.org" }));
    expect(where()).toBe("/settings?tab=audit&q=actor:ada%40example.org");
    await waitFor(() => expect(api.of(AUDIT).at(-1)!.query.get("actor")).toBe("ada@example.org"));
    await user.keyboard("jo");
    const sheet = await screen.findByRole("dialog", { name: "schedules.update" });
    expect(within(sheet).getByRole("group", { name: "Details" }).textContent).toContain("cron");
  });

  test("is empty", async () => {
    renderPage(<Settings />, { at: "/settings?tab=audit", api: { [AUDIT]: pageOf([]) } });
    expect(await screen.findByText("Nobody has changed anything yet")).toBeTruthy();
  });

  test("reads what is typed", () => {
    expect(readAudit('actor:ada@example.org operation:jobs.retry target:"a b"')).toEqual({ actor: "ada@example.org", operation: "jobs.retry", target: "a b" });
    expect(readAudit("bo@example.org users.create nightly")).toEqual({ actor: "bo@example.org", operation: "users.create", target: "nightly" });
  });
});
