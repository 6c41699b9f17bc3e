/** A look at a job beside the list: what it is, why it is so, what went wrong, and what can be done. */

import { useApi } from "@/api";
import { Dialog, ErrorPanel, IconButton, LinkButton, Section, Skeleton } from "@/ui";
import { JobActions } from "../job/actions";
import { ErrorView } from "../job/error";
import { JobFacts } from "../job/facts";
import { Gone } from "../job/gone";
import { PayloadView } from "../job/payload";
import { Why } from "../job/why";

interface PeekProps {
  id: string;
  /** The ids in the list, to go on to the next one. */
  among: string[];
  onGo: (id: string) => void;
  onClose: () => void;
}

export function Peek({ id, among, onGo, onClose }: PeekProps) {
  const detail = useApi("/api/admin/jobs/{id}", { path: { id } }, { keep: false });
  const job = detail.data?.job;
  const at = among.indexOf(id);
  const step = (by: number) => {
    const next = among[at + by];
    if (next !== undefined) onGo(next);
  };
  return (
    <Dialog
      side
      title={job ? job.task : "Job"}
      onClose={onClose}
      footer={
        <>
          <span className="mr-auto flex gap-1">
            <IconButton label="Job before (k)" icon="up" onClick={() => step(-1)} disabled={at <= 0} />
            <IconButton label="Next job (j)" icon="down" onClick={() => step(1)} disabled={at < 0 || at >= among.length - 1} />
          </span>
          {job && <JobActions job={job} small />}
          <LinkButton href={`/jobs/${id}`} look="primary" icon="right">
            Open
          </LinkButton>
        </>
      }
    >
      {/* The page's keys are off while a dialog is open; in the peek, j and k go on through the list. */}
      <div
        className="flex flex-col gap-4 outline-none"
        tabIndex={-1}
        data-autofocus
        onKeyDown={(event) => {
          if ((event.target as Element).closest("input, textarea, select")) return;
          if (event.key === "j") step(1);
          else if (event.key === "k") step(-1);
        }}
      >
        {detail.error && !job ? detail.error.status === 404 ? <Gone id={id} /> : <ErrorPanel problem={detail.error} onRetry={() => void detail.refetch()} /> : !job ? <Skeleton lines={8} /> : null}
        {job && (
          <>
            <JobFacts job={job} />
            <Why job={job} />
            {job.last_error && (
              <Section title={job.state === "completed" ? "Last error before it completed" : "Error"}>
                <ErrorView error={job.last_error} />
              </Section>
            )}
            <Section title="Payload">
              <PayloadView payload={job.payload} />
            </Section>
          </>
        )}
      </div>
    </Dialog>
  );
}
