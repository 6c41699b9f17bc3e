/** The live stream: one connection for the page, whose hints make what is shown be asked for again, at a calm pace. */

import type { Query, QueryClient } from "@tanstack/react-query";
import { type Change, KINDS, type Kind } from "@/api/live";
import { apiUrl } from "@/lib/root";

export interface Connection {
  status: "connecting" | "live" | "lost" | "paused" | "off";
  /** When the server was last heard of. */
  heardAt: number;
  /** The server cannot reach its database. */
  databaseAway: boolean;
}

type Listener = (change: Change, kind: Kind) => void;

const FLUSH_MS = 300; // at most so often is anything rendered for the stream's sake
const REST_MS = 1500; // and the same answer is asked for at most so often, a list of several pages the less often,
const REST_FACTOR = 3; // or, where it takes long, leaving the server this many times as long in peace
const HIDDEN_MS = 20_000;
const SILENT_MS = 8_000; // without a word, though the server sends a heartbeat every 3 s: it hangs, or the connection is cut
const LOOK_MS = 1_000;
const MOST_WAIT_MS = 30_000;

export class LiveStream {
  connection: Connection = { status: "off", heardAt: Date.now(), databaseAway: false };
  private source: EventSource | null = null;
  private dirty = new Set<Kind>();
  private outdated = new Set<string>(); // hashes of queries whose turn has not come yet
  private changes: [Kind, Change][] = [];
  private notBefore = new Map<string, number>();
  private flushing: ReturnType<typeof setTimeout> | undefined;
  private reopening: ReturnType<typeof setTimeout> | undefined;
  private hiding: ReturnType<typeof setTimeout> | undefined;
  private silence: ReturnType<typeof setInterval> | undefined;
  private openedAt = 0;
  private failures = 0;
  private heardBefore = false;
  private watchers = new Set<() => void>();
  private listeners = new Map<Kind, Set<Listener>>();

  constructor(private readonly client: QueryClient) {}

  start(): void {
    document.addEventListener("visibilitychange", this.onVisibility);
    window.addEventListener("online", this.onOnline);
    this.silence = setInterval(this.lookIfSilent, LOOK_MS);
    this.open();
  }

  stop(): void {
    document.removeEventListener("visibilitychange", this.onVisibility);
    window.removeEventListener("online", this.onOnline);
    clearInterval(this.silence);
    for (const timer of [this.flushing, this.reopening, this.hiding]) clearTimeout(timer);
    this.flushing = this.reopening = this.hiding = undefined;
    this.close();
    this.set({ status: "off" });
  }

  /** Tells when the connection's state changes. */
  watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => void this.watchers.delete(watcher);
  };

  /** Tells of changes of a kind, several at once, at the stream's pace. */
  listen(kind: Kind, listener: Listener): () => void {
    const all = this.listeners.get(kind) ?? new Set();
    this.listeners.set(kind, all.add(listener));
    return () => void all.delete(listener);
  }

  private open(): void {
    this.close();
    if (this.connection.status !== "lost") this.set({ status: "connecting" });
    const source = new EventSource(apiUrl("/api/admin/stream"));
    this.source = source;
    this.openedAt = Date.now();
    const heard = () => {
      this.failures = 0;
      this.set({ status: "live", heardAt: Date.now() });
    };
    source.addEventListener("hello", () => {
      heard();
      // Whatever happened while nobody listened.
      if (this.heardBefore) this.everything();
      this.heardBefore = true;
    });
    source.addEventListener("reset", () => (heard(), this.everything()));
    source.addEventListener("heartbeat", heard);
    source.addEventListener("end", () => this.set({ status: "lost" }));
    source.addEventListener("database", (event) => {
      heard();
      const away = Boolean((JSON.parse(event.data as string) as { away?: boolean }).away);
      this.set({ databaseAway: away });
      if (!away) this.everything();
    });
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        heard();
        this.changes.push([kind, JSON.parse((event as MessageEvent).data as string) as Change]);
        this.dirty.add(kind);
        this.plan();
      });
    }
    source.onerror = () => {
      if (this.source !== source) return;
      this.set({ status: "lost" });
      // A browser comes back by itself from a broken connection, but not from an answer that is no stream.
      if (source.readyState === EventSource.CLOSED) this.reopen();
    };
    source.onopen = () => heard();
  }

  private close(): void {
    this.source?.close();
    this.source = null;
  }

  private reopen(): void {
    clearTimeout(this.reopening);
    const wait = Math.min(MOST_WAIT_MS, 1000 * 2 ** this.failures++) * (0.5 + Math.random());
    this.reopening = setTimeout(() => {
      // Perhaps one is no longer signed in: the page asks who one is, and notices.
      void this.client.invalidateQueries({ queryKey: ["/auth/me"] });
      this.open();
    }, wait);
  }

  private everything(): void {
    for (const kind of KINDS) this.dirty.add(kind);
    this.notBefore.clear();
    this.plan();
  }

  private plan(): void {
    this.flushing ??= setTimeout(() => {
      this.flushing = undefined;
      this.flush();
    }, FLUSH_MS);
  }

  private flush(): void {
    const changes = this.changes.splice(0);
    for (const [kind, change] of changes) for (const listener of this.listeners.get(kind) ?? []) listener(change, kind);
    const kinds = this.dirty;
    this.dirty = new Set();
    const before = this.outdated;
    this.outdated = new Set();
    const now = Date.now();
    for (const query of this.client.getQueryCache().getAll()) {
      const live = (query.meta?.live as Kind[] | undefined) ?? [];
      if (live.length === 0 || !(before.has(query.queryHash) || live.some((kind) => kinds.has(kind)))) continue;
      if (!query.isActive()) {
        query.invalidate(); // asked for when somebody looks at it again
      } else if (query.state.fetchStatus !== "idle" || (this.notBefore.get(query.queryHash) ?? 0) > now) {
        this.outdated.add(query.queryHash); // later: what is under way would miss this change
      } else {
        this.ask(query, now);
      }
    }
    if (this.outdated.size > 0) this.plan();
  }

  private ask(query: Query, started: number): void {
    const rest = Math.max(REST_MS * pagesOf(query), (query.meta?.calmMs as number | undefined) ?? 0);
    this.notBefore.set(query.queryHash, started + rest);
    void query
      .fetch()
      .catch(() => {}) // its error is in the query, which shows it
      .finally(() => {
        const took = Date.now() - started;
        this.notBefore.set(query.queryHash, Date.now() + Math.max(rest - took, REST_FACTOR * took));
      });
  }

  private lookIfSilent = (): void => {
    const live = this.connection.status === "live";
    const since = live ? this.connection.heardAt : this.openedAt;
    if (!this.source || Date.now() - since < (live ? SILENT_MS : MOST_WAIT_MS)) return;
    this.set({ status: "lost" });
    this.close();
    this.reopen();
  };

  private onVisibility = (): void => {
    clearTimeout(this.hiding);
    if (document.hidden) {
      this.hiding = setTimeout(() => {
        this.close();
        clearTimeout(this.reopening);
        this.set({ status: "paused" });
      }, HIDDEN_MS);
    } else if (this.connection.status === "paused") {
      this.open();
    }
  };

  private onOnline = (): void => {
    if (this.connection.status === "lost") this.open();
  };

  private set(change: Partial<Connection>): void {
    const next = { ...this.connection, ...change };
    const same = next.status === this.connection.status && next.databaseAway === this.connection.databaseAway;
    this.connection = same ? Object.assign(this.connection, change) : next;
    if (!same) for (const watcher of this.watchers) watcher();
  }
}

function pagesOf(query: Query): number {
  const data = query.state.data as { pages?: unknown[] } | undefined;
  return data?.pages?.length ?? 1;
}
