/** What the fields of the dialog become. */

import { expect, test } from "vitest";
import { NEW, changeOf, draftOf, mistakes, settingsOf } from "./draft";
import { record } from "./sample";
import { isOnce, spanText, timingWords } from "./words";

test("durations are shown as one types them", () => {
  expect(["PT0S", "PT30S", "PT5M", "PT1H30M", "P1DT12H", "PT0.25S", "P14D", null].map(spanText)).toEqual(["0s", "30s", "5m", "1h30m", "1d12h", "0.25s", "14d", ""]);
});

test("a schedule that is opened and not touched changes nothing", () => {
  for (const timing of [{}, { strategy: "interval" as const, cron: null, every: "PT5M", jitter: "PT1M" }, { strategy: "interval" as const, cron: null, every: "P1D", starts_at: "2026-05-01T10:00:00Z", ends_at: "2026-05-01T10:00:01Z" }, { strategy: "init" as const, cron: null }]) {
    const draft = draftOf(record("a", { timing, queue: "mail", priority: 3 }));
    expect(changeOf(draft, { ...draft })).toEqual({});
  }
});

test("from cron to an interval only the interval is sent, from a single time its bounds are taken away", () => {
  const cron = draftOf(record("a"));
  expect(changeOf(cron, { ...cron, mode: "interval", every: "5m" })).toEqual({ every: "5m" });
  const once = draftOf(record("a", { timing: { strategy: "interval", cron: null, every: "P1D", starts_at: "2026-05-01T10:00:00Z", ends_at: "2026-05-01T10:00:01Z" } }));
  expect(once.mode).toBe("once");
  expect(changeOf(once, { ...once, mode: "cron", cron: "@daily", tz: "UTC" })).toEqual({ cron: "@daily", tz: "UTC", starts_at: null, ends_at: null });
});

test("another zone goes with its cron, a spread is taken away by none", () => {
  const draft = draftOf(record("a", { timing: { jitter: "PT1M" } }));
  expect(changeOf(draft, { ...draft, tz: "UTC", jitter: "" })).toEqual({ cron: "0 3 * * *", tz: "UTC", jitter: "0s" });
});

test("a single time must be ahead, numbers must be whole", () => {
  const now = Date.parse("2026-05-01T00:00:00Z");
  const draft = { ...NEW, name: "a", task: "t", mode: "once" as const };
  expect(mistakes({ ...draft, at: "2026-04-01T10:00" }, true, now).at).toContain("over");
  expect(mistakes({ ...draft, at: "2026-06-01T10:00", priority: "high" }, true, now)).toEqual({ priority: "a whole number" });
  expect(settingsOf({ ...draft, at: "2026-06-01T10:00" })).toMatchObject({ every: "24h" });
});

test("an interval is a single time only if it ends before it comes round", () => {
  const timing = record("a").timing;
  expect(isOnce({ ...timing, strategy: "interval", every: "PT1H", starts_at: "2026-05-01T10:00:00Z", ends_at: "2026-05-01T12:00:00Z" })).toBe(false);
  expect(timingWords({ ...timing, strategy: "init", cron: null }, "")).toContain("Once ever");
});
