/** The example of a page, and that what pages are made of holds together. */

import { act, screen, waitFor, within } from "@testing-library/react";
import { useState } from "react";
import { describe, expect, test } from "vitest";
import { type ItemOf, useAct, usePages } from "@/api";
import { useUrlState } from "@/lib/urlState";
import { Button, type Column, Confirm, Empty, Page, SearchBox, Table, Time } from "@/ui";
import { never, pageOf, problem, renderPage } from "./kit";

type Schedule = ItemOf<"/api/admin/schedules">;

const COLUMNS: Column<Schedule>[] = [
  { key: "name", title: "Name", cell: (row) => row.record.name },
  { key: "next", title: "Next", cell: (row) => <Time at={row.record.next_run_at} />, width: "8rem", hideBelow: "sm" },
];

function Example() {
  const [view, setView] = useUrlState({ task: "", selected: [] as string[] });
  const list = usePages("/api/admin/schedules", { query: { task: view.task } });
  const [removing, setRemoving] = useState<Schedule | null>(null);
  const remove = useAct("delete", "/api/admin/schedules/{name}", { done: "Deleted", toastErrors: false });
  return (
    <Page title="Schedules">
      <SearchBox label="Task" value={view.task} onChange={(task) => setView({ task })} />
      <Table
        label="Schedules"
        list={list}
        columns={[...COLUMNS, { key: "act", title: "", cell: (row) => <Button op="schedules.change" onClick={() => setRemoving(row)}>Delete</Button> }]}
        rowKey={(row) => row.record.name!}
        selection={{ selected: new Set(view.selected), onChange: (names) => setView({ selected: [...names] }, { replace: true }) }}
        empty={<Empty title="No schedules yet" snippet="@app.task(schedule=cron('0 9 * * *'))" />}
      />
      {removing && (
        <Confirm title="Delete the schedule" action="Delete" danger onClose={() => setRemoving(null)} onConfirm={() => remove.mutateAsync({ path: { name: removing.record.name! } })}>
          {removing.record.name} fires no more.
        </Confirm>
      )}
    </Page>
  );
}

const row = (name: string) => ({ record: { id: name, name, next_run_at: new Date(Date.now() + 3_600_000).toISOString() } });
const LIST = "GET /api/admin/schedules";

describe("the example page", () => {
  test("shows what there is", async () => {
    renderPage(<Example />, { at: "/schedules", api: { [LIST]: pageOf([row("nightly")]) } });
    const table = await screen.findByRole("table", { name: "Schedules" });
    expect(await within(table).findByText("nightly")).toBeTruthy();
    expect(within(table).getByText("in 1 h")).toBeTruthy();
  });

  test("teaches when there is nothing, says what is wrong, and waits", async () => {
    const { api, unmount } = renderPage(<Example />, { api: { [LIST]: pageOf([]) } });
    expect(await screen.findByText("No schedules yet")).toBeTruthy();
    expect(api.of(LIST)).toHaveLength(1);
    unmount();
    const second = renderPage(<Example />, { api: { [LIST]: problem(503, "too_slow", "ask for less") } });
    expect(await screen.findByText("ask for less")).toBeTruthy();
    expect(screen.getByText(/req-1/)).toBeTruthy();
    second.api.on(LIST, pageOf([row("nightly")]));
    await second.user.click(screen.getByRole("button", { name: "Try again" }));
    expect(await screen.findByText("nightly")).toBeTruthy();
    second.unmount();
    renderPage(<Example />, { api: { [LIST]: never } });
    expect(await screen.findByRole("table", { name: "Schedules", busy: true })).toBeTruthy();
  });

  test("asks before it deletes, and shows what the server says", async () => {
    const { api, user } = renderPage(<Example />, {
      api: { [LIST]: pageOf([row("nightly")]), "DELETE /api/admin/schedules/{name}": problem(409, "conflict", "code defines it") },
    });
    await user.click(await screen.findByRole("button", { name: "Delete" }));
    const dialog = screen.getByRole("dialog", { name: "Delete the schedule" });
    await user.click(within(dialog).getByRole("button", { name: "Delete" }));
    expect(await within(dialog).findByText("code defines it")).toBeTruthy();
    api.on("DELETE /api/admin/schedules/{name}", undefined);
    await user.click(within(dialog).getByRole("button", { name: "Delete" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(await screen.findByText("Deleted")).toBeTruthy();
    expect(api.of("DELETE /api/admin/schedules/nightly")).toHaveLength(2);
  });

  test("disables what the role may not, and says why", async () => {
    const { user } = renderPage(<Example />, { role: "read_only", api: { [LIST]: pageOf([row("nightly")]) } });
    const button = await screen.findByRole("button", { name: "Delete" });
    expect(button.getAttribute("aria-disabled")).toBe("true");
    await user.click(button);
    expect(screen.queryByRole("dialog")).toBeNull();
    expect((await screen.findByRole("tooltip")).textContent).toContain("read-only");
  });

  test("keeps its state in the address, and has keys", async () => {
    const { user, where, api } = renderPage(<Example />, { at: "/schedules?task=send_*", api: { [LIST]: pageOf([row("a"), row("b")]) } });
    await screen.findByText("a");
    expect(api.of(LIST)[0]!.query.get("task")).toBe("send_*");
    await user.keyboard("jjx");
    expect(where()).toBe("/schedules?task=send_*&selected=b");
    await user.keyboard("/x");
    expect(where()).toBe("/schedules?task=send_*&selected=b"); // typed, not pressed
  });

  test("follows the stream", async () => {
    const { emit, api } = renderPage(<Example />, { api: { [LIST]: pageOf([row("a")]) } });
    await screen.findByText("a");
    api.on(LIST, pageOf([row("a"), row("new")]));
    act(() => emit("schedules"));
    expect(await screen.findByText("new", undefined, { timeout: 3000 })).toBeTruthy();
  });
});
