/** An error as it was kept: what, where, and what had caused it. All of it is text. */

import { useRights } from "@/lib/rights";
import { toJson } from "@/lib/json";
import { Copy, Json, Link } from "@/ui";

/** As the server keeps them; of one that something else has written, anything may be missing. */
interface Kept {
  type?: unknown;
  module?: unknown;
  message?: unknown;
  traceback?: unknown;
  causes?: unknown;
  errors?: unknown;
  fingerprint?: unknown;
  call?: unknown;
}

const KNOWN = new Set(["type", "module", "message", "traceback", "causes", "errors", "fingerprint"]);

export function ErrorView({ error, grouped = true }: { error: Record<string, unknown>; grouped?: boolean }) {
  const { can } = useRights();
  const { fingerprint } = error as Kept;
  return (
    <div className="flex flex-col gap-3">
      <One error={error} />
      {list((error as Kept).errors).map((each, index) => (
        <Inner key={index} title={`Error ${index + 1} of the group`} error={each} />
      ))}
      {list((error as Kept).causes).map((each, index) => (
        <Inner key={index} title={index === 0 ? "Caused by" : "which was caused by"} error={each} />
      ))}
      {grouped && typeof fingerprint === "string" && can("runs.read") && (
        <p className="text-xs text-muted">
          Group <Link href={`/errors?group=${encodeURIComponent(fingerprint)}`} className="font-mono">{fingerprint}</Link>: others that failed in the same place.
        </p>
      )}
    </div>
  );
}

function Inner({ title, error }: { title: string; error: Record<string, unknown> }) {
  return (
    <div className="border-l-2 pl-3">
      <p className="text-xs text-muted">{title}</p>
      <One error={error} />
    </div>
  );
}

function One({ error }: { error: Record<string, unknown> }) {
  const { type, module, message, traceback } = error as Kept;
  const name = [typeof module === "string" ? module : null, typeof type === "string" ? type : null].filter(Boolean).join(".");
  const rest = Object.fromEntries(Object.entries(error).filter(([key]) => !KNOWN.has(key)));
  const trace = typeof traceback === "string" ? traceback : "";
  const whole = `${trace && `Traceback (most recent call last):\n${trace}`}${name}${message ? `: ${text(message)}` : ""}`;
  return (
    <div className="flex min-w-0 flex-col gap-2">
      <div className="flex items-start gap-2">
        <p className="min-w-0 grow wrap-anywhere whitespace-pre-wrap">
          <span className="font-semibold text-bad">{name || "Error"}</span>
          {message !== undefined && message !== "" && <>: {text(message)}</>}
        </p>
        <span className="-my-0.5">
          <Copy text={whole} label="Copy the error" />
        </span>
      </div>
      {trace && <Trace text={trace} />}
      {Object.keys(rest).length > 0 && <Json value={rest} label="More about the error" open={1} />}
    </div>
  );
}

/** A traceback: the lines that name a file a little lighter than the code. */
function Trace({ text: trace }: { text: string }) {
  return (
    <pre tabIndex={0} aria-label="Traceback" className="max-h-96 overflow-auto rounded-md border bg-sunken p-3 font-mono text-xs leading-5">
      {trace
        .trimEnd()
        .split("\n")
        .map((line, index) => (
          <span key={index} className={/^\s*File "/.test(line) ? "text-muted" : undefined}>
            {line}
            {"\n"}
          </span>
        ))}
    </pre>
  );
}

function list(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter((each): each is Record<string, unknown> => typeof each === "object" && each !== null && !Array.isArray(each)) : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : toJson(value);
}
