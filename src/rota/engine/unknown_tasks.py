"""Jobs of tasks that no live worker knows: set aside, taken back when one does, failed when they have waited too long."""

from __future__ import annotations

from difflib import get_close_matches
from time import monotonic
from typing import Any

from rota.engine.holdings import Holdings
from rota.engine.options import WorkerOptions
from rota.engine.transport import Session
from rota.events import Events, UnknownFailed

BUDGET_S = 0.2  # for jobs that are moved at one time: rescue and cancel wait meanwhile
BATCHES = 20  # of jobs that fail at one time
NEAREST = 3
COST = 20  # looking at the head of the queues may take one part in this of the time
LOOK_S = 0.5


class UnknownTasks:
    """A worker's care for the jobs that it, or no worker at all, can run.

    A claim takes only tasks that its worker knows, so every claim reads past jobs of other tasks at the head of a queue. Those that
    no live worker knows are moved out of the way; those that another worker knows stay, for that worker to claim.
    """

    def __init__(self, options: WorkerOptions, holdings: Holdings, events: Events) -> None:
        self._options = options
        self._holdings = holdings
        self._events = events
        self._look_at = 0.0

    async def set_aside(self, session: Session) -> None:
        """Move jobs that no claim takes out of the way of claims: of disabled tasks, and of unknown ones."""
        if (started := monotonic()) < self._look_at:
            return
        for queue in self._options.queues:
            while await session.set_aside(queue):
                if monotonic() - started > BUDGET_S:
                    break
        # Reading the head of a queue takes long while an old snapshot keeps dead index entries there.
        self._look_at = monotonic() + (monotonic() - started) * COST - LOOK_S

    async def take_back(self, session: Session) -> None:
        """Put jobs that were set aside back in line if this worker can run them."""
        started, free = monotonic(), max(self._holdings.idle_slots - len(self._holdings.unstarted), 0)
        while await session.take_back(self._options.queues, free=free) and monotonic() - started < BUDGET_S:
            free = 0

    async def fail_overdue(self, session: Session) -> None:
        """Fail jobs that no worker has known for `unknown_task_after`."""
        patience_s = self._options.unknown_task_after_s
        for overdue in await session.overdue_unknown(patience_s):
            queue, task = overdue[:2]
            error = unknown_error(task, await session.task_names(), patience_s)
            failed = 0
            for _ in range(BATCHES):
                count = await session.fail_unknown(overdue, error)
                failed += count
                if not count:
                    break
            if failed:
                self._events.emit(UnknownFailed(task, queue, failed))


def unknown_error(task: str, known: list[str], patience_s: float) -> dict[str, Any]:
    """Return the structured error of a job whose task stayed unknown."""
    nearest = get_close_matches(task, known, n=NEAREST)
    hint = f"; the nearest known tasks are {', '.join(nearest)}" if nearest else ""
    waited = f"for {patience_s / 3600:g} h" if patience_s >= 3600 else f"for {patience_s:g} s"
    return {
        "type": "UnknownTask",
        "message": f"no live worker has known task {task!r}{f' {waited}' if patience_s else ''}{hint}",
        "task": task,
        "nearest": nearest,
    }
