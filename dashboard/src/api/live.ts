/** Which messages of the stream are about which paths of the API. */

export const KINDS = ["alerts", "jobs", "queues", "runs", "schedules", "tasks", "workers"] as const;

/** A kind of message; `database` and the like are for the connection alone. */
export type Kind = (typeof KINDS)[number];

/** One message: rows as they are now, keys of those that are gone, and whether there is more than it names. */
export interface Change {
  changed: Record<string, unknown>[];
  gone: (string | number)[];
  more: boolean;
}

const BY_PATH: [prefix: string, kinds: Kind[]][] = [
  ["/api/admin/jobs", ["jobs"]],
  ["/api/admin/runs", ["runs"]],
  ["/api/admin/logs", ["runs"]],
  ["/api/admin/errors", ["runs"]],
  ["/api/admin/stats", ["runs"]],
  ["/api/admin/overview", ["jobs", "queues", "runs", "workers", "schedules"]],
  ["/api/admin/calendar", ["schedules"]],
  ["/api/admin/schedules", ["schedules"]],
  ["/api/admin/tasks", ["tasks", "workers"]],
  ["/api/admin/plan", ["tasks"]],
  ["/api/admin/queues", ["queues"]],
  ["/api/admin/workers", ["workers"]],
  ["/api/admin/alerts", ["alerts"]],
  ["/jobs", ["jobs"]],
];

/** What makes an answer of this path out of date. */
export function kindsOf(path: string): Kind[] {
  return BY_PATH.find(([prefix]) => path === prefix || path.startsWith(`${prefix}/`))?.[1] ?? [];
}
