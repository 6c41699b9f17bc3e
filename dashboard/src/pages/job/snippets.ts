/** A job as a command that makes another one like it. Payloads are anybody's: every text is quoted for where it goes. */

import { seconds } from "@/lib/format";
import { toJson, visible } from "@/lib/json";
import { absoluteUrl } from "@/lib/root";
import { conceal } from "./secrets";

export interface Enqueueable {
  task: string;
  payload: Record<string, unknown>;
  queue: string;
  priority: number;
  max_attempts: number;
  timeout: string | null;
}

export const LANGUAGES = ["Python", "command line", "curl", "SQL"] as const;
export type Language = (typeof LANGUAGES)[number];

/** The text, and how many secrets of the payload are left for whoever pastes it to fill in. */
export function snippetOf(job: Enqueueable, language: Language): { code: string; hidden: number } {
  const { value, sealed, named } = conceal(job.payload);
  const payload = value as Record<string, unknown>;
  const make = { Python: python, "command line": commandLine, curl, SQL: sql }[language];
  return { code: make({ ...job, payload }), hidden: sealed + named };
}

function python(job: Enqueueable): string {
  const options = [`queue=${pythonOf(job.queue)}`, `priority=${job.priority}`, `max_attempts=${job.max_attempts}`];
  if (job.timeout) options.push(`timeout=${pythonOf(brief(job.timeout))}`);
  return `app.enqueue(\n    ${pythonOf(job.task)},\n    ${pythonOf(job.payload, 1)},\n    ${options.join(",\n    ")},\n)`;
}

function commandLine(job: Enqueueable): string {
  const options = ["--queue", shellOf(job.queue), "--priority", shellOf(String(job.priority)), "--max-attempts", String(job.max_attempts)];
  if (job.timeout) options.push("--timeout", brief(job.timeout));
  // After `--` nothing is an option, whatever it begins with.
  return `rota jobs enqueue ${options.join(" ")} -- ${shellOf(job.task)} ${shellOf(jsonOf(job.payload))}`;
}

function curl(job: Enqueueable): string {
  const body = { task: job.task, payload: job.payload, queue: job.queue, priority: job.priority, max_attempts: job.max_attempts, ...(job.timeout ? { timeout: brief(job.timeout) } : {}) };
  return [
    `curl -X POST ${shellOf(absoluteUrl("/api/admin/jobs"))}`,
    `-H "Authorization: Bearer $ROTA_TOKEN"`,
    `-H 'Content-Type: application/json'`,
    `--data-raw ${shellOf(jsonOf(body))}`, // not -d, to which "@" means a file
  ].join(" \\\n  ");
}

function sql(job: Enqueueable): string {
  const options = [`queue => ${sqlOf(job.queue)}`, `priority => ${job.priority}`, `max_attempts => ${job.max_attempts}`];
  if (job.timeout) options.push(`timeout => ${sqlOf(job.timeout)}`);
  return `SELECT rota.enqueue(\n    ${sqlOf(job.task)},\n    ${sqlOf(jsonOf(job.payload))},\n    ${options.join(",\n    ")}\n);`;
}

/** A value as Python writes it. */
export function pythonOf(value: unknown, depth = 0): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  // JSON's escapes are Python's, too.
  if (typeof value === "string") return visible(JSON.stringify(value));
  if (typeof value === "number" && !Number.isFinite(value)) return `float("${value > 0 ? "inf" : value < 0 ? "-inf" : "nan"}")`;
  if (typeof value !== "object") return String(value);
  const inner = "    ".repeat(depth + 1);
  const parts = Array.isArray(value)
    ? value.map((each) => pythonOf(each, depth + 1))
    : Object.entries(value).map(([key, each]) => `${pythonOf(key)}: ${pythonOf(each, depth + 1)}`);
  const [left, right] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  const line = `${left}${parts.join(", ")}${right}`;
  return line.length <= 72 && !line.includes("\n") ? line : `${left}\n${parts.map((part) => `${inner}${part},\n`).join("")}${"    ".repeat(depth)}${right}`;
}

/** A text as one word of a POSIX shell: in single quotes nothing has a meaning but the quote itself. */
export function shellOf(text: string): string {
  return /^[A-Za-z0-9_./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A text as a literal of PostgreSQL. With a backslash in it as E'…', which means the same whatever the server's settings are. */
export function sqlOf(text: string): string {
  const quoted = text.replaceAll("'", "''");
  return text.includes("\\") ? `E'${quoted.replaceAll("\\", "\\\\")}'` : `'${quoted}'`;
}

function jsonOf(value: unknown): string {
  return visible(toJson(value));
}

/** A duration as Python and the command line take it: "90s", "600ms". */
function brief(duration: string): string {
  const s = seconds(duration);
  if (Number.isNaN(s)) return duration;
  return Number.isInteger(s) ? `${s}s` : `${Math.round(s * 1000)}ms`;
}
