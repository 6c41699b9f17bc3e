"""Further slots of a task, whose handler waits most of the time: its jobs run beside the worker's other ones.

Where such tasks have a queue to themselves, their jobs are claimed for these slots as well, however busy the others are, and a
little ahead when they are quick. Where not, they are claimed like all others, or else the worker would fill up with jobs that
have no place, and keep them from other workers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from time import monotonic

from rota.engine.executor import Slot
from rota.model.run import Run
from rota.model.task import TaskSpec


class Lane:
    """The further slots of one task, and the queue that is for such jobs only."""

    def __init__(self, count: int, queue: str | None = None) -> None:
        self.slots = [Slot() for _ in range(count)]
        self.queue = queue
        self.waiting: deque[Run] = deque()  # claimed ahead, for the next slots that become free
        self.average_s: float | None = None  # how long a job takes
        self.yielded = 0.0  # when one of its slots last let others have a turn between two jobs
        self._ahead = 0
        self._free: deque[tuple[Slot, asyncio.Future[None]]] = deque()

    @property
    def free(self) -> int:
        """How many jobs it could take."""
        return len(self._free)

    @property
    def busy(self) -> int:
        """How many jobs it has."""
        return len(self.slots) - len(self._free)

    def room(self, ahead_s: float, at_most: int) -> int:
        """How many jobs to claim for it now: what can start, and what will have started in so many seconds."""
        self._ahead = min(int(len(self.slots) * ahead_s / self._pace_s(self.average_s)), at_most) if self.average_s else 0
        return self.free + self._ahead - len(self.waiting) if self.has_room else 0

    @property
    def has_room(self) -> bool:
        """Whether so few are left of what was claimed ahead that it is time for more."""
        return len(self.waiting) <= self._ahead * 3 // 4

    def _pace_s(self, average_s: float) -> float:
        """How long a slot is taken by a job: on average, or for as long as none has become free now."""
        now = monotonic()
        return max(average_s, min(0.0 if slot.run is None else now - slot.run.started for slot in self.slots))

    async def turn(self, slot: Slot) -> None:
        """Waits until the slot is given a job."""
        if self.waiting:
            slot.run = self.waiting.popleft()
            return
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

    def keep(self, run: Run) -> bool:
        """Keeps a job until a slot is free; says whether that is what it was claimed for."""
        if len(self.waiting) >= self._ahead:
            return False
        self.waiting.append(run)
        return True


def lanes_of(tasks: Collection[TaskSpec]) -> dict[str, Lane]:
    """The lanes of those tasks that have any."""
    shared = {task.queue for task in tasks if not task.slots}
    return {task.name: Lane(task.slots, None if task.queue in shared else task.queue) for task in tasks if task.slots}
