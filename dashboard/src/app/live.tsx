/** The stream for pages. */

import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, createContext, useContext, useEffect, useRef, useState, useSyncExternalStore } from "react";
import type { Change, Kind } from "@/api/live";
import { type Connection, LiveStream } from "./stream";

const Context = createContext<LiveStream | null>(null);
const NONE: Connection = { status: "off", heardAt: 0, databaseAway: false };

export function LiveProvider({ on, children }: { on: boolean; children: ReactNode }) {
  const client = useQueryClient();
  const [stream] = useState(() => new LiveStream(client));
  useEffect(() => {
    if (!on) return;
    stream.start();
    return () => stream.stop();
  }, [on, stream]);
  return <Context.Provider value={stream}>{children}</Context.Provider>;
}

/** Calls back with what changed, for pages that show it without asking; most need not: `useApi` asks again by itself. */
export function useStream(kind: Kind, listener: (change: Change) => void): void {
  const stream = useContext(Context);
  const latest = useRef(listener);
  latest.current = listener;
  useEffect(() => stream?.listen(kind, (change) => latest.current(change)), [stream, kind]);
}

/** How the connection is. */
export function useConnection(): Connection {
  const stream = useContext(Context);
  return useSyncExternalStore(stream?.watch ?? never, () => stream?.connection ?? NONE);
}

function never(): () => void {
  return () => {};
}
