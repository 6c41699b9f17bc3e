"""The fixed set of coroutines that take claimed jobs and run them."""

from __future__ import annotations

import asyncio
from time import monotonic

from rota.engine.completer import Completer
from rota.engine.executor import Executor, Slot
from rota.engine.holdings import Holdings
from rota.engine.lanes import Lane
from rota.events import Events, ThreadStuck
from rota.model.run import Run

TICK_S = 0.05  # how exactly timeouts are kept
YIELD_S = 0.001  # handlers that never wait may hold the event loop this long in a row
_WEIGHT = 0.05  # of the newest run in the average that claim-ahead goes by


class Slots:
    """N slots, each running one job at a time; their jobs' timeouts are checked together, on a coarse tick."""

    def __init__(self, count: int, holdings: Holdings, executor: Executor, completer: Completer, events: Events) -> None:
        self._main = [Slot() for _ in range(count)]
        self._lanes = list(holdings.lanes.values())
        self.all = [*self._main, *(slot for lane in self._lanes for slot in lane.slots)]
        self.average_s: float | None = None  # how long a job takes
        self._holdings = holdings
        self._executor = executor
        self._completer = completer
        self._events = events
        self._closed = False

    def start(self) -> list[asyncio.Task[None]]:
        """Starts the slots' coroutines."""
        work = [(slot, self._work(slot)) for slot in self._main]
        work += [(slot, self._work_aside(slot, lane)) for lane in self._lanes for slot in lane.slots]
        tasks = []
        for number, (slot, coroutine) in enumerate(work):
            slot.task = asyncio.create_task(coroutine, name=f"rota-slot-{number}")
            tasks.append(slot.task)
        return tasks

    @property
    def running(self) -> list[Slot]:
        return [slot for slot in self.all if slot.run is not None]

    @property
    def pace_s(self) -> float | None:
        """How long a slot is taken by a job: on average, or for as long as none has become free now."""
        if self.average_s is None:
            return None
        now = monotonic()
        return max(self.average_s, min(0.0 if slot.run is None else now - slot.run.started for slot in self._main))

    async def _work(self, slot: Slot) -> None:
        holdings, execute, completer = self._holdings, self._executor.execute, self._completer
        yielded = 0.0
        while not self._closed:
            run = holdings.take()
            if run is None:
                await holdings.sleep()
                continue
            if holdings.lanes and holdings.give_aside(run):
                continue
            slot.run = run
            await execute(slot, run)
            slot.run = None
            self.average_s = _averaged(self.average_s, run)
            completer.add(run)
            if slot.thread is not None:
                await self._wait_for_thread(slot, run)
            elif run.started - yielded > YIELD_S:
                await asyncio.sleep(0)
                yielded = monotonic()

    async def _work_aside(self, slot: Slot, lane: Lane) -> None:
        while not self._closed:
            try:
                await lane.turn(slot)
            except asyncio.CancelledError:
                if slot.run is None or slot.closing or slot.task is None:
                    raise
                # It was told to stop after it was given the job and before it had begun.
                slot.task.uncancel()
                self._executor.settle_unstarted(slot.run)
            run = slot.run
            assert run is not None
            if run.outcome is None and run.state is None:
                await self._executor.execute(slot, run)
                lane.average_s = _averaged(lane.average_s, run)
            slot.run = None
            self._completer.add(run)
            if lane.has_room:
                self._holdings.room.set()
            # Most handlers here wait: that one of these slots has had its turn lately shows that all others have.
            if run.started - lane.yielded > YIELD_S:
                await asyncio.sleep(0)
                lane.yielded = monotonic()

    async def _wait_for_thread(self, slot: Slot, run: Run) -> None:
        thread, slot.thread = slot.thread, None
        if thread is None:
            return
        if not thread.done():
            self._events.emit(ThreadStuck(run))
            await asyncio.wait({thread})
        if not thread.cancelled():
            thread.exception()  # of a run that ended without its thread: asyncio complains of those that nobody looks at

    async def tick(self) -> None:
        """Interrupts what has exceeded its timeout, for as long as the worker lives."""
        while True:
            await asyncio.sleep(TICK_S)
            now = monotonic()
            for slot in self.all:
                if slot.deadline and now >= slot.deadline:
                    slot.deadline = 0.0
                    self._executor.interrupt(slot, "timeout")

    def interrupt(self, job_id: str, reason: str) -> None:
        """Tells the handler of this job to stop, if it runs here."""
        for slot in self.all:
            if slot.run is not None and slot.run.id == job_id:
                self._executor.interrupt(slot, reason)

    async def interrupt_all(self, reason: str, patience_s: float) -> None:
        """Tells every handler to stop and gives them a moment to clean up."""
        for slot in self.running:
            self._executor.interrupt(slot, reason)
        deadline = monotonic() + patience_s
        while self.running and monotonic() < deadline:
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        """Ends the coroutines; threads that still run are left behind."""
        self._closed = True  # for those whose handler swallows the cancellation
        for slot in self.all:
            slot.closing = True
        tasks = [slot.task for slot in self.all if slot.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:  # none when the worker was stopped before it had begun
            await asyncio.wait(tasks, timeout=1)


def _averaged(average_s: float | None, run: Run) -> float:
    return run.took_s if average_s is None else average_s + _WEIGHT * (run.took_s - average_s)
