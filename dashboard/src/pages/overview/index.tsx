/** The first page: how it goes, in a sentence, in numbers, and over time. */

import { useApi } from "@/api";
import { useKeys } from "@/lib/keys";
import { useRights } from "@/lib/rights";
import { useUrlState } from "@/lib/urlState";
import { ErrorPanel, Link, Notice, Page, Section, Skeleton } from "@/ui";
import { Charts, PERIODS, Periods, periodOf } from "./charts";
import { Health, Tiles } from "./health";
import { ErrorGroups, NextRuns } from "./lists";
import { DemoNote, FirstJob } from "./welcome";

export default function OverviewPage() {
  const [view, setView] = useUrlState({ period: "1h" });
  const { can, why } = useRights();
  // By the clock too: what waits gets older without anything changing.
  const found = useApi("/api/admin/overview", {}, { everyMs: 10_000 });
  const period = periodOf(view.period);
  const step = (by: number) => setView({ period: PERIODS[Math.max(0, Math.min(PERIODS.length - 1, PERIODS.indexOf(period) + by))] });
  useKeys([
    { keys: "+", does: "A longer period", run: () => step(1) },
    { keys: "-", does: "A shorter period", run: () => step(-1) },
  ]);
  const overview = found.data;
  if (!overview) {
    return <Page title="Overview">{found.error ? <ErrorPanel problem={found.error} onRetry={() => void found.refetch()} /> : <Skeleton lines={6} />}</Page>;
  }
  const fresh = overview.health === "empty";
  return (
    <Page title="Overview">
      {found.error && <ErrorPanel problem={found.error} onRetry={() => void found.refetch()} compact />}
      {!fresh && <Health overview={overview} />}
      <DemoNote />
      {fresh ? (
        <FirstJob overview={overview} />
      ) : (
        <>
          <Tiles overview={overview} />
          {can("runs.read") ? (
            <Section title="Throughput and latency" aside={<Periods value={period} onChange={(period) => setView({ period })} />}>
              <Charts period={period} />
            </Section>
          ) : (
            <Notice icon="lock">Charts and errors are made of runs. {why("runs.read")}</Notice>
          )}
          <div className="grid gap-x-8 gap-y-4 xl:grid-cols-2">
            {can("runs.read") && (
              <Section title="Errors" aside={<Link href="/errors">All errors</Link>} className="min-w-0">
                <ErrorGroups />
              </Section>
            )}
            {can("schedules.read") && (
              <Section title="Next runs" aside={<Link href="/calendar">Calendar</Link>} className="min-w-0">
                <NextRuns />
              </Section>
            )}
          </div>
        </>
      )}
    </Page>
  );
}
