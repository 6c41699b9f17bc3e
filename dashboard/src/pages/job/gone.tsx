/** A job that is not there. */

import { Empty, Id, LinkButton } from "@/ui";

export function Gone({ id }: { id: string }) {
  return (
    <Empty title="This job is not there" icon="jobs" action={<LinkButton href="/jobs">All jobs</LinkButton>}>
      <p>
        There is no job <Id id={id} whole />. It may have been pruned: history is kept for some weeks, and then removed.
      </p>
    </Empty>
  );
}
