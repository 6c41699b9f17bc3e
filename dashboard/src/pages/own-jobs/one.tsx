/** One job of one's own, with what became of each attempt. What the other side answered is text. */

import { type Schema, useApi, usePages } from "@/api";
import { bytes, durationWords } from "@/lib/format";
import { Button, Dialog, Empty, ErrorPanel, Facts, Icon, Id, Section, Skeleton, StateBadge, Time } from "@/ui";
import { whyNoRetry } from "../jobs/doable";
import { type OwnJob, StatusBadge, whyNoStop } from "./own";

interface PeekProps {
  id: string;
  onRetry: (job: OwnJob) => void;
  onCancel: (job: OwnJob) => void;
  onClose: () => void;
}

export function OwnJobPeek({ id, onRetry, onCancel, onClose }: PeekProps) {
  const found = useApi("/jobs/{id}", { path: { id } }, { everyMs: 3000, keep: false });
  const attempts = usePages("/jobs/{id}/attempts", { path: { id } }, { everyMs: 3000, keep: false, enabled: found.data !== undefined });
  const job = found.data;
  const gone = found.error?.status === 404 || found.error?.status === 422;
  return (
    <Dialog
      side
      title={job ? (job.url === null ? job.task : `${job.method} ${job.url}`) : "Job"}
      onClose={onClose}
      footer={
        job && (
          <>
            <Button icon="retry" disabledWhy={whyNoRetry(job)} onClick={() => onRetry(job)}>
              {job.state === "queued" ? "Call now" : "Retry"}
            </Button>
            <Button icon="ban" disabledWhy={whyNoStop(job)} onClick={() => onCancel(job)}>
              Cancel
            </Button>
          </>
        )
      }
    >
      {/* Where the focus begins: on a button it would show that one's name. */}
      <div tabIndex={-1} data-autofocus className="outline-none" />
      {!job ? (
        gone ? (
          <Empty title="This job is not there" icon="globe">
            It is not one of yours, or was removed: old ones are, after a while.
          </Empty>
        ) : found.error ? (
          <ErrorPanel problem={found.error} onRetry={() => void found.refetch()} />
        ) : (
          <Skeleton lines={8} />
        )
      ) : (
        <div className="flex flex-col gap-4">
          {found.error && <ErrorPanel problem={found.error} compact />}
          <Facts
            items={[
              ["State", <span key="state" className="inline-flex items-center gap-2"><StateBadge state={job.state} />{job.cancel_requested && job.state === "running" && <span className="text-xs text-warn">asked to stop</span>}</span>],
              job.url !== null && ["URL", job.url],
              job.headers.length > 0 && ["Headers", job.headers.join(", ")],
              ["Attempts", `${job.attempt} of at most ${job.max_attempts}`],
              job.timeout_s !== null && ["Timeout", durationWords(job.timeout_s)],
              job.idempotency_key !== null && ["Key", <code key="key" className="font-mono text-xs">{job.idempotency_key}</code>],
              ["Created", <Time key="created" at={job.created_at} />],
              job.finished_at === null ? ["Due", <Time key="due" at={job.run_at} />] : ["Ended", <Time key="ended" at={job.finished_at} />],
              ["Id", <Id key="id" id={job.id} whole copy />],
            ]}
          />
          {job.url !== null && <p className="text-xs text-muted">The query, the values of headers and the body are stored, and not shown again.</p>}
          <Section title="Attempts">
            {attempts.error && attempts.rows.length === 0 ? (
              <ErrorPanel problem={attempts.error} compact onRetry={attempts.refetch} />
            ) : attempts.loading ? (
              <Skeleton lines={3} />
            ) : attempts.rows.length === 0 ? (
              <p className="text-muted">It has not been tried yet.</p>
            ) : (
              <ul className="flex flex-col">
                {attempts.rows.map((attempt) => (
                  <AttemptLine key={attempt.attempt} attempt={attempt} />
                ))}
              </ul>
            )}
            {attempts.hasMore && (
              <Button small look="quiet" busy={attempts.loadingMore} onClick={attempts.loadMore}>
                Show earlier attempts
              </Button>
            )}
          </Section>
        </div>
      )}
    </Dialog>
  );
}

function AttemptLine({ attempt }: { attempt: Schema<"Attempt"> }) {
  const { response } = attempt;
  return (
    <li className="flex flex-col gap-1.5 border-b py-2.5">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <span className="font-medium">Attempt {attempt.attempt}</span>
        <StateBadge state={attempt.outcome} />
        {attempt.status !== null && <StatusBadge status={attempt.status} />}
        <span className="ml-auto flex gap-3 text-xs text-muted">
          {attempt.duration_ms !== null && <span>{durationWords(attempt.duration_ms / 1000)}</span>}
          <Time at={attempt.started_at ?? attempt.finished_at} />
        </span>
      </div>
      {attempt.error && (
        <p className="text-xs wrap-anywhere text-bad">
          {attempt.reason && <span className="font-medium">{attempt.reason}: </span>}
          {attempt.error}
        </p>
      )}
      {(attempt.redirects || attempt.retry_after_s) && (
        <p className="text-xs text-muted">
          {attempt.redirects ? `${attempt.redirects} ${attempt.redirects === 1 ? "redirect" : "redirects"}. ` : ""}
          {attempt.retry_after_s ? `It asked to be called again in ${durationWords(attempt.retry_after_s)}.` : ""}
        </p>
      )}
      {response && (
        <details>
          <summary className="inline-flex items-center gap-1 text-xs text-muted hover:text-text">
            <Icon name="right" size={12} /> Answer: {response.content_type || "unknown type"}, {bytes(response.bytes)}
            {response.cut && ", cut"}
          </summary>
          <pre tabIndex={0} aria-label={`Answer to attempt ${attempt.attempt}`} className="mt-1 max-h-72 overflow-auto rounded-md border bg-sunken p-3 font-mono text-xs leading-5 wrap-anywhere whitespace-pre-wrap">
            {response.head}
          </pre>
        </details>
      )}
    </li>
  );
}
