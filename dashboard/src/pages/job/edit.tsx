/** Edit and retry: the payload in a form, then what changes, then it is sent. */

import { useState } from "react";
import { type BodyOf, type Schema, useAct, useApi } from "@/api";
import { sameJson } from "@/lib/json";
import { Button, Dialog, Diff, ErrorPanel, type JsonSchema, Notice, SchemaForm, Skeleton } from "@/ui";
import { concealBoth } from "./secrets";

type Payload = Record<string, unknown>;

export function EditDialog({ job, onClose }: { job: Pick<Schema<"JobRecord">, "id" | "task" | "payload">; onClose: () => void }) {
  // As it was when the dialog was opened: what others do meanwhile is the server's to notice.
  const [before] = useState<Payload>(job.payload);
  const [payload, setPayload] = useState<Payload>(before);
  const [valid, setValid] = useState(true);
  const [review, setReview] = useState(false);
  const form = useApi("/api/admin/forms/{name}", { path: { name: job.task } }, { live: [] });
  const edit = useAct("post", "/api/admin/jobs/{id}/edit", {
    done: ({ dropped_secrets: dropped = [] }) =>
      dropped.length ? `Retried without ${dropped.join(", ")}: the URL has another origin` : "Retried with another payload",
    toastErrors: false,
  });
  const same = sameJson(before, payload);
  const formless = form.error !== null;

  const send = async () => {
    if (edit.isPending) return;
    if (!review) {
      if (valid && !same) setReview(true);
      return;
    }
    try {
      await edit.mutateAsync({ path: { id: job.id }, body: bodyOf(before, payload) });
      onClose();
    } catch {
      setReview(false); // to where it can be mended, with what the server said
    }
  };
  const [left, right] = concealBoth(before, payload);
  return (
    <Dialog
      title={review ? "What changes" : `Edit & retry ${job.task}`}
      width="lg"
      onClose={onClose}
      onSubmit={() => void send()}
      footer={
        review ? (
          <>
            <Button icon="left" onClick={() => setReview(false)}>
              Back
            </Button>
            <Button key="send" type="submit" look="primary" icon="retry" busy={edit.isPending}>
              Retry with this payload
            </Button>
          </>
        ) : (
          <>
            <Button onClick={onClose}>Leave it</Button>
            <Button key="review" type="submit" look="primary" disabledWhy={!valid ? "The payload cannot be read: mend it first" : same && "Nothing has changed: retry it as it is"}>
              Review the change
            </Button>
          </>
        )
      }
    >
      <div tabIndex={-1} data-autofocus className="flex flex-col gap-3 outline-none">
        {review ? (
          <>
            <p className="text-muted">The job runs again with this payload. What it was, and that you changed it, is kept.</p>
            <Diff before={left} after={right} label="Changes of the payload" />
          </>
        ) : form.isPending ? (
          <Skeleton lines={6} />
        ) : (
          <>
            {formless && <Notice tone="info">There is no form for this task here ({form.error.message}). The payload is edited as JSON.</Notice>}
            <SchemaForm schema={formless ? null : (form.data?.payload_schema as JsonSchema | undefined)} value={payload} onChange={setPayload} onValid={setValid} errors={edit.error?.errors} />
          </>
        )}
        {edit.error && !review && <ErrorPanel problem={edit.error} compact />}
      </div>
    </Dialog>
  );
}

/** The members that change; all of it where some are gone. So secrets that nobody has touched stay as they are stored. */
export function bodyOf(before: Payload, after: Payload): BodyOf<"post", "/api/admin/jobs/{id}/edit"> {
  if (Object.keys(before).some((name) => !Object.hasOwn(after, name))) return { payload: after };
  return { changes: Object.fromEntries(Object.entries(after).filter(([name, value]) => !Object.hasOwn(before, name) || !sameJson(before[name], value))) };
}
