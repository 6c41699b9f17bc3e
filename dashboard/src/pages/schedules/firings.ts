/** What became of the last instants of schedules. */

import { useQueries } from "@tanstack/react-query";
import { useMemo } from "react";
import { get } from "@/api";
import type { ItemOf } from "@/api";
import { durationWords, local } from "@/lib/format";
import type { Mark, Tone } from "@/ui";
import { knownZone } from "@/ui/zone-input";

export type Firing = ItemOf<"/api/admin/firings">["firings"][number];

const AT_ONCE = 50;
export const SHOWN = 30;

/** The last firings of each of these schedules, by id; asked for in parts, and again when schedules or their jobs have moved. */
export function useFirings(ids: string[]): Map<string, Firing[]> {
  const parts = useMemo(() => Array.from({ length: Math.ceil(ids.length / AT_ONCE) }, (_, part) => ids.slice(part * AT_ONCE, (part + 1) * AT_ONCE)), [ids]);
  const found = useQueries({
    queries: parts.map((part) => ({
      queryKey: ["/api/admin/firings", part],
      queryFn: ({ signal }: { signal: AbortSignal }) => get("/api/admin/firings", { query: { id: part, limit: SHOWN } }, signal),
      refetchInterval: 20_000,
      meta: { live: ["schedules"] },
    })),
  });
  return useMemo(() => new Map(found.flatMap((each) => each.data?.items ?? []).map((each) => [each.id, each.firings])), [found]);
}

const TONES: Record<string, Tone> = { completed: "ok", failed: "bad", canceled: "neutral", running: "accent", queued: "info", skipped: "warn", missed: "warn", unknown: "neutral" };
const REASONS: Record<string, string> = {
  overlap: "the one before was not done",
  disabled: "disabled",
  not_in_code: "its task is in no code",
  outage: "nobody was there to fire it",
  misfire: "too late, and late ones are skipped",
};

/** A reason for which an instant was passed over, in words. */
export function reasonWords(reason: string | null | undefined): string {
  return reason ? (REASONS[reason] ?? reason.replaceAll("_", " ")) : "";
}

/** Firings as marks of a strip, with what happened on hover. */
export function marksOf(firings: Firing[], tz: string): Mark[] {
  const zone = knownZone(tz);
  return firings.map((each) => {
    const words = [local(each.at, zone), each.outcome];
    if (each.reason) words.push(reasonWords(each.reason));
    if (each.instants > 1) words.push(`${each.instants} times${each.until ? ` until ${local(each.until, zone)}` : ""}`);
    if (each.started_at && each.finished_at) words.push(`took ${durationWords((Date.parse(each.finished_at) - Date.parse(each.started_at)) / 1000)}`);
    if (each.late.length > 0) words.push(`too late to ${each.late.join(" and to ")}`);
    return { tone: each.late.length > 0 && each.outcome === "completed" ? "warn" : (TONES[each.outcome] ?? "neutral"), title: words.join(" · ") };
  });
}
