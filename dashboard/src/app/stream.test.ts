import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { FakeEventSource } from "@/test/events";
import { LiveStream } from "./stream";

let client: QueryClient;
let stream: LiveStream;
const leave: (() => void)[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  client = new QueryClient();
  stream = new LiveStream(client);
  stream.start();
});
afterEach(() => {
  stream.stop();
  for (const each of leave.splice(0)) each();
  client.clear();
});

/** A query that somebody looks at; `took` is how long its answers take. */
function watch(live: string[], took = 10, data: unknown = {}): { asked: () => number } {
  const ask = vi.fn(() => new Promise((done) => setTimeout(() => done(data), took)));
  const observer = new QueryObserver(client, { queryKey: [live.join(), ask], queryFn: ask, meta: { live }, retry: false });
  leave.push(observer.subscribe(() => {}));
  return { asked: () => ask.mock.calls.length };
}

const source = () => FakeEventSource.current!;
const change = { changed: [], gone: [], more: false };

describe("the stream", () => {
  test("asks again for what a message is about, and for nothing else", async () => {
    const jobs = watch(["jobs"]);
    const queues = watch(["queues"]);
    await vi.advanceTimersByTimeAsync(50);
    source().emit("hello");
    source().emit("jobs", change);
    await vi.advanceTimersByTimeAsync(500);
    expect([jobs.asked(), queues.asked()]).toEqual([2, 1]);
  });

  test("stays calm however much changes", async () => {
    const jobs = watch(["jobs"]);
    const heard = vi.fn();
    stream.listen("jobs", heard);
    for (let message = 0; message < 1000; message++) {
      source().emit("jobs", change);
      await vi.advanceTimersByTimeAsync(10);
    }
    // Ten seconds: at most once a second for an answer.
    expect(jobs.asked()).toBeLessThanOrEqual(12);
    expect(jobs.asked()).toBeGreaterThan(7);
    expect(heard.mock.calls.length).toBeGreaterThan(900); // all are told of, in few turns
  });

  test("leaves a slow server in peace, and still ends up current", async () => {
    const jobs = watch(["jobs"], 2000);
    await vi.advanceTimersByTimeAsync(2100);
    for (let second = 0; second < 16; second++) {
      source().emit("jobs", change);
      await vi.advanceTimersByTimeAsync(1000);
    }
    expect(jobs.asked()).toBeLessThanOrEqual(4);
    const before = jobs.asked();
    await vi.advanceTimersByTimeAsync(20_000); // the last change was not forgotten
    expect(jobs.asked()).toBe(before + 1);
  });

  test("leaves a list that is being read as it is", async () => {
    const long = watch(["jobs"], 10, { pages: [1, 2, 3, 4, 5, 6] });
    await vi.advanceTimersByTimeAsync(50);
    source().emit("jobs", change);
    await vi.advanceTimersByTimeAsync(3000);
    expect(long.asked()).toBe(1);
  });

  test("says when it is lost, comes back more and more slowly, and then asks for everything", async () => {
    const workers = watch(["workers"]);
    source().emit("hello");
    expect(stream.connection.status).toBe("live");
    for (let turn = 0; turn < 6; turn++) {
      source().fail();
      expect(stream.connection.status).toBe("lost");
      await vi.advanceTimersByTimeAsync(60_000);
    }
    expect(FakeEventSource.all).toHaveLength(7);
    source().emit("hello");
    await vi.advanceTimersByTimeAsync(500);
    expect(stream.connection.status).toBe("live");
    expect(workers.asked()).toBe(2);
  });

  test("does as it is told by reset", async () => {
    const tasks = watch(["tasks"]);
    await vi.advanceTimersByTimeAsync(50);
    source().emit("reset", { why: "too far behind" });
    await vi.advanceTimersByTimeAsync(500);
    expect(tasks.asked()).toBe(2);
  });

  test("tells that the database is away, and back", async () => {
    source().emit("database", { away: true });
    expect(stream.connection.databaseAway).toBe(true);
    source().emit("database", { away: false });
    expect(stream.connection.databaseAway).toBe(false);
  });

  test("rests while nobody sees the page", async () => {
    const hidden = vi.spyOn(document, "hidden", "get").mockReturnValue(true);
    document.dispatchEvent(new Event("visibilitychange"));
    await vi.advanceTimersByTimeAsync(30_000);
    expect(stream.connection.status).toBe("paused");
    expect(FakeEventSource.current).toBeUndefined();
    hidden.mockReturnValue(false);
    document.dispatchEvent(new Event("visibilitychange"));
    expect(FakeEventSource.current).toBeDefined();
  });

  test("notices a server that is silently gone", async () => {
    vi.stubGlobal("fetch", async () => {
      throw new TypeError("Failed to fetch");
    });
    source().emit("hello");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(FakeEventSource.all.length).toBeGreaterThan(1);
    vi.stubGlobal("fetch", async () => new Response("{}"));
    source().emit("hello");
    const count = FakeEventSource.all.length;
    await vi.advanceTimersByTimeAsync(300_000);
    expect(FakeEventSource.all).toHaveLength(count);
  });
});
