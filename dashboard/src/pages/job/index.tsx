/** One job: its state and why, its timeline, and everything that is known about it. */

import { useParams } from "wouter";
import { useApi, usePages } from "@/api";
import { useRights } from "@/lib/rights";
import { useUrlState } from "@/lib/urlState";
import { ErrorPanel, Icon, Link, Notice, Page, Skeleton, StateBadge, Tabs } from "@/ui";
import { isFinished } from "../jobs/doable";
import { JobActions } from "./actions";
import { Attempts } from "./attempts";
import { JobFacts, JobProgress } from "./facts";
import { Gone } from "./gone";
import { Lineage } from "./lineage";
import { Logs } from "./logs";
import { PayloadView, ResultView } from "./payload";
import { Timeline } from "./timeline";
import { Why } from "./why";

const UUID = /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

export default function Job() {
  const { id } = useParams<{ id: string }>();
  return (
    <>
      {/* With another id everything begins anew: open attempts, dialogs. */}
      {UUID.test(id) ? <Known key={id} id={id} /> : <Missing id={id} />}
    </>
  );
}

function Back() {
  return (
    <Link href="/jobs" className="inline-flex items-center gap-1 !text-muted">
      <Icon name="left" size={12} /> Jobs
    </Link>
  );
}

function Missing({ id }: { id: string }) {
  return (
    <Page title="Job" above={<Back />}>
      <Gone id={id} />
    </Page>
  );
}

function Known({ id }: { id: string }) {
  const { can } = useRights();
  const [view, setView] = useUrlState({ tab: "attempts", attempt: 0, level: "", text: "", follow: true });
  const detail = useApi("/api/admin/jobs/{id}", { path: { id } }, { keep: false });
  const runs = usePages("/api/admin/jobs/{id}/runs", { path: { id } }, { enabled: can("runs.read"), keep: false });
  if (!detail.data) {
    if (detail.error?.status === 404) return <Missing id={id} />;
    return (
      <Page title="Job" above={<Back />}>
        {detail.error ? <ErrorPanel problem={detail.error} onRetry={() => void detail.refetch()} /> : <Skeleton lines={8} />}
      </Page>
    );
  }
  const { job } = detail.data;
  const live = !isFinished(job.state);
  return (
    <Page
      title={`${job.task} · ${job.state}`}
      above={<Back />}
      heading={
        <span className="flex flex-wrap items-center gap-2.5">
          {job.task} <StateBadge state={job.state} />
        </span>
      }
      actions={<JobActions job={job} keys />}
    >
      {detail.error &&
        (detail.error.status === 404 ? (
          <Notice tone="warn">This job has been pruned since you opened it. What you see is the last that was known.</Notice>
        ) : (
          <ErrorPanel problem={detail.error} compact onRetry={() => void detail.refetch()} />
        ))}
      <JobFacts job={job} stateless />
      <JobProgress job={job} />
      <Why job={job} />
      <Timeline job={job} runs={runs.rows} onAttempt={can("runs.read") ? (attempt) => setView({ tab: "attempts", attempt }) : undefined} />
      <Tabs
        label="Job"
        value={view.tab}
        onChange={(tab) => setView({ tab, attempt: 0 })}
        tabs={[
          { id: "attempts", label: "Attempts", count: job.attempt || null, content: () => <Attempts job={job} runs={runs} known={detail.data.runs} wanted={view.attempt} /> },
          { id: "logs", label: "Logs", content: () => <Logs id={id} live={live} attempts={job.attempt} view={view} onView={(change) => setView(change, { replace: true })} /> },
          { id: "payload", label: "Payload", content: () => <PayloadView payload={job.payload} /> },
          { id: "result", label: "Result", content: () => <ResultView result={job.result} state={job.state} /> },
          { id: "lineage", label: "Lineage", content: () => <Lineage job={job} /> },
        ]}
      />
    </Page>
  );
}
