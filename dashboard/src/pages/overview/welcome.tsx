/** The first look: nothing has run yet, or the demo runs. */

import { useMe } from "@/app/session";
import { useRights } from "@/lib/rights";
import { Empty, Link, LinkButton, Notice } from "@/ui";
import type { Overview } from "./health";

const LESSON = `from rota import Rota

app = Rota()


@app.task
def hello(name: str) -> str:
    return f"Hello, {name}!"


if __name__ == "__main__":
    hello.enqueue(name="world")`;

/** Teaches how the first job comes here; the page shows it as soon as it does. */
export function FirstJob({ overview }: { overview: Overview }) {
  const { can } = useRights();
  const alone = overview.workers?.live === 0;
  return (
    <Empty
      title="Nothing has run yet"
      icon="jobs"
      snippet={LESSON}
      waiting="waiting for the first job…"
      action={can("tasks.trigger") && can("tasks.read") ? <LinkButton href="/tasks">Run a task by hand</LinkButton> : undefined}
    >
      <p>
        Save this as <Code>app.py</Code>, start <Code>{alone ? "rota worker -a app" : "rota dev"}</Code> beside it, and run <Code>python app.py</Code>.
        {alone && " No worker is live now: a job would wait for one."}
      </p>
      <p>
        Or without Python: <Code>{`rota jobs enqueue hello '{"name": "world"}'`}</Code>
      </p>
    </Empty>
  );
}

function Code({ children }: { children: string }) {
  return <code className="rounded-sm bg-sunken px-1 font-mono text-xs wrap-anywhere">{children}</code>;
}

/** What `rota demo` calls its application. */
const DEMO = "rota-demo";

/** What one sees of `rota demo`, and where to go. */
export function DemoNote() {
  const { app } = useMe();
  if (app !== DEMO) return null;
  return (
    <Notice>
      <p>
        This is the demo: a small shop on two workers, whose jobs succeed, retry, time out, snooze and fan out, and whose schedules fire. Some fail on purpose: see <Link href="/errors" className="underline">what goes wrong</Link>, follow{" "}
        <Link href="/jobs?q=state:running" className="underline">a job</Link>, run <Link href="/tasks/send_receipt?run=1" className="underline">a task</Link> yourself, or kill a <Link href="/workers" className="underline">worker</Link> and watch its jobs move. <kbd className="font-mono">?</kbd> shows the keys.
      </p>
    </Notice>
  );
}
