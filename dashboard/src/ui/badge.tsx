/** States: icon, word and colour together, never the colour alone. */

import type { ReactNode } from "react";
import { cx } from "@/lib/classes";
import { Icon, type IconName } from "./icons";

export type Tone = "neutral" | "ok" | "warn" | "bad" | "info" | "accent";

const TONES: Record<Tone, string> = {
  neutral: "text-muted bg-active",
  ok: "text-ok bg-ok-soft",
  warn: "text-warn bg-warn-soft",
  bad: "text-bad bg-bad-soft",
  info: "text-info bg-info-soft",
  accent: "text-accent bg-accent-soft",
};

export const TONE_TEXT: Record<Tone, string> = { neutral: "text-muted", ok: "text-ok", warn: "text-warn", bad: "text-bad", info: "text-info", accent: "text-accent" };

export function Badge({ tone = "neutral", icon, children, title }: { tone?: Tone; icon?: IconName; children: ReactNode; title?: string }) {
  return (
    <span title={title} className={cx("inline-flex h-5 items-center gap-1 rounded-sm px-1.5 text-xs font-medium whitespace-nowrap", TONES[tone])}>
      {icon && <Icon name={icon} size={12} />}
      {children}
    </span>
  );
}

const STATES: Record<string, [Tone, IconName, string?]> = {
  // of jobs and runs
  waiting: ["neutral", "hourglass"],
  queued: ["info", "clock"],
  running: ["accent", "play"],
  completed: ["ok", "check"],
  failed: ["bad", "cross"],
  canceled: ["neutral", "ban"],
  snoozed: ["neutral", "hourglass"],
  lost: ["warn", "warning"],
  crashed: ["bad", "warning"],
  timed_out: ["bad", "clock", "timed out"],
  // of schedules and their instants
  fired: ["ok", "check"],
  skipped: ["warn", "ban"],
  missed: ["warn", "warning"],
  enabled: ["ok", "check"],
  disabled: ["neutral", "pause"],
  paused: ["warn", "pause"],
  ended: ["neutral", "stop"],
  // of workers
  live: ["ok", "check"],
  silent: ["warn", "warning"],
  active: ["ok", "check"],
  stopping: ["warn", "pause"],
  stopped: ["neutral", "stop"],
  dead: ["bad", "cross"],
  // of feeds
  new: ["info", "clock"],
  ok: ["ok", "check"],
  failing: ["bad", "warning"],
  gone: ["neutral", "ban"],
  off: ["neutral", "pause"],
  // of alerts and deliveries
  open: ["bad", "alerts"],
  acknowledged: ["warn", "check"],
  resolved: ["ok", "check"],
  delivered: ["ok", "check"],
  pending: ["info", "clock"],
  critical: ["bad", "warning"],
  error: ["bad", "cross"],
  warning: ["warn", "warning"],
  info: ["info", "info"],
  debug: ["neutral", "dots"],
};

/** A state that the API names, as a badge; one that is not known is shown in grey, as it is called. */
export function StateBadge({ state, title }: { state: string; title?: string }) {
  const [tone, icon, words] = STATES[state] ?? (["neutral", "circle"] as [Tone, IconName]);
  return (
    <Badge tone={tone} icon={icon} title={title}>
      {words ?? state.replaceAll("_", " ")}
    </Badge>
  );
}

/** The tone and icon of a state, for where a badge is too much. */
export function stateLook(state: string): { tone: Tone; icon: IconName } {
  const [tone, icon] = STATES[state] ?? (["neutral", "circle"] as [Tone, IconName]);
  return { tone, icon };
}

export function Kbd({ children }: { children: ReactNode }) {
  return <kbd className="inline-flex h-5 min-w-5 items-center justify-center rounded-sm border border-line-strong bg-sunken px-1 font-mono text-2xs text-muted">{children}</kbd>;
}
