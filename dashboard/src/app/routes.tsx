/** Every page, where it is, and what one must be allowed to see it. */

import { type ComponentType, type LazyExoticComponent, lazy } from "react";
import type { IconName } from "@/ui/icons";

const FILES = import.meta.glob<{ default: ComponentType }>("../pages/*/index.tsx");

type PageComponent = LazyExoticComponent<ComponentType>;

function page(name: string): PageComponent {
  const load = FILES[`../pages/${name}/index.tsx`];
  return lazy(load ?? (async () => ({ default: () => <p className="p-6 text-muted">This page is not there yet.</p> })));
}

export interface Place {
  /** In the menu; pages of one thing, such as a job, have none. */
  title: string;
  path: string;
  icon: IconName;
  /** After `g`. */
  key: string;
  /** What one must be allowed; left out: everybody may. */
  op?: string;
  group: string;
  /** The module of the application that it is about, if it is one that not every server has. */
  module?: string;
  Component: PageComponent;
}

export const PLACES: Place[] = [
  { title: "Overview", path: "/", icon: "overview", key: "o", op: "jobs.read", group: "Now", Component: page("overview") },
  { title: "Jobs", path: "/jobs", icon: "jobs", key: "j", op: "jobs.read", group: "Now", Component: page("jobs") },
  { title: "Errors", path: "/errors", icon: "errors", key: "e", op: "runs.read", group: "Now", Component: page("errors") },
  { title: "Logs", path: "/logs", icon: "logs", key: "l", op: "logs.read", group: "Now", Component: page("logs") },
  { title: "Alerts", path: "/alerts", icon: "alerts", key: "a", op: "alerts.read", group: "Now", Component: page("alerts") },
  { title: "Schedules", path: "/schedules", icon: "schedules", key: "s", op: "schedules.read", group: "Plan", Component: page("schedules") },
  { title: "Calendar", path: "/calendar", icon: "calendar", key: "c", op: "schedules.read", group: "Plan", Component: page("calendar") },
  { title: "Tasks", path: "/tasks", icon: "tasks", key: "t", op: "tasks.read", group: "Plan", Component: page("tasks") },
  { title: "Queues", path: "/queues", icon: "queues", key: "q", op: "queues.read", group: "Capacity", Component: page("queues") },
  { title: "Workers", path: "/workers", icon: "workers", key: "w", op: "workers.read", group: "Capacity", Component: page("workers") },
  { title: "Feeds", path: "/feeds", icon: "feeds", key: "f", op: "schedules.read", group: "Applications", module: "rota.apps.feeds", Component: page("feeds") },
  { title: "HTTP jobs", path: "/own-jobs", icon: "globe", key: "h", group: "Yours", Component: page("own-jobs") },
  { title: "Settings", path: "/settings", icon: "settings", key: "p", group: "Yours", Component: page("settings") },
];

/** Pages of one thing; a name in the path may have slashes in it. */
export const DETAILS: { path: string; Component: PageComponent }[] = [
  { path: "/jobs/:id", Component: page("job") },
  { path: "/tasks/:name", Component: page("task") },
  { path: "/queues/:name", Component: page("queue") },
];

export const SignInPage = page("sign-in");
