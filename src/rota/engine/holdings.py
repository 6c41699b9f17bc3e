"""What a worker holds: claimed jobs that wait for a slot, and those that run."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from time import monotonic

from rota.engine.lanes import Lane
from rota.model.run import Run

MANY = 8  # jobs in the further slots of a task


class Holdings:
    """The meeting point of the claimer, which adds, and the slots, which take."""

    def __init__(self, lanes: Mapping[str, Lane] | None = None) -> None:
        self.lanes = lanes or {}  # by task
        self.held: dict[str, Run] = {}  # every claimed job until its end is recorded, by id: what the heartbeat renews
        self.unstarted: deque[Run] = deque()
        self.low_water = 0  # with no more than this left unstarted there is room for a claim
        self.room = asyncio.Event()
        self._sleepers: deque[asyncio.Future[None]] = deque()

    @property
    def idle_slots(self) -> int:
        return len(self._sleepers)

    def add(self, runs: Sequence[Run]) -> int:
        """Takes in claimed jobs and wakes as many slots as have something to do now; how many go beside the worker's own slots."""
        now = monotonic()
        for run in runs:
            run.arrived = now
            self.held[run.id] = run
        waiting = self._not_aside(runs) if self.lanes else runs
        self._start(waiting)
        return len(runs) - len(waiting)

    def _start(self, runs: Sequence[Run]) -> None:
        self.unstarted.extend(runs)
        for _ in range(min(len(runs), len(self._sleepers))):
            sleeper = self._sleepers.popleft()
            if not sleeper.done():
                sleeper.set_result(None)

    def give_aside(self, run: Run) -> bool:
        """Starts a job in one of its task's further slots; says whether one was free."""
        lane = self.lanes.get(run.task)
        return lane is not None and lane.give(run)

    def _not_aside(self, runs: Sequence[Run]) -> list[Run]:
        """Those that are neither started nor kept for further slots; nothing is kept that one of the worker's own could start."""
        waiting: list[Run] = []
        idle = self.idle_slots - len(self.unstarted)
        for run in runs:
            lane = self.lanes.get(run.task)
            if lane is None or not (lane.give(run) or (len(waiting) >= idle and lane.keep(run))):
                waiting.append(run)
        return waiting

    def take_from_aside(self, queue: str, at_most: int) -> int:
        """Starts jobs in the worker's own slots that wait for further ones: no claim has to be made for them; says how many."""
        taken: list[Run] = []
        for lane in self.lanes.values():
            if lane.queue == queue:
                while lane.waiting and len(taken) < at_most:
                    taken.append(lane.waiting.popleft())
        self._start(taken)
        return len(taken)

    @property
    def has_more(self) -> bool:
        """Whether other jobs will end in a moment: those that wait to be started, or a good many in further slots."""
        return bool(self.unstarted) or any(lane.busy >= MANY for lane in self.lanes.values())

    def room_aside(self, ahead_s: float, at_most: int) -> dict[str, int]:
        """How many jobs to claim for further slots, by the queue that they come from; those without any are left out."""
        room: dict[str, int] = {}
        for lane in self.lanes.values():
            if lane.queue is not None and (count := lane.room(ahead_s, at_most)) > 0:
                room[lane.queue] = room.get(lane.queue, 0) + count
        return room

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

    def take_unstarted(self, waited_s: float = 0.0) -> list[Run]:
        """What has not been started, to be given back: of each kind of slots, if the first for them has waited so long."""
        since = monotonic() - waited_s
        runs: list[Run] = []
        for waiting in self._waiting():
            if waiting and waiting[0].arrived <= since:
                runs += waiting
                waiting.clear()
        for run in runs:
            self.held.pop(run.id, None)
        return runs

    def withdraw(self, run: Run) -> bool:
        """Takes a job back out if it has not been started; says whether that was so."""
        for waiting in self._waiting():
            if run in waiting:
                waiting.remove(run)
                del self.held[run.id]
                self.room.set()
                return True
        return False

    def _waiting(self) -> list[deque[Run]]:
        return [self.unstarted, *(lane.waiting for lane in self.lanes.values())]

    def drop(self, run: Run) -> None:
        """The end of this run is recorded, or is no longer ours to record."""
        if self.held.get(run.id) is run:
            del self.held[run.id]
