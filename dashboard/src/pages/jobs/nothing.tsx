/** What stands where jobs would be: how they get here, and how one searches. */

import { Empty } from "@/ui";

const SNIPPET = `from rota import Rota

app = Rota()

@app.task
async def send_welcome(user_id: int) -> None:
    ...

send_welcome.enqueue(user_id=42)`;

export function NoJobs() {
  return (
    <Empty title="No jobs yet" icon="jobs" snippet={SNIPPET} waiting="waiting for the first job…">
      A job is a task&rsquo;s name and a payload. Code, SQL, the command line and schedules put jobs in; workers run them.
    </Empty>
  );
}

const EXAMPLES: [string, string][] = [
  ["state:failed,canceled", "in one of these states"],
  ["task:send_*", "of this task, or of those that fit the pattern"],
  ["queue:mail", "in this queue"],
  ["payload.user.id:42", "with this in the payload"],
  ["since:1h", "created in the last hour"],
  ["until:2026-02-22", "created before"],
  ["key:order-7", "with this idempotency key"],
  ['"connection reset"', "with this in the error"],
];

/** How to search, where the search could not be read. */
export function QueryHelp() {
  return (
    <Empty title="This search cannot be read" icon="search">
      <dl className="grid grid-cols-[max-content_1fr] gap-x-5 gap-y-1 text-left">
        {EXAMPLES.map(([example, words]) => (
          <div key={example} className="contents">
            <dt className="font-mono text-xs text-text">{example}</dt>
            <dd>{words}</dd>
          </div>
        ))}
      </dl>
    </Empty>
  );
}
