"""Further slots of a task, whose handler waits most of the time: its jobs run beside the worker's other ones.

Where such tasks have a queue to themselves, their jobs are claimed for these slots as well, however busy the others are. Where
not, they are claimed like all others, or else the worker would fill up with jobs that have no place, and keep them from other
workers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection

from rota.engine.executor import Slot
from rota.model.run import Run
from rota.model.task import TaskSpec


class Lane:
    """The further slots of one task, and the queue that is for such jobs only."""

    def __init__(self, count: int, queue: str | None = None) -> None:
        self.slots = [Slot() for _ in range(count)]
        self.queue = queue
        self._free: deque[tuple[Slot, asyncio.Future[None]]] = deque()

    @property
    def free(self) -> int:
        """How many jobs it could take."""
        return len(self._free)

    @property
    def busy(self) -> int:
        """How many jobs it has."""
        return len(self.slots) - len(self._free)

    async def turn(self, slot: Slot) -> None:
        """Waits until the slot is given a job."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._free.append((slot, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if (slot, turn) in self._free:
                self._free.remove((slot, turn))
            raise

    def give(self, run: Run) -> bool:
        """Hands a job to a free slot; says whether there was one."""
        if not self._free:
            return False
        slot, turn = self._free.pop()  # the one that was busy last: the fewer are used, the fewer are looked at
        slot.run = run
        turn.set_result(None)
        return True


def lanes_of(tasks: Collection[TaskSpec]) -> dict[str, Lane]:
    """The lanes of those tasks that have any."""
    shared = {task.queue for task in tasks if not task.slots}
    return {task.name: Lane(task.slots, None if task.queue in shared else task.queue) for task in tasks if task.slots}
