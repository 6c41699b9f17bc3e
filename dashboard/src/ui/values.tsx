/** Single values: times, durations, counts, ids. */

import { useCallback, useSyncExternalStore } from "react";
import { cx } from "@/lib/classes";
import { now, onTick } from "@/lib/clock";
import { absolute, count, durationWords, local, relative, seconds, shortCount, shortId } from "@/lib/format";
import { Copy } from "./button";
import { Tooltip } from "./tooltip";

/** A time: relative, ticking; in full with its zone on hover. `absolute` shows it in full at once. */
export function Time({ at, absolute: full, tz, empty = "–", className }: { at: string | number | null | undefined; absolute?: boolean; tz?: string; empty?: string; className?: string }) {
  const instant = at === null || at === undefined ? Number.NaN : new Date(at).getTime();
  // The words are the snapshot: a tick that does not change them renders nothing.
  const words = useCallback(() => (Number.isNaN(instant) ? empty : full ? local(instant, tz) : relative(instant, now())), [instant, full, tz, empty]);
  const shown = useSyncExternalStore(onTick, words);
  if (Number.isNaN(instant)) return <span className="text-faint">{empty}</span>;
  const other = full ? relative(instant, now()) : absolute(instant, tz);
  return (
    <Tooltip words={full ? `${other} · ${tz ?? "your time zone"}` : other}>
      <time dateTime={new Date(instant).toISOString()} tabIndex={-1} className={cx("whitespace-nowrap", className)}>
        {shown}
      </time>
    </Tooltip>
  );
}

/** A duration: of an ISO 8601 text or of seconds; or from `since` until now, ticking. */
export function Duration({ of, since, empty = "–" }: { of?: string | number | null; since?: string | null; empty?: string }) {
  const from = since ? new Date(since).getTime() : null;
  const words = useCallback(() => {
    if (from !== null) return durationWords(Math.max(0, Math.round((now() - from) / 1000)));
    return of === null || of === undefined || of === "" ? empty : durationWords(of);
  }, [from, of, empty]);
  const shown = useSyncExternalStore(onTick, words);
  return (
    <span className="whitespace-nowrap" title={typeof of === "number" || typeof of === "string" ? `${seconds(of)} s` : undefined}>
      {shown}
    </span>
  );
}

/** A number in little room; `capped`: there are more ("10k+"); `estimated`: about that many ("≈ 60k"). In full on hover. */
export function Count({ value, capped = false, estimated = false, className }: { value: number | null | undefined; capped?: boolean; estimated?: boolean; className?: string }) {
  if (value === null || value === undefined) return <span className="text-faint">–</span>;
  return (
    <span className={className} title={capped ? `more than ${count(value)}` : estimated ? `about ${count(value)}` : count(value)}>
      {shortCount(value, capped, estimated)}
    </span>
  );
}

/** An id: its end, in mono, whole on hover, with a button to copy it if wanted. */
export function Id({ id, whole, copy }: { id: string; whole?: boolean; copy?: boolean }) {
  return (
    <span className="inline-flex items-center gap-1 font-mono text-xs" title={id}>
      {whole ? id : shortId(id)}
      {copy && <Copy text={id} label="Copy the id" />}
    </span>
  );
}

/** A name and a value, in two columns: `<Facts items={[["Queue", "mail"], …]} />`; what is null is left out. */
export function Facts({ items }: { items: ([string, React.ReactNode] | null | false)[] }) {
  return (
    <dl className="grid grid-cols-[max-content_1fr] items-baseline gap-x-5 gap-y-1.5">
      {items.filter((item) => item !== null && item !== false).map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="text-muted">{name}</dt>
          <dd className="min-w-0 wrap-anywhere">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
