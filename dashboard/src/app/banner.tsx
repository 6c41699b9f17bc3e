/** Says when what is on the page is no longer current. */

import { useCallback, useSyncExternalStore } from "react";
import { onTick } from "@/lib/clock";
import { coarse } from "@/lib/format";
import { Icon } from "@/ui/icons";
import { useConnection } from "./live";

const PATIENCE_MS = 2500; // a server that restarts is back before anybody needs to know

export function ConnectionBanner() {
  const { status, heardAt, databaseAway } = useConnection();
  const lost = status === "lost";
  const words = useCallback(() => {
    const age = Date.now() - heardAt;
    if (lost && age > PATIENCE_MS) return `Disconnected. What you see is from ${coarse(age / 1000)} ago. Reconnecting…`;
    if (databaseAway) return "The server cannot reach its database. What you see may be old; it goes on by itself.";
    return "";
  }, [lost, heardAt, databaseAway]);
  const shown = useSyncExternalStore(onTick, words);
  return (
    <div role="status" aria-live="polite">
      {shown && (
        <div className="flex items-center justify-center gap-2 border-b bg-warn-soft px-4 py-1.5 text-warn">
          <Icon name="warning" />
          {shown}
        </div>
      )}
    </div>
  );
}

/** A dot and a word about the connection. */
export function ConnectionState() {
  const { status } = useConnection();
  const looks = { live: ["bg-ok", "Live"], connecting: ["bg-warn", "Connecting"], lost: ["bg-bad", "Disconnected"], paused: ["bg-faint", "Paused"], off: ["bg-faint", "Not live"] } as const;
  const [color, words] = looks[status];
  return (
    <span className="inline-flex items-center gap-2 text-xs text-muted">
      <span className={`size-1.5 rounded-full ${color}`} />
      {words}
    </span>
  );
}
