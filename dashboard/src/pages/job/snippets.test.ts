import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { HOSTILE } from "../jobs/samples";
import { concealBoth, conceal } from "./secrets";
import { LANGUAGES, pythonOf, shellOf, snippetOf, sqlOf } from "./snippets";

const NASTY = [...HOSTILE, "it's", 'say "hi"', "back\\slash", "line\nbreak\r\ttab", "$(rm -rf /)", "`id`", "!history", "%s %d", "ünïcödé 🎉", "\u0007bell", "'\\''", "E'x'", "\\", "@file", "-rf", "\ud800 alone"];
const JOB = { task: "send", payload: {}, queue: "mail", priority: 0, max_attempts: 5, timeout: "PT1M30S" };

describe("quoting survives a round trip", () => {
  test("through a real shell", () => {
    const words = NASTY.filter((text) => text !== "\ud800 alone"); // no text outside of a browser
    const said = execFileSync("/bin/sh", ["-c", `printf '%s\\0' ${words.map(shellOf).join(" ")}`], { encoding: "utf-8" });
    expect(said.split("\0").slice(0, -1)).toEqual(words);
  });

  test("through a real Python", () => {
    const value = { texts: NASTY, deep: { a: [1, 2.5, true, null, { "k'e\"y": -0.1 }] }, big: 12345678901234567890n };
    const code = `import json,sys; value = ${pythonOf(value)}\njson.dump(value, sys.stdout)`;
    const said = execFileSync("python3", ["-c", code], { encoding: "utf-8" });
    expect(JSON.parse(said).texts).toEqual(NASTY);
    expect(said).toContain('"big": 12345678901234567890');
    expect(JSON.parse(said).deep).toEqual(value.deep);
  });

  test("as a literal of SQL, whatever standard_conforming_strings says", () => {
    expect(sqlOf("it's")).toBe("'it''s'");
    expect(sqlOf("a\\b'c")).toBe("E'a\\\\b''c'");
    for (const text of NASTY) {
      const literal = sqlOf(text);
      const body = literal.startsWith("E") ? literal.slice(2, -1).replace(/\\\\/g, "\\") : literal.slice(1, -1);
      expect(body.replace(/''/g, "'")).toBe(text);
      expect(/(^|[^'])'([^']|$)/.test(literal.slice(literal.indexOf("'") + 1, -1).replace(/''/g, ""))).toBe(false);
    }
  });
});

describe("a job as a command", () => {
  const job = { ...JOB, payload: { note: "it's $(id) \u202e", n: 1 } };

  test("names the task, the payload and the settings", () => {
    expect(snippetOf(job, "Python").code).toBe(`app.enqueue(\n    "send",\n    {"note": "it's $(id) \\u202e", "n": 1},\n    queue="mail",\n    priority=0,\n    max_attempts=5,\n    timeout="90s",\n)`);
    expect(snippetOf(job, "command line").code).toBe(`rota jobs enqueue --queue mail --priority 0 --max-attempts 5 --timeout 90s -- send '{"note":"it'\\''s $(id) \\u202e","n":1}'`);
    expect(snippetOf(job, "SQL").code).toContain(`E'{"note":"it''s $(id) \\\\u202e","n":1}'`);
    const { code } = snippetOf(job, "curl");
    expect(code).toContain("/api/admin/jobs");
    expect(code).toContain('"Authorization: Bearer $ROTA_TOKEN"');
    expect(code).toContain("--data-raw '");
  });

  test("the shell's words are what was meant", () => {
    const { code } = snippetOf({ ...JOB, task: "-x'y", payload: { texts: NASTY.slice(0, -1) } }, "command line");
    const said = execFileSync("/bin/sh", ["-c", code.replace(/^rota/, `printf '%s\\0'`)], { encoding: "utf-8" }).split("\0");
    expect(said.at(-3)).toBe("-x'y");
    expect(JSON.parse(said.at(-2)!)).toEqual({ texts: NASTY.slice(0, -1) });
  });

  test("never has a secret in it", () => {
    const secret = { ...JOB, payload: { password: "hunter22", sealed: "rota-secret:1:AAAA", tokens: 7, user: "ann" } };
    for (const language of LANGUAGES) {
      const { code, hidden } = snippetOf(secret, language);
      expect(code).not.toMatch(/hunter22|rota-secret/);
      expect(code).toContain("ann");
      expect(hidden).toBe(2);
    }
  });
});

test("secrets are hidden at any depth; what only has the name can be shown", () => {
  const payload = { a: [{ api_key: "abcd" }], headers: { Authorization: "rota-open:1:Zm9v" }, secret: 5, token_count: 5, empty_token: "" };
  expect(conceal(payload)).toEqual({ value: { a: [{ api_key: "[hidden]" }], headers: { Authorization: "[hidden]" }, secret: "[hidden]", token_count: 5, empty_token: "" }, sealed: 1, named: 2 });
  expect((conceal(payload, { named: true }).value as typeof payload).a[0]).toEqual({ api_key: "abcd" });
  expect(concealBoth({ token: "a", list: [1], x: 1 }, { token: "b", list: [1, 2], y: 2 })).toEqual([
    { token: "[hidden]", list: [1], x: 1 },
    { token: "[hidden, another one]", list: [1, 2], y: 2 },
  ]);
});

test("that members stand in another order is no change", () => {
  const [left, right] = concealBoth({ a: 1, b: { x: 1, y: 2 } }, { b: { y: 2, x: 1 }, c: 3, a: 1 });
  expect(JSON.stringify(left)).toBe('{"a":1,"b":{"x":1,"y":2}}');
  expect(JSON.stringify(right)).toBe('{"a":1,"b":{"x":1,"y":2},"c":3}');
});
