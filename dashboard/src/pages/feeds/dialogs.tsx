/** Subscribes to one feed, or to all of a list. */

import { useState } from "react";
import { useAct, useApi } from "@/api";
import { bytes } from "@/lib/format";
import { Button, Dialog, ErrorPanel, Field, Input, Link, Notice, Progress, StateBadge } from "@/ui";

function wrongUrl(text: string): string | undefined {
  try {
    return /^https?:$/.test(new URL(text.trim()).protocol) ? undefined : "an address that begins with https:// or http://";
  } catch {
    return "an address such as https://example.org/feed.xml";
  }
}

export function SubscribeDialog({ onClose }: { onClose: () => void }) {
  const [url, setUrl] = useState("");
  const [who, setWho] = useState("");
  const add = useAct("post", "/api/admin/feeds", { done: (answer) => (answer.subscribed ? (answer.created ? "Subscribed; it is fetched soon" : "Subscribed") : "They were subscribed already"), toastErrors: false });
  const wrong = url === "" ? undefined : wrongUrl(url);
  const stopped = url === "" ? "Give an address first" : wrong;
  return (
    <Dialog
      title="Subscribe to a feed"
      width="sm"
      onClose={onClose}
      onSubmit={() => !stopped && add.mutate({ body: { url: url.trim(), subscriber: who.trim() || null } }, { onSuccess: onClose })}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" op="schedules.change" busy={add.isPending} disabledWhy={stopped}>
            Subscribe
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <Input label="Address" type="url" required placeholder="https://example.org/feed.xml" value={url} onChange={setUrl} error={wrong ?? add.error?.field("url")} data-autofocus />
        <Input label="Reader" hint="Nothing: you." value={who} onChange={setWho} error={add.error?.field("subscriber")} />
        {add.error && add.error.errors.length === 0 && <ErrorPanel problem={add.error} compact />}
      </div>
    </Dialog>
  );
}

/** A list of feeds, as feed readers export them; a job subscribes to them, and its progress is shown. */
export function ImportDialog({ onClose }: { onClose: () => void }) {
  const [file, setFile] = useState<File | null>(null);
  const take = useAct("post", "/api/admin/feeds/import", { toastErrors: false });
  const submit = async () => {
    if (file && !take.isPending) take.mutate({ body: { opml: await file.text() } });
  };
  const taken = take.data;
  return (
    <Dialog
      title="Import a list of feeds"
      width="sm"
      asks={!taken}
      onClose={onClose}
      onSubmit={() => void submit()}
      footer={
        taken ? (
          <Button onClick={onClose}>Close</Button>
        ) : (
          <>
            <Button onClick={onClose}>Cancel</Button>
            <Button type="submit" look="primary" op="schedules.change" busy={take.isPending} disabledWhy={!file && "Choose a file first"}>
              Import
            </Button>
          </>
        )
      }
    >
      {taken ? (
        <div className="flex flex-col gap-3">
          <ImportProgress id={taken.job_id} feeds={taken.feeds} />
          {taken.refused.length > 0 && (
            <Notice tone="warn">
              <p>{taken.refused.length} cannot be subscribed to:</p>
              <ul className="max-h-40 overflow-y-auto text-xs">
                {taken.refused.map((each) => (
                  <li key={each.url}>
                    <code className="font-mono">{each.url}</code>: {each.reason}
                  </li>
                ))}
              </ul>
            </Notice>
          )}
        </div>
      ) : (
        <div className="flex flex-col gap-3">
          <Field label="OPML file" hint={file ? `${file.name}, ${bytes(file.size)}` : "As feed readers export it."} error={take.error?.field("opml")}>
            {(ids) => <input {...ids} type="file" accept=".opml,.xml,text/xml,text/x-opml" data-autofocus onChange={(event) => setFile(event.target.files?.[0] ?? null)} className="text-sm" />}
          </Field>
          {take.error && take.error.errors.length === 0 && <ErrorPanel problem={take.error} compact />}
        </div>
      )}
    </Dialog>
  );
}

function ImportProgress({ id, feeds }: { id: string; feeds: number }) {
  const found = useApi("/api/admin/jobs/{id}", { path: { id } }, { everyMs: 2_000, keep: false });
  const job = found.data?.job;
  const progress = job?.progress as { done?: number; total?: number | null; message?: string | null } | null | undefined;
  const over = job && ["completed", "failed", "canceled"].includes(job.state);
  return (
    <div className="flex flex-col gap-2">
      <p className="flex items-center gap-2">
        {job && <StateBadge state={job.state} />}
        <span>
          {feeds} {feeds === 1 ? "feed" : "feeds"} in the list. <Link href={`/jobs/${id}`}>The job</Link>
        </span>
      </p>
      <Progress label="Import" done={over ? feeds : (progress?.done ?? 0)} of={job ? (progress?.total ?? feeds) : null} />
      {progress?.message && <p className="text-xs wrap-anywhere text-muted">{progress.message}</p>}
    </div>
  );
}
