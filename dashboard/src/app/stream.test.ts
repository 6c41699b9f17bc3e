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
function watch(live: string[], took = 10, data: unknown = {}, calmMs?: number): { asked: () => number } {
  const ask = vi.fn(() => new Promise((done) => setTimeout(() => done(data), took)));
  const observer = new QueryObserver(client, { queryKey: [live.join(), leave.length], queryFn: ask, meta: { live, calmMs }, retry: false });
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
    // Ten seconds: at most every second and a half.
    expect(jobs.asked()).toBeLessThanOrEqual(8);
    expect(jobs.asked()).toBeGreaterThan(5);
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

  test("keeps a long list current too, the less often the longer it is", async () => {
    const long = watch(["jobs"], 10, { pages: [1, 2, 3, 4, 5, 6] });
    await vi.advanceTimersByTimeAsync(50);
    for (let second = 0; second < 18; second++) {
      source().emit("jobs", change);
      await vi.advanceTimersByTimeAsync(1000);
    }
    expect(long.asked()).toBe(3);
  });

  test("asks once for one change, while another answer has to wait for its turn", async () => {
    const jobs = watch(["jobs"]);
    const facets = watch(["jobs"], 10, {}, 5000);
    await vi.advanceTimersByTimeAsync(50);
    source().emit("jobs", change);
    await vi.advanceTimersByTimeAsync(400);
    source().emit("jobs", change);
    await vi.advanceTimersByTimeAsync(20_000);
    expect([jobs.asked(), facets.asked()]).toEqual([3, 3]);
  });

  test("says when it is lost, comes back more and more slowly, and then asks for everything", async () => {
    const workers = watch(["workers"]);
    source().emit("hello");
    expect(stream.connection.status).toBe("live");
    for (let turn = 0; turn < 6; turn++) {
      source().fail();
      expect(stream.connection.status).toBe("lost");
      while (!source()) await vi.advanceTimersByTimeAsync(1000);
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

  test("says within ten seconds that a server is silent, and tries again until it is back", async () => {
    source().emit("hello");
    for (let beat = 0; beat < 20; beat++) {
      source().emit("heartbeat");
      await vi.advanceTimersByTimeAsync(3000);
    }
    expect([stream.connection.status, FakeEventSource.all.length]).toEqual(["live", 1]);
    await vi.advanceTimersByTimeAsync(7000); // since the last one: ten seconds
    expect(stream.connection.status).toBe("lost");
    const heardAt = stream.connection.heardAt;
    await vi.advanceTimersByTimeAsync(120_000); // it takes connections and says nothing
    expect(FakeEventSource.all.length).toBeGreaterThan(2);
    expect(stream.connection).toMatchObject({ status: "lost", heardAt });
    source().emit("hello");
    expect(stream.connection.status).toBe("live");
  });
});
