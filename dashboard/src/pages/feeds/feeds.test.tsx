/** Feeds: how they do, subscribing, one feed, and a server that has none. */

import { screen, waitFor, within } from "@testing-library/react";
import { expect, test } from "vitest";
import { never, pageOf, problem, renderPage } from "@/test/kit";
import Feeds from "./index";

const feed = (id: number, change: object = {}) => ({
  id,
  url: `https://example.org/${id}.xml`,
  host: "example.org",
  title: `Feed ${id}`,
  site_url: "javascript:alert(1)",
  health: "ok",
  enabled: true,
  subscribers: 1,
  entries: 120,
  next_fetch_at: new Date(Date.now() + 240_000).toISOString(),
  interval_s: 3600,
  last_fetched_at: new Date(Date.now() - 60_000).toISOString(),
  last_success_at: null,
  last_new_at: null,
  last_status: 304,
  last_error: null,
  consecutive_failures: 0,
  websub: null,
  websub_until: null,
  created_at: "2026-02-22T10:00:00Z",
  schedule: `fetch_feed/feed:${id}`,
  ...change,
});
const n = (count: number) => ({ count, capped: false });
const SUMMARY = { new: n(0), ok: n(1), failing: n(1), gone: n(0), off: n(0), oldest_due_at: null, late_s: 0 };
const LIST = "GET /api/admin/feeds";
const API = { [LIST]: pageOf([feed(7), feed(8, { health: "failing", last_error: "<b>timed out</b>" })]) as unknown, "GET /api/admin/feeds/summary": SUMMARY as unknown };

test("lists feeds with health and next fetch, and filters in the address", async () => {
  const { api, user, where } = renderPage(<Feeds />, { at: "/feeds", api: API });
  const row = (await screen.findByRole("link", { name: "Feed 7" })).closest("tr")!;
  expect(row.textContent).toContain("in 4 min");
  expect(screen.getByText("<b>timed out</b>")).toBeTruthy();
  await user.click(screen.getByRole("button", { name: /failing 1/ }));
  expect(where()).toBe("/feeds?health=failing");
  await waitFor(() => expect(api.of(LIST).at(-1)!.query.get("health")).toBe("failing"));
});

test("warns when feeds are late", async () => {
  renderPage(<Feeds />, { api: { ...API, "GET /api/admin/feeds/summary": { ...SUMMARY, late_s: 900 } } });
  expect(await screen.findByText(/15 min/)).toBeTruthy();
});

test("subscribes: checks the address, shows what the server says", async () => {
  const { api, user } = renderPage(<Feeds />, { api: { ...API, "POST /api/admin/feeds": problem(422, "validation", "it does not fit", [{ field: "body.url", code: "x", detail: "that host is not allowed" }]) } });
  await user.click(await screen.findByRole("button", { name: "Subscribe" }));
  const dialog = screen.getByRole("dialog", { name: "Subscribe to a feed" });
  const address = within(dialog).getByLabelText(/Address/);
  await user.type(address, "ftp://example.org/");
  expect(within(dialog).getByText(/begins with https/)).toBeTruthy();
  await user.clear(address);
  await user.type(address, "https://example.org/9.xml");
  await user.click(within(dialog).getByRole("button", { name: "Subscribe" }));
  expect(await within(dialog).findByText("that host is not allowed")).toBeTruthy();
  api.on("POST /api/admin/feeds", { feed: feed(9), created: true, subscribed: true });
  await user.click(within(dialog).getByRole("button", { name: "Subscribe" }));
  expect(await screen.findByText("Subscribed; it is fetched soon")).toBeTruthy();
  expect(api.of("POST /api/admin/feeds").at(-1)!.body).toEqual({ url: "https://example.org/9.xml", subscriber: null });
});

test("imports a list, and shows how far that is", async () => {
  const { user } = renderPage(<Feeds />, {
    api: { ...API, "POST /api/admin/feeds/import": { job_id: "j1", feeds: 2, refused: [{ url: "ftp://x", reason: "not http" }] }, "GET /api/admin/jobs/{id}": { job: { id: "j1", state: "running", progress: { done: 1, total: 2, message: "Feed 1" } } } },
  });
  await user.click(await screen.findByRole("button", { name: "Import" }));
  const dialog = screen.getByRole("dialog", { name: "Import a list of feeds" });
  await user.upload(within(dialog).getByLabelText("OPML file"), new File(["<opml/>"], "feeds.opml", { type: "text/xml" }));
  await user.click(within(dialog).getByRole("button", { name: "Import" }));
  expect(await within(dialog).findByText(/not http/)).toBeTruthy();
  await waitFor(() => expect(within(dialog).getByRole("progressbar").getAttribute("aria-valuenow")).toBe("50"));
});

test("shows one: hostile addresses are text, entries are links; unsubscribes", async () => {
  const { api, user } = renderPage(<Feeds />, {
    at: "/feeds?feed=7",
    api: {
      ...API,
      "GET /api/admin/feeds/{id}": { ...feed(7), subscriptions: [{ subscriber: "ann@example.org", created_at: "2026-02-22T10:00:00Z" }], addresses: [] },
      "GET /api/admin/feeds/{id}/entries": pageOf([{ id: 1, feed_id: 7, feed_title: "Feed 7", uid: "u", url: "https://example.org/a", title: "<i>A title</i>", author: null, text: "words", published_at: null, seen_at: new Date().toISOString(), updated_at: null }]),
      "DELETE /api/admin/feeds/{id}": feed(7),
    },
  });
  const sheet = await screen.findByRole("dialog", { name: "Feed 7" });
  expect(within(sheet).queryByRole("link", { name: "javascript:alert(1)" })).toBeNull();
  expect((await within(sheet).findByRole("link", { name: "<i>A title</i>" })).getAttribute("rel")).toContain("nofollow");
  await user.click(within(sheet).getByRole("button", { name: "Unsubscribe ann@example.org" }));
  await waitFor(() => expect(api.of("DELETE /api/admin/feeds/7")[0]!.query.get("subscriber")).toBe("ann@example.org"));
});

test("fetches now; not for who may not", async () => {
  const first = renderPage(<Feeds />, { api: { ...API, "POST /api/admin/feeds/{id}/fetch": { feed_id: 7 } } });
  await first.user.click(await screen.findByRole("button", { name: "Fetch Feed 7 now" }));
  expect(await screen.findByText("It is fetched as soon as a worker has time")).toBeTruthy();
  first.unmount();
  const { user } = renderPage(<Feeds />, { role: "read_only", api: API });
  await user.click(await screen.findByRole("button", { name: "Fetch Feed 7 now" }));
  expect((await screen.findByRole("tooltip")).textContent).toContain("may not change schedules");
});

test("teaches when there are none, when the server has no feeds, waits, and says errors", async () => {
  const states: [unknown, () => Promise<unknown>][] = [
    [pageOf([]), () => screen.findByText("No feeds yet")],
    [problem(404, "not_found", "no such path"), () => screen.findByText("This application has no feeds")],
    [never, () => screen.findByRole("table", { name: "Feeds", busy: true })],
    [problem(500, "error", "broken"), () => screen.findByText("broken")],
  ];
  for (const [answer, shown] of states) {
    const { unmount } = renderPage(<Feeds />, { api: { ...API, [LIST]: answer } });
    expect(await shown()).toBeTruthy();
    unmount();
  }
});
