"""What a worker holds: claimed jobs that wait for a slot, and those that run."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from time import monotonic

from rota.model.run import Run


class Holdings:
    """The meeting point of the claimer, which adds, and the slots, which take."""

    def __init__(self) -> None:
        self.held: dict[str, Run] = {}  # every claimed job until its end is recorded, by id: what the heartbeat renews
        self.unstarted: deque[Run] = deque()
        self.low_water = 0  # with no more than this left unstarted there is room for a claim
        self.room = asyncio.Event()
        self._sleepers: deque[asyncio.Future[None]] = deque()

    @property
    def idle_slots(self) -> int:
        return len(self._sleepers)

    def add(self, runs: Sequence[Run]) -> None:
        """Takes in claimed jobs and wakes as many slots as have something to do now."""
        now = monotonic()
        for run in runs:
            run.arrived = now
            self.held[run.id] = run
        self.unstarted.extend(runs)
        for _ in range(min(len(runs), len(self._sleepers))):
            sleeper = self._sleepers.popleft()
            if not sleeper.done():
                sleeper.set_result(None)

    def take(self) -> Run | None:
        """The next job to start, if there is one."""
        if not self.unstarted:
            return None
        run = self.unstarted.popleft()
        if len(self.unstarted) <= self.low_water:
            self.room.set()
        return run

    async def sleep(self) -> None:
        """Waits until there may be something to take."""
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        self.room.set()
        try:
            await sleeper
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    def take_unstarted(self) -> list[Run]:
        """Everything that has not been started, to be given back."""
        runs = list(self.unstarted)
        self.unstarted.clear()
        for run in runs:
            self.held.pop(run.id, None)
        return runs

    def withdraw(self, run: Run) -> bool:
        """Takes a job back out if it has not been started; says whether that was so."""
        if run not in self.unstarted:
            return False
        self.unstarted.remove(run)
        del self.held[run.id]
        self.room.set()
        return True

    def drop(self, run: Run) -> None:
        """The end of this run is recorded, or is no longer ours to record."""
        if self.held.get(run.id) is run:
            del self.held[run.id]
