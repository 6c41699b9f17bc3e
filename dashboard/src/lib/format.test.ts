import { describe, expect, test } from "vitest";
import { bytes, coarse, durationWords, local, relative, seconds, shortCount, shortId } from "./format";
import { parseJson, sameJson, toJson } from "./json";

describe("durations", () => {
  test.each([
    ["PT1M30S", "1 min 30 s"],
    ["PT0.34S", "340 ms"],
    ["PT2H5M", "2 h 5 min"],
    ["P3D", "3 d"],
    ["P1DT2H", "1 d 2 h"],
    ["PT59.9S", "1 min"],
    ["PT3599S", "1 h"],
    ["PT9.5S", "9.5 s"],
    ["PT0S", "0 s"],
    ["-PT5S", "−5 s"],
    ["P1W", "7 d"],
    ["nonsense", "nonsense"],
    ["P", "P"],
  ])("%s is %s", (given, words) => expect(durationWords(given)).toBe(words));
  test("of seconds", () => expect(durationWords(90)).toBe("1 min 30 s"));
  test("of fractions", () => expect(seconds("PT1M30.5S")).toBe(90.5));
});

test("ages", () => {
  expect(relative(0, 12_000)).toBe("12 s ago");
  expect(relative(240_000, 0)).toBe("in 4 min");
  expect(relative(0, 1000)).toBe("now");
  expect(coarse(86_400 * 3)).toBe("3 d");
});

test("counts", () => {
  expect([shortCount(999), shortCount(9999), shortCount(12_345), shortCount(10_000, true), shortCount(3_400_000), shortCount(61_234, false, true)]).toEqual(["999", "9,999", "12.3k", "10k+", "3.4M", "≈ 61.2k"]);
  expect([bytes(5), bytes(1234), bytes(5e9)]).toEqual(["5 B", "1.2 kB", "5 GB"]);
});

test("times in a zone", () => {
  expect(local("2026-02-22T13:03:09Z", "Europe/Berlin")).toBe("2026-02-22 14:03:09");
  expect(local("2026-02-22T13:03:09Z", "Europe/Berlin", "minutes")).toBe("14:03");
});

test("ids by their end", () => expect(shortId("01980000-0000-7000-8000-0000000000ab")).toBe("000000ab"));

describe("JSON", () => {
  test("keeps whole numbers whole", () => {
    const text = '{"id":12345678901234567890,"small":7,"part":1.5}';
    expect((parseJson(text) as { id: bigint }).id).toBe(12345678901234567890n);
    expect(toJson(parseJson(text))).toBe(text);
  });
  test("compares without order", () => {
    expect(sameJson({ a: 1, b: [1, { c: null }] }, { b: [1, { c: null }], a: 1 })).toBe(true);
    expect(sameJson({ a: 1 }, { a: 1, b: undefined })).toBe(false);
    expect(sameJson([], {})).toBe(false);
  });
});
