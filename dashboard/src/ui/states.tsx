/** What stands where data would be: nothing yet, or an error. */

import type { ReactNode } from "react";
import { Problem } from "@/api/problem";
import { Button, Copy } from "./button";
import { Icon, type IconName } from "./icons";

/** An empty place that teaches: what belongs here, and how it gets here. */
export function Empty({ title, icon, children, snippet, action, waiting }: { title: string; icon?: IconName; children?: ReactNode; snippet?: string; action?: ReactNode; waiting?: string }) {
  return (
    <div className="mx-auto flex w-full max-w-xl flex-col items-center gap-3 px-4 py-12 text-center">
      {icon && (
        <span className="text-faint">
          <Icon name={icon} size={28} />
        </span>
      )}
      <h3 className="text-base font-semibold">{title}</h3>
      {children && <div className="text-muted">{children}</div>}
      {snippet && <Snippet code={snippet} />}
      {action}
      {waiting && (
        <p className="flex items-center gap-2 text-xs text-muted" role="status">
          <span className="size-1.5 animate-skeleton rounded-full bg-accent" />
          {waiting}
        </p>
      )}
    </div>
  );
}

/** Code to copy. */
export function Snippet({ code, label = "Copy the code" }: { code: string; label?: string }) {
  return (
    <div className="relative w-full rounded-md border bg-sunken text-left">
      <pre tabIndex={0} className="overflow-x-auto p-3 pr-10 font-mono text-xs leading-5">
        {code}
      </pre>
      <div className="absolute top-1.5 right-1.5">
        <Copy text={code} label={label} />
      </div>
    </div>
  );
}

/** An error in place of data: what, the request's id, and a way to try again. */
export function ErrorPanel({ problem, onRetry, compact }: { problem: Error; onRetry?: () => void; compact?: boolean }) {
  const known = problem instanceof Problem ? problem : null;
  const titles: Record<string, string> = {
    forbidden: "You may not see this",
    not_found: "There is nothing here",
    offline: "The server cannot be reached",
    database: "The database is away",
    not_migrated: "The database is missing tables",
    too_slow: "That took too long",
    rate_limited: "Too many requests",
  };
  const title = titles[known?.code ?? ""] ?? "This did not work";
  return (
    <div role="alert" className={compact ? "flex items-start gap-2 rounded-md bg-bad-soft p-3" : "mx-auto flex w-full max-w-xl items-start gap-3 px-4 py-10"}>
      <span className="mt-0.5 text-bad">
        <Icon name={known?.code === "forbidden" ? "lock" : "warning"} size={compact ? 16 : 20} />
      </span>
      <div className="flex min-w-0 flex-col items-start gap-1.5">
        <h3 className="font-semibold">{title}</h3>
        <p className="wrap-anywhere text-muted">{problem.message}</p>
        {known?.errors.map((each) => (
          <p key={each.field} className="wrap-anywhere">
            <code className="font-mono text-xs">{each.field}</code>: {each.detail}
          </p>
        ))}
        {known?.requestId && (
          <p className="flex items-center gap-1 font-mono text-2xs text-faint">
            request {known.requestId} <Copy text={known.requestId} label="Copy the request's id" />
          </p>
        )}
        {onRetry && known?.code !== "forbidden" && (
          <Button small icon="retry" onClick={onRetry}>
            Try again
          </Button>
        )}
      </div>
    </div>
  );
}

/** A note in a page: why something is as it is. */
export function Notice({ tone = "info", icon, children }: { tone?: "info" | "warn" | "bad" | "ok"; icon?: IconName; children: ReactNode }) {
  const looks = { info: "bg-info-soft text-info", warn: "bg-warn-soft text-warn", bad: "bg-bad-soft text-bad", ok: "bg-ok-soft text-ok" };
  const icons: Record<string, IconName> = { info: "info", warn: "warning", bad: "warning", ok: "check" };
  return (
    <div className={`flex items-start gap-2 rounded-md px-3 py-2 ${looks[tone]}`}>
      <Icon name={icon ?? icons[tone]!} className="mt-0.5" />
      <div className="min-w-0 wrap-anywhere">{children}</div>
    </div>
  );
}
