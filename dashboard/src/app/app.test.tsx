import { act, render, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { describe, expect, test, vi } from "vitest";
import { FakeEventSource } from "@/test/events";
import { FakeApi, ROLES, pageOf, problem } from "@/test/kit";
import { App } from "./app";

const me = (role: string) => ({ account_id: "1", email: `${role}@example.org`, role, via: "session", scopes: null, may: ROLES[role], apps: [], app: "shop", environment: "local", version: "1" });

function open(at: string, answers: Record<string, unknown>): FakeApi {
  const api = new FakeApi({ "GET /auth/me": me("admin"), "GET /api/admin/queues": pageOf([]), "GET /api/admin/workers": pageOf([]), ...answers });
  vi.stubGlobal("fetch", api.fetch);
  window.history.replaceState(null, "", `/dashboard${at}`);
  render(<App />);
  return api;
}

const menu = () => screen.findByRole("navigation", { name: "Pages" });

describe("the shell", () => {
  test("leads nobody to the sign-in page, and back afterwards", async () => {
    open("/queues?x=1", { "GET /auth/me": problem(401, "auth", "sign in first") });
    await waitFor(() => expect(location.pathname).toBe("/dashboard/sign-in"));
    expect(new URLSearchParams(location.search).get("next")).toBe("/dashboard/queues?x=1");
  });

  test("leads to the sign-in page when the session ends meanwhile", async () => {
    const api = open("/queues", {});
    await menu();
    api.on("GET /auth/me", problem(401, "auth", "no longer")).on("GET /api/admin/workers", problem(401, "auth", "no longer"));
    await userEvent.keyboard("gw");
    await waitFor(() => expect(location.pathname).toBe("/dashboard/sign-in"), { timeout: 3000 });
  });

  test("shows an admin everything, and others what they may see", async () => {
    open("/queues", {});
    expect(within(await menu()).getAllByRole("link").map((link) => link.textContent?.replace(/g.$/, ""))).toEqual(
      ["Overview", "Jobs", "Errors", "Logs", "Alerts", "Schedules", "Calendar", "Tasks", "Queues", "Workers", "HTTP jobs", "Settings"],
    );
    expect(within(await menu()).getByRole("link", { current: "page" }).textContent).toContain("Queues");
  });

  test("shows a user their own", async () => {
    open("/", { "GET /auth/me": me("user"), "GET /jobs": pageOf([]) });
    expect(within(await menu()).getAllByRole("link")).toHaveLength(2);
    await waitFor(() => expect(location.pathname).toBe("/dashboard/own-jobs"));
    expect(FakeEventSource.current).toBeUndefined();
  });

  test("goes by keys, and tells of them", async () => {
    open("/queues", {});
    await menu();
    await userEvent.keyboard("gw");
    expect(location.pathname).toBe("/dashboard/workers");
    await userEvent.keyboard("?");
    const help = screen.getByRole("dialog", { name: "Keys" });
    expect(within(help).getByText("Schedules")).toBeTruthy();
    await userEvent.keyboard("gq"); // off while a dialog is open
    expect(location.pathname).toBe("/dashboard/workers");
    await userEvent.keyboard("{Escape}");
    expect(screen.queryByRole("dialog")).toBeNull();
  });

  test("keeps the theme, for the server to see", async () => {
    open("/queues", {});
    await menu();
    await userEvent.click(screen.getByRole("button", { name: "Theme and account" }));
    await userEvent.click(screen.getByRole("menuitemradio", { name: "Dark" }));
    expect(document.documentElement.dataset.theme).toBe("dark");
    expect(document.cookie).toContain("rota_theme=dark");
    await userEvent.click(screen.getByRole("button", { name: "Theme and account" }));
    await userEvent.click(screen.getByRole("menuitemradio", { name: "As the system" }));
    expect(document.documentElement.dataset.theme).toBeUndefined();
    expect(document.cookie).not.toContain("rota_theme");
  });

  test("signs out", async () => {
    const api = open("/queues", { "POST /auth/logout": undefined });
    await menu();
    api.on("POST /auth/logout", () => void api.on("GET /auth/me", problem(401, "auth", "signed out")));
    await userEvent.click(screen.getByRole("button", { name: "Theme and account" }));
    await userEvent.click(screen.getByRole("menuitem", { name: "Sign out" }));
    await waitFor(() => expect(location.pathname).toBe("/dashboard/sign-in"));
    expect(api.of("POST /auth/logout")).toHaveLength(1);
  });

  test("says how old the page is when the connection is lost", async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true });
    open("/queues", {});
    await menu();
    act(() => FakeEventSource.current!.emit("hello"));
    act(() => FakeEventSource.current!.fail());
    expect(screen.queryByText(/Disconnected\. What/)).toBeNull(); // a restart is no news
    await act(() => vi.advanceTimersByTimeAsync(14_000));
    expect(screen.getByText(/What you see is from 1\d s ago/)).toBeTruthy();
    act(() => FakeEventSource.current!.emit("hello"));
    await act(() => vi.advanceTimersByTimeAsync(1000));
    expect(screen.queryByText(/What you see/)).toBeNull();
  });

  test("has a page for addresses that are none", async () => {
    open("/nowhere", {});
    expect(await screen.findByText("There is no such page")).toBeTruthy();
  });

  test("says so when the server cannot be reached at all", async () => {
    open("/queues", { "GET /auth/me": problem(500, "internal", "it broke") });
    expect(await screen.findByText("it broke")).toBeTruthy();
  });
});
