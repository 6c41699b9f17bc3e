/** Where a job comes from and what comes after it: origin, parents, children, edits, and who did what to it. */

import { useState } from "react";
import { type AnswerOf, type Schema, useApi, usePages } from "@/api";
import { useRights } from "@/lib/rights";
import { Button, Diff, ErrorPanel, Id, Link, Section, Skeleton, StateBadge, Time } from "@/ui";
import { concealBoth } from "./secrets";
import { Sentence } from "./why";

type LineageAnswer = AnswerOf<"get", "/api/admin/jobs/{id}/lineage">;
type Relatives = LineageAnswer["parents"];
type Relative = Relatives["items"][number];

export function Lineage({ job }: { job: Schema<"JobRecord"> }) {
  const lineage = useApi("/api/admin/jobs/{id}/lineage", { path: { id: job.id } });
  const { can } = useRights();
  if (lineage.error && !lineage.data) return <ErrorPanel problem={lineage.error} onRetry={() => void lineage.refetch()} />;
  if (!lineage.data) return <Skeleton lines={5} />;
  const { origin, parents, children, edits } = lineage.data;
  return (
    <div className="flex flex-col gap-5">
      <div className="flex flex-col gap-1">
        <p className="wrap-anywhere">
          <Sentence text={origin.sentence} />
        </p>
        {origin.schedule && (
          <p>
            {origin.schedule.name !== null ? (
              <Link href={`/schedules?show=${encodeURIComponent(origin.schedule.name)}`}>Schedule {origin.schedule.name}</Link>
            ) : (
              <span className="text-muted">The schedule is gone.</span>
            )}
            {origin.scheduled_for && (
              <span className="text-muted">
                {" "}
                for <Time at={origin.scheduled_for} absolute />
              </span>
            )}
          </p>
        )}
      </div>
      <RelativeSection title="Parents" none="It waited for no other job." first={parents} path="/api/admin/jobs/{id}/parents" id={job.id} />
      <RelativeSection title="Children" none="No job waits for it." first={children} path="/api/admin/jobs/{id}/children" id={job.id} />
      <Edits edits={edits} payload={job.payload} />
      {can("audit.read") && <Audit id={job.id} />}
    </div>
  );
}

type Side = "/api/admin/jobs/{id}/parents" | "/api/admin/jobs/{id}/children";

function RelativeSection({ title, none, first, path, id }: { title: string; none: string; first: Relatives; path: Side; id: string }) {
  const [whole, setWhole] = useState(false);
  const pages = usePages(path, { path: { id } }, { enabled: whole });
  const rows: readonly Relative[] = whole && pages.rows.length > 0 ? pages.rows : first.items;
  const more = whole ? pages.hasMore : first.next !== null;
  return (
    <Section title={title}>
      {rows.length === 0 ? (
        <p className="text-muted">{none}</p>
      ) : (
        <ul className="flex flex-col">
          {rows.map((each) => (
            <li key={each.id} className="flex min-h-8 flex-wrap items-center gap-3 border-b py-1">
              {each.state === null ? (
                <>
                  <span className="text-muted" title="Its history has been removed">
                    pruned
                  </span>
                  <Id id={each.id} />
                </>
              ) : (
                <>
                  <StateBadge state={each.state} />
                  <Link href={`/jobs/${each.id}`} className="wrap-anywhere">
                    {each.task ?? "unknown task"}
                  </Link>
                  <Id id={each.id} />
                </>
              )}
            </li>
          ))}
        </ul>
      )}
      {whole && pages.error && <ErrorPanel problem={pages.error} compact onRetry={pages.refetch} />}
      {more && (
        <Button small look="quiet" busy={whole && pages.fetching} onClick={() => (whole ? pages.loadMore() : setWhole(true))}>
          Show more
        </Button>
      )}
    </Section>
  );
}

function Edits({ edits, payload }: { edits: Schema<"Edit">[]; payload: Record<string, unknown> }) {
  if (edits.length === 0) return null;
  return (
    <Section title="Edits of the payload">
      <ol className="flex flex-col gap-4">
        {/* The newest first; each holds what the payload was before it. */}
        {edits.map((edit, index) => {
          const [before, after] = concealBoth(edit.payload, index === 0 ? payload : edits[index - 1]!.payload);
          const who = edit.edited_by.user;
          return (
            <li key={edit.edited_at} className="flex flex-col gap-2">
              <p className="text-muted">
                <Time at={edit.edited_at} /> by <strong className="font-medium text-text wrap-anywhere">{typeof who === "string" ? who : "somebody"}</strong>, after {edit.attempt === 1 ? "1 attempt" : `${edit.attempt} attempts`}
              </p>
              <Diff before={before} after={after} label={`Edit ${edits.length - index}`} />
            </li>
          );
        })}
      </ol>
    </Section>
  );
}

function Audit({ id }: { id: string }) {
  const found = usePages("/api/admin/audit", { query: { target: id, limit: 20 } }, { live: ["jobs"] });
  if (found.loading) return null;
  return (
    <Section title="Who changed it">
      {found.error && found.rows.length === 0 ? (
        <ErrorPanel problem={found.error} compact onRetry={found.refetch} />
      ) : found.rows.length === 0 ? (
        <p className="text-muted">Nobody.</p>
      ) : (
        <ul className="flex flex-col">
          {found.rows.map((line) => (
            <li key={line.id} className="flex flex-wrap items-center gap-x-3 gap-y-0.5 border-b py-1.5">
              <span className="font-medium">{line.operation}</span>
              <span className="wrap-anywhere">{line.actor}</span>
              {typeof line.detail.reason === "string" && <span className="wrap-anywhere text-muted">“{line.detail.reason}”</span>}
              <span className="ml-auto text-xs text-muted">
                <Time at={line.at} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}

