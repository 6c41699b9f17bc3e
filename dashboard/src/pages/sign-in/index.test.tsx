/** Signing in: what one is told, whatever happens. */

import { QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { Route, Router, Switch } from "wouter";
import { expect, test, vi } from "vitest";
import { makeQueryClient } from "@/app/queries";
import { FakeApi, offline, problem } from "@/test/kit";
import SignIn, { placeOf } from "./index";

const ASK = "POST /auth/magic-link";

function open(answers: Record<string, unknown> = {}, at = "/sign-in?next=/dashboard/jobs?state=failed") {
  const api = new FakeApi({ "GET /auth/me": problem(401, "auth", "nobody"), [ASK]: { message: "" }, ...answers });
  vi.stubGlobal("fetch", api.fetch);
  window.history.replaceState(null, "", `/dashboard${at}`);
  render(
    <QueryClientProvider client={makeQueryClient()}>
      <Router base="/dashboard">
        <Switch>
          <Route path="/sign-in">
            <SignIn />
          </Route>
          <Route>gone on</Route>
        </Switch>
      </Router>
    </QueryClientProvider>,
  );
  return { api, user: userEvent.setup() };
}
const field = () => screen.getByRole("textbox", { name: "Email address" });
const button = () => screen.getByRole("button", { name: "Mail me a link" });

test("asks for a link, and says what to do next", async () => {
  const { api, user } = open();
  expect(document.title).toBe("Sign in · Rota");
  await user.type(field(), " ada@example.org {Enter}");
  expect(await screen.findByRole("heading", { name: "Look into your mail" })).toBeTruthy();
  expect(screen.getByText("ada@example.org")).toBeTruthy();
  expect(screen.getByText(/Press the button/)).toBeTruthy();
  expect(api.of(ASK)[0]!.body).toEqual({ email: "ada@example.org", next: "/dashboard/jobs?state=failed" });
  expect(screen.getByRole("button", { name: /Send again/ }).getAttribute("aria-disabled")).toBe("true"); // give it a moment
  await user.click(screen.getByRole("button", { name: "Another address" }));
  expect(field()).toBeTruthy();
});

test("says what is wrong with an address, at the field", async () => {
  const { user, api } = open({ [ASK]: problem(422, "validation", "no", [{ field: "body.email", code: "email", detail: "it has no @" }]) });
  await user.click(button());
  expect(screen.getByText("Write your email address.")).toBeTruthy();
  expect(api.of(ASK)).toHaveLength(0);
  await user.type(field(), "ada");
  await user.click(button());
  expect(await screen.findByText("it has no @")).toBeTruthy();
  expect(field().getAttribute("aria-invalid")).toBe("true");
});

test("waits as long as the server says", async () => {
  const limited = () => new Response(JSON.stringify({ code: "rate_limited", detail: "too many" }), { status: 429, headers: { "retry-after": "37" } });
  const { user } = open({ [ASK]: limited });
  await user.type(field(), "ada@example.org{Enter}");
  expect(await screen.findByText(/Try again in 3\d s/)).toBeTruthy();
});

test("says that the server is away, and whatever else it says", async () => {
  const { user, api } = open({ [ASK]: offline });
  await user.type(field(), "ada@example.org{Enter}");
  expect(await screen.findByText(/cannot be reached/)).toBeTruthy();
  api.on(ASK, problem(503, "database", "the database is away"));
  await user.click(button());
  expect(await screen.findByText("the database is away")).toBeTruthy();
  expect(screen.getByText(/req-1/)).toBeTruthy();
});

test("goes on by itself when one is signed in", async () => {
  const { user, api } = open();
  await user.type(field(), "ada@example.org{Enter}");
  await screen.findByRole("heading", { name: "Look into your mail" });
  api.on("GET /auth/me", { email: "ada@example.org" });
  expect(await screen.findByText("gone on", undefined, { timeout: 6000 })).toBeTruthy();
  expect(location.pathname + location.search).toBe("/dashboard/jobs?state=failed");
}, 10_000);

test("who is signed in already goes on at once", async () => {
  open({ "GET /auth/me": { email: "ada@example.org" } }, "/sign-in");
  await waitFor(() => expect(location.pathname).toBe("/dashboard/"));
});

test("leads nowhere but into the dashboard", () => {
  const place = (next: string) => placeOf(`next=${encodeURIComponent(next)}`);
  expect(place("/dashboard/jobs?q=a%20b")).toBe("/jobs?q=a%20b");
  expect(place("/dashboard")).toBe("/");
  for (const bad of ["https://evil.example", "//evil.example", "/dashboard//evil.example", "/dashboardx", "/dashboard/\\evil", "javascript:alert(1)", "/dashboard/sign-in?next=x", ""]) expect(place(bad)).toBe("/");
});
