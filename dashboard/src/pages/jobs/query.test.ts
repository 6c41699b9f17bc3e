import { expect, test } from "vitest";
import { fromShort, quote, termsOf, valuesOf, withValues } from "./query";

test("takes a search apart as the server does", () => {
  const q = 'state:failed,canceled task:send_* payload."a b".id:"x y" "connection reset" word';
  expect(termsOf(q).map((term) => [term.name, term.value])).toEqual([
    ["state", "failed,canceled"],
    ["task", "send_*"],
    ['payload."a b".id', "x y"],
    ["", "connection reset"],
    ["", "word"],
  ]);
  expect(valuesOf(q, "state")).toEqual(["failed", "canceled"]);
});

test("changes one qualifier and leaves the rest as it was typed", () => {
  const q = 'since:1h "connection reset" state:failed';
  expect(withValues(q, "state", ["failed", "queued"])).toBe('state:failed,queued since:1h "connection reset"');
  expect(withValues(q, "state", [])).toBe('since:1h "connection reset"');
  expect(withValues("", "queue", ['a "b"'])).toBe('queue:"a \\"b\\""');
  expect(valuesOf(withValues("", "queue", ['a "b" \\']), "queue")).toEqual(['a "b" \\']);
  expect(quote("plain")).toBe("plain");
});

test("reads what other pages link to", () => {
  expect(fromShort("state=failed,canceled&queue=mail&peek=x")).toBe("queue:mail state:failed,canceled");
  expect(fromShort("q=task:a&error=3f9a")).toBe("error:3f9a task:a");
  expect(fromShort("q=task:a")).toBeNull();
});

test("an unfinished search is kept as it is", () => {
  expect(withValues('task: "open quote', "state", ["failed"])).toBe('state:failed task: "open quote');
});
