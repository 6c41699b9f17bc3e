/** What can be done to a job. What cannot be done now, or not by who looks, says why. */

import { useState } from "react";
import { type Schema, useAct } from "@/api";
import { useKeys } from "@/lib/keys";
import { useRights } from "@/lib/rights";
import { toast } from "@/lib/toasts";
import { Button } from "@/ui";
import { whyNoCancel, whyNoReschedule, whyNoRetry } from "../jobs/doable";
import { CopyMenu } from "./copy";
import { CancelDialog, RescheduleDialog } from "./dialogs";
import { EditDialog } from "./edit";

type Open = "cancel" | "edit" | "reschedule";

export function JobActions({ job, small, keys }: { job: Schema<"JobRecord">; small?: boolean; keys?: boolean }) {
  const [open, setOpen] = useState<Open | null>(null);
  const rights = useRights();
  const retry = useAct("post", "/api/admin/jobs/{id}/retry", { done: "Retried" });
  const why = { retry: whyNoRetry(job), cancel: whyNoCancel(job), reschedule: whyNoReschedule(job) };
  const run = () => retry.mutate({ path: { id: job.id } });
  const press = (op: string, reason: string | null, act: () => void) => () => {
    const no = rights.can(op) ? reason : rights.why(op);
    if (no) toast(no, { kind: "info" });
    else act();
  };
  useKeys(
    keys
      ? [
          { keys: "r", does: "Retry the job", run: press("jobs.change", why.retry, run), group: "This page" },
          { keys: "e", does: "Edit & retry the job", run: press("tasks.trigger", why.retry, () => setOpen("edit")), group: "This page" },
          { keys: "c", does: "Cancel the job", run: press("jobs.change", why.cancel, () => setOpen("cancel")), group: "This page" },
        ]
      : [],
  );
  return (
    <>
      <Button icon="retry" op="jobs.change" disabledWhy={why.retry} busy={retry.isPending} onClick={run}>
        {job.state === "queued" ? "Run now" : "Retry"}
      </Button>
      {!small && (
        <Button icon="edit" op="tasks.trigger" disabledWhy={why.retry} onClick={() => setOpen("edit")}>
          Edit & retry
        </Button>
      )}
      {!small && (
        <Button icon="clock" op="jobs.change" disabledWhy={why.reschedule} onClick={() => setOpen("reschedule")}>
          Reschedule
        </Button>
      )}
      <Button icon="ban" op="jobs.change" disabledWhy={why.cancel} onClick={() => setOpen("cancel")}>
        Cancel
      </Button>
      {!small && <CopyMenu job={job} />}
      {open === "cancel" && <CancelDialog job={job} onClose={() => setOpen(null)} />}
      {open === "reschedule" && <RescheduleDialog job={job} onClose={() => setOpen(null)} />}
      {open === "edit" && <EditDialog job={job} onClose={() => setOpen(null)} />}
    </>
  );
}
