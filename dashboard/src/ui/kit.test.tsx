import { fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
import { describe, expect, test, vi } from "vitest";
import { Problem } from "@/api";
import { RightsProvider, rightsOf } from "@/lib/rights";
import { Button, Chart, Confirm, Dialog, Diff, ErrorPanel, Input, Json, Link, Menu, SchemaForm, SearchBox, StateBadge, Switch, Tabs } from ".";
import { diffLines } from "./diff";

const HOSTILE = '<img src=x onerror="alert(1)"> javascript:alert(1) \u202e';

describe("text of others", () => {
  test("is never markup", () => {
    const { container } = render(
      <>
        <Json value={{ [HOSTILE]: [HOSTILE, { deep: HOSTILE }] }} open={9} />
        <Diff before={HOSTILE} after={{ a: HOSTILE }} />
        <StateBadge state={HOSTILE} />
        <ErrorPanel problem={new Problem(500, "x", HOSTILE, HOSTILE)} />
      </>,
    );
    expect(container.querySelector("img")).toBeNull();
    expect(container.textContent).toContain("onerror");
  });

  test("is no link to a script", () => {
    render(<Link href="javascript:alert(1)">here</Link>);
    expect(screen.getByText("here").closest("a")).toBeNull();
  });
});

test("a long value is folded, and opened piece by piece", async () => {
  render(<Json value={{ list: Array.from({ length: 250 }, (_, index) => index), long: "x".repeat(2000) }} />);
  await userEvent.click(screen.getByRole("button", { name: /150 more/ }));
  expect(screen.getByText("249")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: /more characters/ }));
  expect(screen.getByText(`"${"x".repeat(2000)}"`)).toBeTruthy();
});

test("a difference is the lines that differ", () => {
  expect(diffLines("a\nb\nc", "a\nx\nc").map((line) => `${line.kind} ${line.text}`)).toEqual(["same a", "gone b", "new x", "same c"]);
  expect(diffLines("", "").every((line) => line.kind === "same")).toBe(true);
});

describe("what one may not", () => {
  const rights = rightsOf({ role: "read_only", may: ["jobs.read"] });
  test("is disabled with the reason, everywhere", async () => {
    const done = vi.fn();
    render(
      <RightsProvider rights={rights}>
        <Button op="jobs.change" onClick={done}>Retry</Button>
        <Switch op="queues.change" label="On" checked onChange={done} />
        <Menu label="More" items={[{ label: "Delete", op: "schedules.change", onSelect: done }]} />
      </RightsProvider>,
    );
    await userEvent.click(screen.getByRole("button", { name: "Retry" }));
    expect((await screen.findByRole("tooltip")).textContent).toBe("Your role (read-only) may not change jobs. Ask an admin.");
    await userEvent.click(screen.getByRole("switch", { name: "On" }));
    await userEvent.click(screen.getByRole("button", { name: "More" }));
    await userEvent.click(screen.getByRole("menuitem", { name: "Delete" }));
    expect(screen.getByRole("menuitem", { name: "Delete" }).title).toContain("schedules");
    expect(done).not.toHaveBeenCalled();
  });
});

test("a menu goes by arrows, and Escape gives the focus back", async () => {
  const done = vi.fn();
  render(<Menu label="Copy as" items={[{ label: "Python", onSelect: vi.fn() }, "-", { label: "curl", onSelect: done }]} />);
  const button = screen.getByRole("button", { name: "Copy as" });
  button.focus();
  await userEvent.keyboard("{ArrowDown}{ArrowDown}");
  expect(document.activeElement?.textContent).toBe("curl");
  await userEvent.keyboard("{Escape}");
  expect(document.activeElement).toBe(button);
  await userEvent.keyboard("{ArrowDown}c{Enter}");
  expect(done).toHaveBeenCalledOnce();
});

test("a menu stays open while the page moves under it, until its button is out of sight", async () => {
  render(<Menu label="Copy as" items={[{ label: "Python", onSelect: vi.fn() }]} />);
  const button = screen.getByRole("button", { name: "Copy as" });
  await userEvent.click(button);
  const place = vi.spyOn(button.parentElement!, "getBoundingClientRect");
  place.mockReturnValue(new DOMRect(20, 300, 80, 30));
  fireEvent.scroll(document);
  expect(screen.getByRole("menu").style.top).toBe("334px");
  place.mockReturnValue(new DOMRect(20, -100, 80, 30));
  fireEvent.scroll(document);
  expect(screen.queryByRole("menu")).toBeNull();
});

test("tabs go by arrows", async () => {
  function Both() {
    const [tab, setTab] = useState("a");
    return <Tabs label="Job" value={tab} onChange={setTab} tabs={[{ id: "a", label: "Attempts", content: () => "first" }, { id: "b", label: "Logs", content: () => "second" }]} />;
  }
  render(<Both />);
  screen.getByRole("tab", { name: "Attempts" }).focus();
  await userEvent.keyboard("{ArrowRight}");
  expect(screen.getByRole("tabpanel", { name: "Logs" }).textContent).toBe("second");
});

describe("the search box", () => {
  const QUALIFIERS = [
    { name: "state", help: "in one of these states", values: ["queued", "failed", "canceled"], several: true },
    { name: "task", help: "of this task", values: async (typed: string) => ["send_mail", "send_sms"].filter((each) => each.startsWith(typed)) },
    { name: "payload.", help: "with this in the payload" },
  ];

  test("completes names, then values, by keyboard alone", async () => {
    const told = vi.fn();
    render(<SearchBox label="Search" value="" onChange={told} qualifiers={QUALIFIERS} />);
    const box = screen.getByRole("combobox", { name: "Search" }) as HTMLInputElement;
    await userEvent.type(box, "st");
    await userEvent.keyboard("{Tab}");
    expect(box.value).toBe("state:");
    await userEvent.type(box, "can");
    await screen.findByRole("option", { name: "canceled" });
    await userEvent.keyboard("{ArrowDown}{Enter}");
    expect(box.value).toBe("state:canceled ");
    expect(told).toHaveBeenLastCalledWith("state:canceled");
    await userEvent.type(box, "task:sen");
    await waitFor(() => expect(screen.getAllByRole("option")).toHaveLength(2));
    await userEvent.keyboard("{Escape}{Enter}");
    expect(told).toHaveBeenLastCalledWith("state:canceled task:sen");
  });

  test("tells after a while, not with every key", async () => {
    const told = vi.fn();
    render(<SearchBox label="Search" value="" onChange={told} />);
    await userEvent.type(screen.getByRole("combobox"), "hello");
    expect(told).not.toHaveBeenCalled();
    await waitFor(() => expect(told).toHaveBeenCalledExactlyOnceWith("hello"));
  });

  test("shows what the server says of it", () => {
    render(<SearchBox label="Search" value="stat:x" onChange={() => {}} error="'stat' is not a qualifier" />);
    expect(screen.getByRole("combobox").getAttribute("aria-invalid")).toBe("true");
    expect(screen.getByRole("alert").textContent).toContain("not a qualifier");
  });
});

describe("a form from a schema", () => {
  const SCHEMA = {
    type: "object",
    required: ["user_id", "address"],
    properties: {
      user_id: { type: "integer", minimum: 1 },
      lang: { type: "string", enum: ["en", "de"], default: "en" },
      when: { anyOf: [{ type: "string", format: "date-time" }, { type: "null" }] },
      tags: { type: "array", items: { type: "string" } },
      address: { $ref: "#/$defs/Address" },
      secret: { type: "string", format: "password" },
      either: { anyOf: [{ type: "string" }, { type: "integer" }] },
    },
    $defs: { Address: { type: "object", required: ["city"], properties: { city: { type: "string" } } } },
  };

  function Form({ start, told, errors }: { start: Record<string, unknown>; told: (value: unknown) => void; errors?: { field: string; detail: string }[] }) {
    const [value, setValue] = useState(start);
    return <SchemaForm schema={SCHEMA} value={value} errors={errors} onChange={(next) => (setValue(next), told(next))} />;
  }

  test("has a field for each kind", async () => {
    const told = vi.fn();
    render(<Form start={{ user_id: 7, address: { city: "Berlin" } }} told={told} errors={[{ field: "body.payload.user_id", detail: "no such user" }, { field: "payload", detail: "too large" }]} />);
    await userEvent.clear(screen.getByLabelText(/user_id/));
    expect(screen.getByText("a whole number")).toBeTruthy();
    await userEvent.type(screen.getByLabelText(/user_id/), "12345678901234567890");
    expect(told).toHaveBeenLastCalledWith(expect.objectContaining({ user_id: 12345678901234567890n }));
    expect(screen.getByText("no such user")).toBeTruthy();
    expect(screen.getByText("too large")).toBeTruthy();
    await userEvent.click(screen.getByRole("checkbox", { name: /lang/ }));
    await userEvent.selectOptions(screen.getByLabelText("lang"), "de");
    await userEvent.click(screen.getByRole("checkbox", { name: /when/ }));
    await userEvent.type(screen.getByLabelText("when"), "2026-01-01T00:00:00Z");
    await userEvent.click(within(screen.getByRole("group", { name: "tags" })).getByRole("button", { name: "Add" }));
    await userEvent.type(screen.getByRole("textbox", { name: /tags 1/ }), "new");
    await userEvent.type(screen.getByLabelText(/city/), "!");
    expect((screen.getByLabelText("secret") as HTMLInputElement).type).toBe("password");
    await userEvent.type(screen.getByLabelText("either"), "[[]");
    expect(told).toHaveBeenLastCalledWith({ user_id: 12345678901234567890n, lang: "de", when: "2026-01-01T00:00:00Z", tags: ["new"], address: { city: "Berlin!" }, either: [] });
    await userEvent.click(screen.getByRole("button", { name: "Set when to null" }));
    expect(told).toHaveBeenLastCalledWith(expect.objectContaining({ when: null }));
  });

  test("is JSON for who wants, and says what is wrong with it", async () => {
    const told = vi.fn();
    render(<Form start={{ user_id: 7 }} told={told} />);
    await userEvent.click(screen.getByRole("button", { name: "Edit as JSON" }));
    const area = screen.getByLabelText("Payload") as HTMLTextAreaElement;
    expect(JSON.parse(area.value)).toEqual({ user_id: 7 });
    await userEvent.clear(area);
    await userEvent.type(area, "[[]");
    expect(screen.getByText(/must be an object/)).toBeTruthy();
    expect(told).not.toHaveBeenCalled();
    await userEvent.clear(area);
    await userEvent.type(area, '{{"user_id": 8}');
    expect(told).toHaveBeenLastCalledWith({ user_id: 8 });
  });

  test("is JSON where there is no schema", () => {
    render(<SchemaForm schema={null} value={{ a: 1 }} onChange={() => {}} />);
    expect(screen.getByLabelText("Payload")).toBeTruthy();
  });
});

describe("a form in a dialog", () => {
  const open = () => {
    const closed = vi.fn();
    render(
      <Dialog title="Edit nightly" onClose={closed} onSubmit={() => {}} footer={<Button onClick={closed}>Cancel</Button>}>
        <Form />
      </Dialog>,
    );
    return closed;
  };
  function Form() {
    const [name, setName] = useState("");
    return <Input label="Name" value={name} onChange={setName} />;
  }

  test("closes at once while nothing was entered", async () => {
    const closed = open();
    await userEvent.keyboard("{Escape}");
    expect(closed).toHaveBeenCalledOnce();
  });

  test("asks before Escape, a click beside it or the cross discard what was entered", async () => {
    const closed = open();
    await userEvent.type(screen.getByLabelText("Name"), "x");
    await userEvent.keyboard("{Escape}");
    const question = () => screen.queryByRole("alertdialog", { name: "Discard your changes?" });
    expect(question()).toBeTruthy();
    await userEvent.keyboard("{Escape}");
    expect(question()).toBeNull();
    fireEvent.mouseDown(screen.getByRole("dialog"), { clientX: 5000, clientY: 5000 });
    await userEvent.click(screen.getByRole("button", { name: "Keep editing" }));
    await userEvent.click(screen.getByRole("button", { name: "Close" }));
    expect(closed).not.toHaveBeenCalled();
    expect((screen.getByLabelText("Name") as HTMLInputElement).value).toBe("x");
    await userEvent.click(screen.getByRole("button", { name: "Discard" }));
    expect(closed).toHaveBeenCalledOnce();
  });

  test("that only asks for a confirmation closes at once", async () => {
    const closed = vi.fn();
    render(<Confirm title="Delete" action="Delete" typed="nightly" onConfirm={() => {}} onClose={closed}>Gone.</Confirm>);
    await userEvent.type(screen.getByRole("textbox"), "night");
    await userEvent.keyboard("{Escape}");
    expect(closed).toHaveBeenCalledOnce();
  });
});

test("a chart of nothing says so", () => {
  render(<Chart label="Runs" times={[0, 60_000]} series={[{ label: "completed", tone: "ok", values: [0, null] }]} empty="No runs in the last hour" />);
  expect(screen.getAllByText(/No runs in the last hour/)).toHaveLength(2); // once for who cannot see it
});
