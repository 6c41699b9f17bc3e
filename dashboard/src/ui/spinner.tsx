/** Signs that something is going on. */

import { type ReactNode, useEffect, useState } from "react";
import { cx } from "@/lib/classes";

export function Spinner({ size = 16, label }: { size?: number; label?: string }) {
  return (
    <svg viewBox="0 0 16 16" width={size} height={size} className="shrink-0 animate-spin" role={label ? "img" : undefined} aria-label={label} aria-hidden={label ? undefined : true}>
      <circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" strokeWidth="2" opacity="0.25" />
      <path d="M8 2a6 6 0 0 1 6 6" fill="none" stroke="currentColor" strokeWidth="2" strokeLinecap="round" />
    </svg>
  );
}

/** How far something is; without `of` it is not known how much there is. */
export function Progress({ done, of, label }: { done: number; of?: number | null; label: string }) {
  const share = of ? Math.min(1, done / of) : null;
  return (
    <div role="progressbar" aria-label={label} aria-valuenow={share === null ? undefined : Math.round(share * 100)} aria-valuemin={0} aria-valuemax={100} className="h-1.5 w-full overflow-hidden rounded-full bg-active">
      <div
        className={cx("h-full rounded-full bg-accent-fill transition-[width] duration-200", share === null && "w-1/3 animate-skeleton")}
        style={share === null ? undefined : { width: `${share * 100}%` }}
      />
    </div>
  );
}

/** True once `waiting` has lasted 150 ms: what comes sooner shows no skeleton. */
export function useSlow(waiting: boolean, ms = 150): boolean {
  const [slow, setSlow] = useState(false);
  useEffect(() => {
    if (!waiting) return setSlow(false);
    const timer = setTimeout(() => setSlow(true), ms);
    return () => clearTimeout(timer);
  }, [waiting, ms]);
  return waiting && slow;
}

/** Grey bars where text will be. */
export function Skeleton({ lines = 3, className }: { lines?: number; className?: string }) {
  const slow = useSlow(true);
  return (
    <div className={cx("flex flex-col gap-2.5", className)} role="status" aria-label="Loading">
      {slow && Array.from({ length: lines }, (_, line) => <div key={line} className={cx("h-3.5 animate-skeleton rounded-sm bg-active", ["w-full", "w-5/6", "w-2/3"][line % 3])} />)}
    </div>
  );
}

/** What stands at the top of a part of a page. */
export function Section({ title, aside, children, className }: { title: ReactNode; aside?: ReactNode; children: ReactNode; className?: string }) {
  return (
    <section className={cx("border-t pt-3", className)}>
      <div className="mb-2 flex min-h-7 items-center gap-3">
        <h2 className="text-base font-semibold">{title}</h2>
        <div className="ml-auto flex items-center gap-2">{aside}</div>
      </div>
      {children}
    </section>
  );
}
