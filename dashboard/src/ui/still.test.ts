import { expect, test } from "vitest";
import { holdStill } from "./still";

interface Row {
  id: string;
  state?: string;
}
const key = (row: Row) => row.id;
const rows = (ids: string) => [...ids].map((id) => ({ id }));
const shown = (before: string, loaded: string, now: string | [string, string | null][]) => {
  const parts = (typeof now === "string" ? ([[now, "more"]] as const) : now).map(([ids, next]) => ({ items: rows(ids), next }));
  const found = holdStill<Row>(rows(before), rows(loaded), parts, key);
  return { rows: found.rows.map(key).join(""), added: found.added, more: found.addedMore, gone: [...found.gone].join("") };
};

test("new rows are counted, and those that are shown stay where they are", () => {
  expect(shown("cdef", "cdef", "abcd")).toEqual({ rows: "cdef", added: 2, more: false, gone: "" });
  expect(shown("cdef", "cdef", "wxyz")).toEqual({ rows: "cdef", added: 4, more: true, gone: "" }); // and perhaps others between
});

test("rows are shown as they are now", () => {
  const found = holdStill<Row>([{ id: "a", state: "running" }, { id: "b" }], [{ id: "a", state: "running" }, { id: "b" }], [{ items: [{ id: "a", state: "completed" }], next: "more" }], key);
  expect(found.rows[0]).toEqual({ id: "a", state: "completed" });
  const others = holdStill<Row>([{ id: "a", state: "running" }], [{ id: "a", state: "running" }], [{ items: [{ id: "x" }], next: "more" }], key, [{ id: "a", state: "completed" }]);
  expect([others.rows[0]!.state, others.added]).toEqual(["completed", 1]);
});

test("what is loaded by scrolling on follows the last row", () => {
  expect(shown("abc", "abcdef", "abc").rows).toBe("abcdef");
  expect(shown("cdef", "abcd", "abcd").rows).toBe("cdef"); // all was loaded again, after two new ones came
});

test("rows that have left the list are told from those that only moved on", () => {
  expect(shown("abcd", "abcd", "acd").gone).toBe("b");
  expect(shown("abcd", "abcd", "xyab").gone).toBe(""); // c and d are on the next page now
  expect(shown("abcd", "abcd", [["ab", null]]).gone).toBe("cd"); // there is no next page
  expect(shown("abcd", "abcd", [["ab", "2"], ["d", "3"]]).gone).toBe("");
  expect(shown("abcdef", "abcdef", [["abc", "2"], ["df", "3"]]).gone).toBe("e");
  expect(shown("abcd", "abcd", "dac").gone).toBe(""); // the order has changed: b may be further down
});
