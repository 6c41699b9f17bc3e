/** Two people edit the same thing: what has changed meanwhile, and by whom. */

import { useState } from "react";
import { useApi } from "@/api/hooks";
import { useRights } from "@/lib/rights";
import { toJson } from "@/lib/json";
import { Button } from "./button";
import { Notice } from "./states";
import { Time } from "./values";

export interface Versioned<T> {
  data: T;
  etag: string | undefined;
}

/** What a dialog edits: as it was when it opened, whatever the stream brings since, until somebody takes the new one over.
 *
 *     const { base, latest, changed, reload } = useVersion(query.data);
 */
export function useVersion<T>(current: Versioned<T> | undefined): { base: Versioned<T> | undefined; latest: Versioned<T> | undefined; changed: boolean; reload: () => void } {
  const [kept, setKept] = useState<Versioned<T>>();
  const base = kept ?? current;
  if (kept === undefined && current !== undefined) setKept(current);
  return { base, latest: current, changed: base !== undefined && current !== undefined && versionOf(base.etag) !== versionOf(current.etag), reload: () => setKept(current) };
}

/** Of an ETag `"version-digest"` the version, which is of what can be edited: how full a queue is makes no conflict. */
function versionOf(etag: string | undefined): string | undefined {
  return etag?.replace(/^(W\/)?"/, "").split(/[-"]/, 1)[0];
}

interface ConflictProps {
  /** What it is, in a few words: "The queue mail". */
  what: string;
  /** As the audit names it, for who may see that: `noun="queues" target="mail"`. */
  noun: string;
  target: string;
  /** The values that can be edited, by their names: as they were, and as they are now. */
  before: Record<string, unknown>;
  after: Record<string, unknown>;
  /** Takes over what is there now; what has been typed is given up. */
  onReload: () => void;
}

/** Says that something has been changed since one began to edit it (412), what, and by whom; offers to take that over. */
export function Conflict({ what, noun, target, before, after, onReload }: ConflictProps) {
  const { can } = useRights();
  const audit = useApi("/api/admin/audit", { query: { target, limit: 20 } }, { enabled: can("audit.read"), keep: false });
  const last = audit.data?.items.find(({ operation }) => operation.startsWith(`${noun}.`) && operation !== `${noun}.trigger`);
  const names = Object.keys(after).filter((name) => toJson(before[name] ?? null) !== toJson(after[name] ?? null));
  return (
    <div role="alert">
      <Notice tone="warn">
        <p className="font-medium">{what} has been changed while you were editing it. Nothing of yours is saved.</p>
        {last && (
          <p>
            {last.actor} ({last.operation}), <Time at={last.at} />
          </p>
        )}
        {names.length > 0 && (
          <ul className="my-1 font-mono text-xs">
            {names.map((name) => (
              <li key={name}>
                {name}: {shown(before[name])} → {shown(after[name])}
              </li>
            ))}
          </ul>
        )}
        <Button small icon="retry" className="mt-1" onClick={onReload}>
          Reload it
        </Button>
      </Notice>
    </div>
  );
}

function shown(value: unknown): string {
  if (value === null || value === undefined || value === "") return "none";
  return typeof value === "string" ? value : toJson(value);
}
