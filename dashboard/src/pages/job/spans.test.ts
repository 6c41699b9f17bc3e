import { expect, test } from "vitest";
import { spansOf } from "./spans";

const at = (second: number) => new Date(1_700_000_000_000 + second * 1000).toISOString();
const ms = (second: number) => 1_700_000_000_000 + second * 1000;
const job = (change: object = {}) => ({ state: "completed", created_at: at(0), run_at: at(0), finished_at: at(10), attempt: 1, last_run_at: null, ...change });
const run = (attempt: number, from: number, to: number | null, status = "failed") => ({ attempt, status, started_at: at(from), finished_at: to === null ? null : at(to) });
const brief = (spans: ReturnType<typeof spansOf>) => spans.map((span) => [span.kind, (span.from - ms(0)) / 1000, span.to === null ? null : (span.to - ms(0)) / 1000]);

test("enqueue, wait, attempts, and the pauses between them; in whatever order they come", () => {
  expect(brief(spansOf(job({ attempt: 2 }), [run(2, 8, 10, "completed"), run(1, 2, 3)], ms(20)))).toEqual([
    ["wait", 0, 2],
    ["attempt", 2, 3],
    ["pause", 3, 8],
    ["attempt", 8, 10],
  ]);
});

test("a delay is not a wait", () => {
  expect(brief(spansOf(job({ run_at: at(5) }), [run(1, 6, 10, "completed")], ms(20)))).toEqual([
    ["delay", 0, 5],
    ["wait", 5, 6],
    ["attempt", 6, 10],
  ]);
  expect(brief(spansOf(job({ state: "queued", run_at: at(50), finished_at: null, attempt: 0 }), [], ms(20)))).toEqual([["delay", 0, null]]);
  expect(brief(spansOf(job({ state: "queued", run_at: at(5), finished_at: null, attempt: 0 }), [], ms(20)))).toEqual([
    ["delay", 0, 5],
    ["wait", 5, null],
  ]);
});

test("what goes on has no end; what was canceled before it ran has no attempt", () => {
  expect(brief(spansOf(job({ state: "running", finished_at: null }), [run(1, 2, null, "running")], ms(20)))).toEqual([
    ["wait", 0, 2],
    ["attempt", 2, null],
  ]);
  expect(brief(spansOf(job({ state: "queued", finished_at: null }), [run(1, 2, 3)], ms(20)))).toEqual([
    ["wait", 0, 2],
    ["attempt", 2, 3],
    ["pause", 3, null],
  ]);
  expect(brief(spansOf(job({ state: "canceled", attempt: 0 }), [], ms(20)))).toEqual([["wait", 0, 10]]);
});
