/** Retries or cancels many jobs: how many there are, then a question, then how far it is. */

import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { type Schema, act } from "@/api";
import { type Problem, asProblem } from "@/api/problem";
import { count } from "@/lib/format";
import { Button, Dialog, ErrorPanel, Input, Link, Notice, Progress, Spinner } from "@/ui";
import { whyNoCancel, whyNoRetry } from "./doable";

type Job = Pick<Schema<"JobSummary">, "id" | "task" | "state" | "cancel_requested_at">;
export type Action = "retry" | "cancel";

export interface Bulk {
  action: Action;
  /** These; */
  jobs?: Job[];
  /** or all that match. */
  filter?: Partial<Schema<"JobMatch">>;
  /** What they are, in words: "of this error". */
  words?: ReactNode;
}

interface Done {
  changed: number;
  skipped: number;
  failed: { id: string; problem: Problem }[];
}

type Phase = "counting" | "asking" | "working" | "done";
const AT_ONCE = 4;
const NONE: Done = { changed: 0, skipped: 0, failed: [] };

export function BulkDialog({ bulk, onClose }: { bulk: Bulk; onClose: () => void }) {
  const { action, filter } = bulk;
  const client = useQueryClient();
  const [phase, setPhase] = useState<Phase>(bulk.jobs ? "asking" : "counting");
  const [matched, setMatched] = useState<Schema<"Capped">>();
  const [problem, setProblem] = useState<Problem | null>(null);
  const [reason, setReason] = useState("");
  const [done, setDone] = useState<Done>(NONE);
  const stopped = useRef(false);
  const place = useRef<Place>({ cursor: null, left: null });

  const whyNot = action === "retry" ? whyNoRetry : whyNoCancel;
  const able = (bulk.jobs ?? []).filter((job) => whyNot(job) === null);
  const unable = (bulk.jobs?.length ?? 0) - able.length;
  const total = bulk.jobs ? { count: able.length, capped: false, estimated: false } : matched;

  useEffect(() => {
    if (bulk.jobs || phase !== "counting") return;
    const abort = new AbortController();
    setProblem(null);
    act("post", "/api/admin/jobs/bulk", { body: { action, filter: filter as Schema<"JobMatch">, dry_run: true }, signal: abort.signal }).then(
      (answer) => {
        setMatched(answer.matched ?? { count: 0, capped: false, estimated: false });
        setPhase("asking");
      },
      (error: unknown) => {
        if (abort.signal.aborted) return;
        setProblem(asProblem(error));
        setPhase("asking");
      },
    );
    return () => abort.abort();
  }, [bulk.jobs, phase, action, filter]);
  useEffect(() => () => void (stopped.current = true), []);

  const work = async () => {
    stopped.current = false;
    setPhase("working");
    setProblem(null);
    try {
      const sum = (change: Partial<Done>) => setDone((so) => ({ changed: so.changed + (change.changed ?? 0), skipped: so.skipped + (change.skipped ?? 0), failed: [...so.failed, ...(change.failed ?? [])] }));
      place.current.left ??= able;
      await (bulk.jobs ? each(place.current.left, action, reason, stopped, sum) : all(filter!, action, reason, stopped, sum, place.current));
    } catch (error) {
      setProblem(asProblem(error));
    }
    setPhase("done");
    void client.invalidateQueries();
  };
  const close = () => {
    if (phase === "working") stopped.current = true;
    else onClose();
  };

  const word = action === "retry" ? "Retry" : "Cancel";
  const said = total && (total.capped ? `more than ${count(total.count)}` : count(total.count));
  const noun = total?.count === 1 && !total.capped ? "job" : "jobs";
  const nothing = total !== undefined && total.count === 0;
  return (
    <Dialog
      title={`${word} jobs`}
      width="sm"
      asks={phase === "asking"}
      onClose={close}
      onSubmit={() => phase === "asking" && total && !nothing && void work()}
      footer={
        phase === "working" ? (
          <Button icon="stop" onClick={() => (stopped.current = true)}>
            Stop
          </Button>
        ) : phase === "done" ? (
          <Button look="primary" onClick={onClose} data-autofocus>
            Close
          </Button>
        ) : (
          <>
            <Button onClick={onClose}>{action === "cancel" ? "Leave them" : "Cancel"}</Button>
            <Button type="submit" look={action === "cancel" ? "danger" : "primary"} disabledWhy={!total ? "They are being counted" : nothing && "There is none"}>
              {total && !nothing ? `${word} ${said} ${noun}` : word}
            </Button>
          </>
        )
      }
    >
      <div className="flex flex-col gap-3" aria-live="polite">
        {phase === "counting" && (
          <p className="flex items-center gap-2 text-muted">
            <Spinner /> Counting the jobs…
          </p>
        )}
        {phase === "asking" && total && (
          <>
            {nothing ? (
              <p>{bulk.jobs ? `None of these can be ${action === "retry" ? "retried" : "canceled"}.` : `No job matches that can be ${action === "retry" ? "retried" : "canceled"}.`}</p>
            ) : (
              <p>
                <strong className="font-semibold">
                  {said} {noun}
                </strong>{" "}
                {bulk.words}{" "}
                {action === "retry" ? "will be put back in the queue, with their history." : "will end. Those that run are asked to stop."}
              </p>
            )}
            {unable > 0 && <Notice tone="warn">{`${count(unable)} of those selected cannot be ${action === "retry" ? "retried" : "canceled"} and ${unable === 1 ? "is" : "are"} left as ${unable === 1 ? "it is" : "they are"}.`}</Notice>}
            {action === "cancel" && !nothing && <Input label="Reason" hint="For whoever wonders later." value={reason} onChange={setReason} maxLength={500} />}
          </>
        )}
        {phase === "working" && (
          <>
            <Progress done={done.changed + done.skipped + done.failed.length} of={total?.capped ? null : total?.count} label={`${word} jobs`} />
            <p className="text-muted">
              {count(done.changed + done.skipped + done.failed.length)} of {said}…
            </p>
          </>
        )}
        {phase === "done" && <Summary action={action} done={done} stopped={stopped.current} broken={problem !== null} />}
        {problem && (
          <ErrorPanel
            problem={problem}
            compact
            onRetry={() => {
              if (matched || bulk.jobs) return void work();
              setPhase("counting");
            }}
          />
        )}
      </div>
    </Dialog>
  );
}

function Summary({ action, done, stopped, broken }: { action: Action; done: Done; stopped: boolean; broken: boolean }) {
  const word = action === "retry" ? "retried" : "canceled";
  return (
    <>
      <p>
        <strong className="font-semibold">
          {count(done.changed)} {done.changed === 1 ? "job was" : "jobs were"} {word}.
        </strong>{" "}
        {done.skipped > 0 && `${count(done.skipped)} ${done.skipped === 1 ? "was" : "were"} left: locked, moved on meanwhile, or replaced by a newer job. `}
        {stopped && "It was stopped before the end."}
        {broken && "It broke off before the end; to go on does no harm."}
      </p>
      {done.failed.length > 0 && (
        <Notice tone="bad">
          <p>{done.failed.length === 1 ? "One was refused:" : `${count(done.failed.length)} were refused:`}</p>
          <ul className="mt-1 flex flex-col gap-1">
            {done.failed.slice(0, 10).map(({ id, problem }) => (
              <li key={id}>
                <Link href={`/jobs/${id}`} className="font-mono text-xs">
                  {id.slice(-8)}
                </Link>{" "}
                {problem.message}
              </li>
            ))}
            {done.failed.length > 10 && <li>and {count(done.failed.length - 10)} more</li>}
          </ul>
        </Notice>
      )}
    </>
  );
}

type Sum = (change: Partial<Done>) => void;
type Flag = { current: boolean };
/** Where to go on after an error. */
type Place = { cursor: string | null; left: Job[] | null };

/** Every job that matches: a request works for a second or two and says where the next one goes on. */
async function all(filter: Partial<Schema<"JobMatch">>, action: Action, reason: string, stopped: Flag, sum: Sum, place: Place): Promise<void> {
  do {
    const body: Schema<"BulkBody"> = { action, filter: filter as Schema<"JobMatch">, dry_run: false, cursor: place.cursor, reason: reason || null };
    const answer = await act("post", "/api/admin/jobs/bulk", { body });
    sum({ changed: answer.changed, skipped: answer.skipped });
    place.cursor = answer.next;
  } while (place.cursor !== null && !stopped.current);
}

/** The jobs that were chosen, a few at a time; those that are done are taken out of `left`. */
async function each(left: Job[], action: Action, reason: string, stopped: Flag, sum: Sum): Promise<void> {
  let broken: Problem | null = null;
  const turn = async () => {
    while (left.length > 0 && !stopped.current && !broken) {
      const job = left.shift()!;
      try {
        if (action === "retry") await act("post", "/api/admin/jobs/{id}/retry", { path: { id: job.id } });
        else await act("post", "/api/admin/jobs/{id}/cancel", { path: { id: job.id }, body: { reason: reason || null } });
        sum({ changed: 1 });
      } catch (error) {
        const problem = asProblem(error);
        // What concerns all of them ends it; what concerns one is said of that one.
        if (problem.offline || problem.status === 401 || problem.status === 403 || problem.status === 429 || problem.status >= 500) {
          left.unshift(job);
          broken = problem;
        } else sum({ failed: [{ id: job.id, problem }] });
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, turn));
  if (broken) throw broken as Problem;
}
