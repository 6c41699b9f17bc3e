/** One group of errors: what it is, since when, its jobs, and a retry of all of them. */

import { useState } from "react";
import { type AnswerOf, listOf, useApi, usePages } from "@/api";
import { useRights } from "@/lib/rights";
import { Button, type Column, Copy, Count, Empty, ErrorPanel, Facts, Icon, Link, LinkButton, Page, Section, Skeleton, Table, Time } from "@/ui";
import { ErrorView } from "../job/error";
import { type Bulk, BulkDialog } from "../jobs/bulk";
import { BY_ID, COLUMNS } from "../jobs/columns";

type Failure = AnswerOf<"get", "/api/admin/errors/{fingerprint}">["latest"][number];

const failureHref = (failure: Failure) => `/jobs/${failure.job_id}?attempt=${failure.attempt}`;

const FAILURES: Column<Failure>[] = [
  { key: "task", title: "Task", width: "12rem", truncate: true, cell: (failure) => <Link href={failureHref(failure)}>{failure.task}</Link> },
  { key: "attempt", title: "Attempt", width: "5rem", align: "right", hideBelow: "sm", cell: (failure) => failure.attempt },
  { key: "error", title: "Error", truncate: true, cell: (failure) => <Message error={failure.error} /> },
  { key: "at", title: "Failed", width: "7rem", align: "right", cell: (failure) => <Time at={failure.finished_at} /> },
];

export function Group({ fingerprint, onBack }: { fingerprint: string; onBack: () => void }) {
  const detail = useApi("/api/admin/errors/{fingerprint}", { path: { fingerprint } }, { keep: false });
  const { can } = useRights();
  const jobs = usePages("/api/admin/jobs", { query: { error: detail.data?.group.fingerprint ?? fingerprint } }, { enabled: detail.data !== undefined && can("jobs.read"), byKey: BY_ID });
  const [bulk, setBulk] = useState<Bulk | null>(null);
  const back = (
    <button type="button" onClick={onBack} className="inline-flex items-center gap-1 hover:underline">
      <Icon name="left" size={12} /> Errors
    </button>
  );
  if (!detail.data) {
    const gone = detail.error?.status === 404 || detail.error?.status === 422;
    return (
      <Page title="Error" above={back}>
        {gone ? (
          <Empty title="This error is not there" icon="errors" action={<Button onClick={onBack}>All errors</Button>}>
            No failure that is kept belongs to <code className="font-mono text-xs wrap-anywhere">{fingerprint}</code>. Old history is pruned.
          </Empty>
        ) : detail.error ? (
          <ErrorPanel problem={detail.error} onRetry={() => void detail.refetch()} />
        ) : (
          <Skeleton lines={8} />
        )}
      </Page>
    );
  }
  const { group, error, latest } = detail.data;
  return (
    <Page
      title={group.type}
      above={back}
      actions={
        <>
          <LinkButton href={`/jobs?error=${encodeURIComponent(group.fingerprint)}`} icon="jobs">
            Show as jobs
          </LinkButton>
          <Button look="primary" icon="retry" op="jobs.change" onClick={() => setBulk({ action: "retry", filter: { state: ["failed"], error: group.fingerprint }, words: "that failed for good with this error" })}>
            Retry all
          </Button>
        </>
      }
    >
      {detail.error && <ErrorPanel problem={detail.error} compact onRetry={() => void detail.refetch()} />}
      <Facts
        items={[
          ["Failures", <Count key="count" value={group.count.count} capped={group.count.capped} />],
          ["First seen", <Time key="first" at={group.first_seen} />],
          ["Last seen", <Time key="last" at={group.last_seen} />],
          [
            group.tasks.length === 1 ? "Task" : "Tasks",
            <span key="tasks" className="flex flex-wrap gap-x-3">
              {group.tasks.map((task) => (
                <Link key={task} href={`/jobs?error=${encodeURIComponent(group.fingerprint)}&task=${encodeURIComponent(task)}`}>
                  {task}
                </Link>
              ))}
            </span>,
          ],
          [
            "Group",
            <span key="group" className="inline-flex items-center gap-1 font-mono text-xs">
              {group.fingerprint} <Copy text={group.fingerprint} label="Copy the group's name" />
            </span>,
          ],
        ]}
      />
      <Section title="Latest error">
        <ErrorView error={error} grouped={false} />
      </Section>
      {latest.length > 0 && (
        <Section title="Last failures">
          <Table label="Last failures" list={listOf(detail, (found) => found.latest)} columns={FAILURES} rowKey={failureHref} href={failureHref} keyboard={false} empty={null} />
        </Section>
      )}
      <Section title="Jobs with this error">
        {can("jobs.read") && (
          <Table
            label="Jobs of this error"
            list={jobs}
            columns={COLUMNS}
            rowKey={(job) => job.id}
            href={(job) => `/jobs/${job.id}`}
            empty={<p className="py-4 text-muted">None any more: they have completed since.</p>}
          />
        )}
      </Section>
      {bulk && <BulkDialog bulk={bulk} onClose={() => setBulk(null)} />}
    </Page>
  );
}

function Message({ error }: { error: Record<string, unknown> | null }) {
  const message = error?.message;
  if (typeof message !== "string" || !message) return null;
  return (
    <span className="text-xs text-bad" title={message}>
      {message}
    </span>
  );
}
