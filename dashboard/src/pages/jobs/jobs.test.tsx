import { act, cleanup, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { type Call, never, offline, pageOf, problem, renderPage } from "@/test/kit";
import Jobs from ".";
import { FACETS, HOSTILE, detail, record, summary, uuid } from "./samples";

const LIST = "GET /api/admin/jobs";
const BASE = {
  [LIST]: pageOf([summary(1), summary(2, { task: "charge", state: "queued", finished_at: null, error: null, error_type: null }), summary(3, { state: "completed", error: null, error_type: null })]),
  "GET /api/admin/jobs/facets": FACETS,
  "GET /api/admin/jobs/values": (call: Call) => pageOf((call.query.get("of") === "task" ? ["send_mail", "send_sms"] : ["mail"]).filter((name) => name.includes(call.query.get("text") ?? ""))),
  "GET /api/admin/jobs/{id}": (call: Call) => detail(record(Number(call.params.id!.slice(-3)))),
  "GET /api/admin/jobs/{id}/why": { job_id: uuid(1), state: "failed", reasons: [{ code: "failed", sentence: "It failed for good; `rota jobs retry x` runs it again." }] },
};

const rows = async () => {
  const shown = () => screen.getByRole("table", { name: "Jobs" }).querySelectorAll("tbody tr[data-row]");
  await waitFor(() => expect(shown().length).toBeGreaterThan(0));
  return shown();
};

describe("the list", () => {
  test("shows state, task, attempts and error of each, and how many there are", async () => {
    renderPage(<Jobs />, { at: "/jobs", api: BASE });
    const table = await screen.findByRole("table", { name: "Jobs" });
    expect(await within(table).findByText(/connection reset by peer/)).toBeTruthy();
    expect(within(table).getByText("queued")).toBeTruthy();
    expect(within(table).getByRole("link", { name: "charge" }).getAttribute("href")).toBe(`/dashboard/jobs/${uuid(2)}`);
    expect(await screen.findByText("3 jobs")).toBeTruthy();
  });

  test("teaches when there is nothing, and flips when the first job comes", async () => {
    const { api, emit } = renderPage(<Jobs />, { api: { ...BASE, [LIST]: pageOf([]) } });
    expect(await screen.findByText("No jobs yet")).toBeTruthy();
    expect(screen.getByText("waiting for the first job…")).toBeTruthy();
    api.on(LIST, pageOf([summary(1)]));
    act(() => emit("jobs"));
    expect(await screen.findByText(/connection reset by peer/, undefined, { timeout: 3000 })).toBeTruthy();
  });

  test("waits, says what is wrong, and tries again", async () => {
    const waiting = renderPage(<Jobs />, { api: { ...BASE, [LIST]: never } });
    expect(await screen.findByRole("table", { name: "Jobs", busy: true })).toBeTruthy();
    waiting.unmount();
    const { api, user } = renderPage(<Jobs />, { api: { ...BASE, [LIST]: offline } });
    expect(await screen.findByRole("heading", { name: "The server cannot be reached" })).toBeTruthy();
    api.on(LIST, pageOf([summary(1)]));
    await user.click(screen.getByRole("button", { name: "Try again" }));
    expect(await screen.findByText(/connection reset by peer/)).toBeTruthy();
  });

  test("shows hostile text as text", async () => {
    const { container } = renderPage(<Jobs />, { api: { ...BASE, [LIST]: pageOf(HOSTILE.map((text, index) => summary(index + 1, { task: text, queue: text, key: text, error: text, error_type: text }))) } });
    expect((await screen.findAllByText(HOSTILE[0]!)).length).toBeGreaterThan(0);
    expect(container.querySelector("img, script")).toBeNull();
  });
});

describe("search", () => {
  test("keeps the search in the address, and a facet writes into it", async () => {
    const { api, user, where } = renderPage(<Jobs />, { at: "/jobs?q=task:send_*", api: BASE });
    const filters = await screen.findByRole("complementary", { name: "Filters" });
    await user.click(await within(filters).findByRole("button", { name: /^failed 3/ }));
    await waitFor(() => expect(where()).toBe("/jobs?q=state:failed+task:send_*"));
    await waitFor(() => expect(api.of(LIST).at(-1)!.query.get("q")).toBe("state:failed task:send_*"));
    expect(api.of("GET /api/admin/jobs/facets").at(-1)!.query.get("q")).toBe("state:failed task:send_*");
    expect(within(filters).getByRole("button", { name: /^failed/ }).getAttribute("aria-pressed")).toBe("true");
    expect((screen.getByRole("combobox", { name: "Search jobs" }) as HTMLInputElement).value).toBe("state:failed task:send_*");
    await user.click(within(filters).getByRole("button", { name: /^queued/ }));
    await waitFor(() => expect(where()).toBe("/jobs?q=state:failed,queued+task:send_*"));
  });

  test("takes links with short names", async () => {
    const { where } = renderPage(<Jobs />, { at: "/jobs?state=failed&queue=mail", api: BASE });
    await waitFor(() => expect(where()).toBe("/jobs?q=queue:mail+state:failed"));
  });

  test("completes qualifiers and their values", async () => {
    const { user, where } = renderPage(<Jobs />, { at: "/jobs", api: BASE });
    await rows();
    await user.keyboard("/");
    await user.keyboard("ta");
    await user.keyboard("{ArrowDown}{Enter}");
    await user.keyboard("sms");
    expect(await screen.findByRole("option", { name: "send_sms" })).toBeTruthy();
    await waitFor(() => expect(screen.queryByRole("option", { name: "send_mail" })).toBeNull()); // what was offered before is gone
    await user.keyboard("{ArrowDown}{Enter}");
    await waitFor(() => expect(where()).toBe("/jobs?q=task:send_sms"));
  });

  test("says where a search cannot be read, and how to search", async () => {
    renderPage(<Jobs />, { at: "/jobs?q=stat:failed", api: { ...BASE, [LIST]: problem(422, "query", "q at 0: 'stat' is not a qualifier: did you mean 'state'?") } });
    expect((await screen.findByRole("alert")).textContent).toContain("did you mean 'state'");
    expect(screen.getByText("payload.user.id:42")).toBeTruthy();
  });

  test("offers the way back when nothing matches", async () => {
    const { user, where } = renderPage(<Jobs />, { at: "/jobs?q=task:none", api: { ...BASE, [LIST]: pageOf([]) } });
    await user.click(await screen.findByRole("button", { name: "Show all jobs" }));
    expect(where()).toBe("/jobs");
  });

  test("loads more by the cursor, and leaves the live updates while paused", async () => {
    const many = Array.from({ length: 30 }, (_, index) => summary(index + 1));
    const { api, user, where, emit } = renderPage(<Jobs />, { at: "/jobs", api: { ...BASE, [LIST]: (call: Call) => (call.query.get("cursor") === "n1" ? pageOf([summary(99, { task: "older" })]) : pageOf(many, "n1")) } });
    await user.click(await screen.findByRole("button", { name: "Show more" }));
    expect(await screen.findByText("older")).toBeTruthy();
    await user.click(screen.getByRole("switch", { name: "Live" }));
    expect(where()).toBe("/jobs?live=0");
    const before = api.of(LIST).length;
    act(() => emit("jobs"));
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(api.of(LIST)).toHaveLength(before);
    await user.click(screen.getByRole("button", { name: "Refresh" }));
    await waitFor(() => expect(api.of(LIST).length).toBeGreaterThan(before));
  });
});

describe("a list that moves", () => {
  test("holds its rows still under the pointer, with a selection and behind the peek, and says how many are new", async () => {
    const lists = (...numbers: number[]) => pageOf(numbers.map((number) => summary(number, number === 2 ? { state: "running" } : {})));
    const { api, user, emit } = renderPage(<Jobs />, { at: "/jobs", api: { ...BASE, [LIST]: lists(3, 2, 1) } });
    await rows();
    const shown = () => [...document.querySelectorAll<HTMLElement>("tr[data-row]")].map((row) => Number(row.dataset.row!.slice(-3)));
    const comes = (...numbers: number[]) => {
      api.on(LIST, lists(...numbers));
      act(() => emit("jobs"));
    };
    const news = (name: string) => screen.findByRole("button", { name });

    await user.hover(screen.getAllByText("failed").at(-1)!);
    comes(5, 4, 3, 2, 1);
    await news("2 new ↑");
    expect(shown()).toEqual([3, 2, 1]);
    comes(5, 4, 2, 1); // the third one is no longer a match
    await waitFor(() => expect(document.querySelector(`tr[data-row="${uuid(3)}"]`)!.getAttribute("title")).toBe("No longer in this list"));
    expect(shown()).toEqual([3, 2, 1]);
    await user.hover(screen.getByRole("heading", { name: "Jobs" }));
    await waitFor(() => expect(shown()).toEqual([5, 4, 2, 1]));

    await user.click(screen.getAllByRole("checkbox", { name: "Select" })[1]!);
    await user.hover(screen.getByRole("heading", { name: "Jobs" }));
    comes(6, 5, 4, 2, 1);
    await user.click(await news("1 new ↑"));
    await waitFor(() => expect(shown()).toEqual([6, 5, 4, 2, 1]));
    expect(screen.getByText("1 selected")).toBeTruthy();
    await user.click(screen.getByRole("button", { name: "Select none" }));

    await user.keyboard("jo");
    await screen.findByRole("dialog", { name: "send_mail" });
    comes(7, 6, 5, 4, 2, 1);
    await screen.findByRole("button", { name: "1 new ↑" });
    expect(shown()).toEqual([6, 5, 4, 2, 1]);
  });

  test("says how many there are, and when there are more than were counted", async () => {
    const found = (states: Partial<typeof FACETS.states>, rows: number, next: string | null) => ({ ...BASE, "GET /api/admin/jobs/facets": { ...FACETS, states: { ...FACETS.states, ...states } }, [LIST]: pageOf(Array.from({ length: rows }, (_, index) => summary(index + 1)), next) });
    const none = { failed: { count: 0, capped: true, estimated: false } };
    const first = renderPage(<Jobs />, { at: "/jobs?q=state:failed", api: found(none, 25, "more") });
    expect(await screen.findByText("more than 25 jobs found")).toBeTruthy(); // those that are shown
    first.unmount();
    const second = renderPage(<Jobs />, { at: "/jobs?q=state:failed", api: found(none, 1, null) });
    expect(await screen.findByText("1 job found")).toBeTruthy(); // all of them
    second.unmount();
    renderPage(<Jobs />, { at: "/jobs", api: found({}, 25, "more") });
    expect(await screen.findByText("more than 10,020 jobs")).toBeTruthy();
    cleanup();
    renderPage(<Jobs />, { at: "/jobs", api: found({ completed: { count: 61_234, capped: false, estimated: true } }, 25, "more") });
    expect(await screen.findByText("about 61.3k jobs")).toBeTruthy();
    expect(screen.getByRole("button", { name: "completed ≈ 61.2k" })).toBeTruthy();
  });
});

describe("peek", () => {
  test("opens beside the list, is in the address, and goes on with j and k", async () => {
    const { user, where } = renderPage(<Jobs />, { at: "/jobs", api: BASE });
    await rows();
    await user.keyboard("jo");
    const dialog = await screen.findByRole("dialog", { name: "send_mail" });
    expect(where()).toBe(`/jobs?peek=${uuid(1)}`);
    expect(await within(dialog).findByText(/It failed for good/)).toBeTruthy();
    expect(within(dialog).getByText("rota jobs retry x").tagName).toBe("CODE");
    expect(within(dialog).getByText(/"user_id"/)).toBeTruthy();
    await user.keyboard("j");
    await waitFor(() => expect(where()).toBe(`/jobs?peek=${uuid(2)}`));
    await user.keyboard("{Escape}");
    await waitFor(() => expect(where()).toBe("/jobs"));
  });

  test("of a job that is gone says so", async () => {
    renderPage(<Jobs />, { at: `/jobs?peek=${uuid(7)}`, api: { ...BASE, "GET /api/admin/jobs/{id}": problem(404, "not_found", "there is no job") } });
    expect(await screen.findByText("This job is not there")).toBeTruthy();
  });
});

describe("changes", () => {
  test("r retries the row, c asks first", async () => {
    const { api, user } = renderPage(<Jobs />, { api: { ...BASE, "POST /api/admin/jobs/{id}/retry": summary(1, { state: "queued" }), "POST /api/admin/jobs/{id}/cancel": summary(2, { state: "canceled" }) } });
    await rows();
    await user.keyboard("jr");
    await waitFor(() => expect(api.of(`POST /api/admin/jobs/${uuid(1)}/retry`)).toHaveLength(1));
    expect(await screen.findByText("Retried send_mail")).toBeTruthy();
    await user.keyboard("jc");
    const dialog = await screen.findByRole("dialog", { name: "Cancel the job" });
    await user.type(within(dialog).getByLabelText("Reason"), "a mistake");
    await user.click(within(dialog).getByRole("button", { name: "Cancel the job" }));
    await waitFor(() => expect(api.of(`POST /api/admin/jobs/${uuid(2)}/cancel`)[0]!.body).toEqual({ reason: "a mistake" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    await user.keyboard("jr");
    expect(await screen.findByText(/It has completed/)).toBeTruthy();
  });

  test("what is selected: counted, asked, done one by one, refusals said", async () => {
    const { api, user } = renderPage(<Jobs />, {
      api: { ...BASE, "POST /api/admin/jobs/{id}/retry": (call: Call) => (call.params.id === uuid(2) ? problem(409, "conflict", "it is locked") : summary(1)) },
    });
    await rows();
    await user.keyboard("jxjxjx");
    expect(screen.getByText("3 selected")).toBeTruthy();
    await user.keyboard("r");
    const dialog = await screen.findByRole("dialog", { name: "Retry jobs" });
    expect(within(dialog).getByText("1 of those selected cannot be retried and is left as it is.")).toBeTruthy();
    await user.click(within(dialog).getByRole("button", { name: "Retry 2 jobs" }));
    expect(await within(dialog).findByText("1 job was retried.")).toBeTruthy();
    expect(within(dialog).getByText(/it is locked/)).toBeTruthy();
    expect(api.of("POST /api/admin/jobs/{id}/retry")).toHaveLength(2);
    await user.click(within(dialog).getAllByRole("button", { name: "Close" }).at(-1)!);
    await waitFor(() => expect(screen.queryByText("3 selected")).toBeNull());
  });

  test("all that match: preview, confirm, and progress over the cursor", async () => {
    let release: () => void = () => {};
    const bodies: Record<string, unknown>[] = [];
    const { user } = renderPage(<Jobs />, {
      at: "/jobs?q=state:failed",
      api: {
        ...BASE,
        [LIST]: pageOf(Array.from({ length: 25 }, (_, index) => summary(index + 1)), "more"),
        "POST /api/admin/jobs/bulk": async (call: Call) => {
          const body = call.body as Record<string, unknown>;
          bodies.push(body);
          if (body.dry_run) return { action: "cancel", dry_run: true, matched: { count: 900, capped: false, estimated: false }, changed: 0, skipped: 0, next: null };
          if (body.cursor === null) return { action: "cancel", dry_run: false, matched: null, changed: 450, skipped: 0, next: "c1" };
          await new Promise<void>((resolve) => (release = resolve));
          return { action: "cancel", dry_run: false, matched: null, changed: 440, skipped: 10, next: null };
        },
      },
    });
    await user.click(await screen.findByRole("checkbox", { name: "Select all rows shown" }));
    const bar = screen.getByRole("region", { name: "Selection" });
    await user.click(within(bar).getByRole("button", { name: "Select all that match" }));
    expect(within(bar).getByText("All 3 that match")).toBeTruthy();
    await user.click(within(bar).getByRole("button", { name: "Cancel" }));
    const dialog = await screen.findByRole("dialog", { name: "Cancel jobs" });
    await user.type(await within(dialog).findByLabelText("Reason"), "cleanup");
    await user.click(within(dialog).getByRole("button", { name: "Cancel 900 jobs" }));
    expect(await within(dialog).findByText("450 of 900…")).toBeTruthy();
    expect(within(dialog).getByRole("progressbar").getAttribute("aria-valuenow")).toBe("50");
    await waitFor(() => expect(bodies).toHaveLength(3));
    release();
    expect(await within(dialog).findByText("890 jobs were canceled.")).toBeTruthy();
    expect(within(dialog).getByText(/10 were left/)).toBeTruthy();
    expect(bodies.map((body) => body.cursor)).toEqual([undefined, null, "c1"]);
    expect(bodies[1]).toMatchObject({ action: "cancel", filter: { q: "state:failed" }, reason: "cleanup" });
    await user.keyboard("{Escape}"); // nothing is lost now
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  });

  test("a bulk change that breaks off goes on from where it was", async () => {
    let broken = false;
    const { api, user } = renderPage(<Jobs />, {
      at: "/jobs?q=state:failed",
      api: {
        ...BASE,
        [LIST]: pageOf(Array.from({ length: 25 }, (_, index) => summary(index + 1)), "more"),
        "POST /api/admin/jobs/bulk": (call: Call) => {
          const body = call.body as Record<string, unknown>;
          if (body.dry_run) return { action: "retry", dry_run: true, matched: { count: 10_000, capped: true, estimated: false }, changed: 0, skipped: 0, next: null };
          if (body.cursor === null) return { action: "retry", dry_run: false, matched: null, changed: 5, skipped: 0, next: "c1" };
          if (!broken) return (broken = true), problem(503, "database", "the database is away");
          return { action: "retry", dry_run: false, matched: null, changed: 6, skipped: 0, next: null };
        },
      },
    });
    await user.click(await screen.findByRole("checkbox", { name: "Select all rows shown" }));
    await user.click(screen.getByRole("button", { name: "Select all that match" }));
    await user.click(within(screen.getByRole("region", { name: "Selection" })).getByRole("button", { name: "Retry" }));
    const dialog = await screen.findByRole("dialog", { name: "Retry jobs" });
    await user.click(await within(dialog).findByRole("button", { name: "Retry more than 10,000 jobs" }));
    expect(await within(dialog).findByText("the database is away")).toBeTruthy();
    await user.click(within(dialog).getByRole("button", { name: "Try again" }));
    expect(await within(dialog).findByText("11 jobs were retried.")).toBeTruthy();
    expect(api.of("POST /api/admin/jobs/bulk").at(-1)!.body).toMatchObject({ cursor: "c1" });
  });

  test("a change of what is selected that breaks off goes on with what is left", async () => {
    let away = true;
    const { api, user } = renderPage(<Jobs />, { api: { ...BASE, [LIST]: pageOf([1, 2, 3].map((number) => summary(number))), "POST /api/admin/jobs/{id}/retry": (call: Call) => (away && call.params.id !== uuid(1) ? offline : summary(1)) } });
    await rows();
    await user.keyboard("jxjxjxr");
    const dialog = await screen.findByRole("dialog", { name: "Retry jobs" });
    await user.click(within(dialog).getByRole("button", { name: "Retry 3 jobs" }));
    expect(await within(dialog).findByText("1 job was retried.")).toBeTruthy();
    expect(within(dialog).getByRole("heading", { name: "The server cannot be reached" })).toBeTruthy();
    away = false;
    await user.click(within(dialog).getByRole("button", { name: "Try again" }));
    expect(await within(dialog).findByText("3 jobs were retried.")).toBeTruthy();
    expect(api.of(`POST /api/admin/jobs/${uuid(1)}/retry`)).toHaveLength(1);
  });

  test("who may not sees why", async () => {
    const { api, user } = renderPage(<Jobs />, { role: "read_only", api: BASE });
    await rows();
    const button = await screen.findByRole("button", { name: "Retry" });
    expect(button.getAttribute("aria-disabled")).toBe("true");
    await user.keyboard("jr");
    expect(await screen.findByText(/read-only\) may not change jobs/)).toBeTruthy();
    await user.keyboard("xc");
    expect(screen.queryByRole("dialog")).toBeNull();
    expect(api.calls.filter((call) => call.method === "POST")).toHaveLength(0);
  });

  test("without a search, all of them cannot be chosen", async () => {
    const { user } = renderPage(<Jobs />, { api: { ...BASE, [LIST]: pageOf(Array.from({ length: 25 }, (_, index) => summary(index + 1)), "more") } });
    await user.click(await screen.findByRole("checkbox", { name: "Select all rows shown" }));
    expect(screen.getByRole("button", { name: "Select all that match" }).getAttribute("aria-disabled")).toBe("true");
  });
});
