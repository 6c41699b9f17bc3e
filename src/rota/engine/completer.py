"""Records how runs ended, in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from operator import attrgetter
from time import monotonic

from rota.engine.holdings import Holdings
from rota.engine.transport import Session
from rota.events import Events, RunLeaseLost, RunRefused, RunsFinished
from rota.model.run import Run

BATCH = 500
PATIENCE_S = 0.005
ANSWER_WITHIN_S = 20.0
LOCKED_AGAIN_S = 0.5  # until a run whose job is locked is tried again
_by_id = attrgetter("id")


class Completer:
    """Collects ended runs and writes them down; while one batch is on its way the next one grows."""

    name = "completer"

    def __init__(self, holdings: Holdings, events: Events) -> None:
        self.pending: list[Run] = []
        self._holdings = holdings
        self._events = events
        self._news = asyncio.Event()
        self._flushing: list[Run] = []
        self._locked: set[str] = set()  # jobs that were, when last looked
        self._waiting = 0  # runs of such jobs, until they are tried again

    def add(self, run: Run) -> None:
        """Takes in a run that has ended."""
        self.pending.append(run)
        if len(self.pending) == 1:
            self._news.set()

    @property
    def backlog(self) -> int:
        return len(self.pending) + len(self._flushing) + self._waiting

    async def drain(self, deadline: float) -> None:
        """Waits until everything is written down, or the deadline has passed."""
        while self.backlog and monotonic() < deadline:
            await asyncio.sleep(0.01)

    async def serve(self, session: Session) -> None:
        """Writes batches on this session until it breaks; what was not confirmed is written again on the next one."""
        while True:
            if not self._flushing:
                self._flushing = await self.take()
            with session.answer_within(ANSWER_WITHIN_S):
                await self.run_once(session, self._flushing)
            self._flushing = []
            self._holdings.room.set()  # a claimer that waited for us to catch up may go on

    async def take(self) -> list[Run]:
        """Waits until runs have ended and hands over the next batch of them."""
        if not self.pending:
            self._news.clear()
            await self._news.wait()
        # While quick jobs follow each other, a moment's patience makes one commit of many.
        patience = monotonic() + PATIENCE_S
        while len(self.pending) < BATCH and self._holdings.has_more and monotonic() < patience:
            await asyncio.sleep(0.001)
        batch, self.pending = self.pending[:BATCH], self.pending[BATCH:]
        return batch

    async def run_once(self, session: Session, batch: Sequence[Run]) -> None:
        """Records one batch and tells what became of it."""
        # In the order in which an enqueue locks parents: the other way round the two could deadlock.
        unsaid = sorted((run for run in batch if run.state is None), key=_by_id)
        locked = await self._still_locked(session, unsaid)
        try:
            await self._record(session, [run for run in unsaid if run.id not in locked])
        except Exception as error:
            match session.fault_of(error):
                case "locked":
                    # Somebody's transaction has a job of the batch: those that are free need not wait for it.
                    locked = await session.locked(unsaid)
                    await self._record_free(session, [run for run in unsaid if run.state is None and run.id not in locked])
                case "refused":
                    await self._record_alone(session, [run for run in unsaid if run.state is None])
                case _:
                    raise
        finished = []
        for run in batch:
            if run.state is None:
                self._put_off(run)
                continue
            self._locked.discard(run.id)
            self._holdings.drop(run)
            if run.state == "lost":
                self._events.emit(RunLeaseLost(run))
            elif run.state == "refused":
                self._events.emit(RunRefused(run))
            else:
                if run.outcome == "refused":  # nobody else could run it
                    run.outcome = "failed"
                finished.append(run)
        self._events.emit(RunsFinished(finished))

    async def _still_locked(self, session: Session, runs: Sequence[Run]) -> set[str]:
        suspects = [run for run in runs if run.id in self._locked] if self._locked else []
        return await session.locked(suspects) if suspects else set()

    async def _record_free(self, session: Session, runs: Sequence[Run]) -> None:
        try:
            await self._record(session, runs)
        except Exception as error:
            if session.fault_of(error) not in ("locked", "refused"):
                raise
            # One has a child that is locked, or was locked just now.
            await self._record_alone(session, [run for run in runs if run.state is None])

    async def _record(self, session: Session, runs: Sequence[Run]) -> None:
        completed = [run for run in runs if run.outcome == "completed"]
        other = [run for run in runs if run.outcome != "completed"]
        plain = [run for run in completed if not run.is_scheduled]
        scheduled = [run for run in completed if run.is_scheduled]
        for is_scheduled, lane in ((False, plain), (True, scheduled)):
            if not lane:
                continue
            not_ours = await session.complete(lane, scheduled=is_scheduled)
            for run in lane:
                if run.id in not_ours:
                    other.append(run)
                else:
                    run.state = "completed"
        if other:
            states = await session.finish(other)
            for run in other:
                run.state = states[run.id] or "lost"

    async def _record_alone(self, session: Session, runs: Sequence[Run]) -> None:
        """One by one, so that none keeps another from being recorded."""
        for run in runs:
            try:
                states = await self._finish_alone(session, run)
            except Exception as error:
                if session.fault_of(error) != "locked":
                    raise
            else:
                run.state = states[run.id] or "lost"

    async def _finish_alone(self, session: Session, run: Run) -> dict[str, str | None]:
        try:
            return await session.finish([run])
        except Exception as error:
            if session.fault_of(error) != "refused":
                raise
            # What the handler left has been made safe to store, and yet it is not: better without it than never.
            run.result = None
            run.error = {"type": type(error).__name__, "message": f"could not be recorded in full: {error}"}
            return await session.finish([run])

    def _put_off(self, run: Run) -> None:
        """It is locked, and must not hold up the next batch at once again."""
        self._locked.add(run.id)
        self._waiting += 1
        asyncio.get_running_loop().call_later(LOCKED_AGAIN_S, self._take_up, run)

    def _take_up(self, run: Run) -> None:
        self._waiting -= 1
        self.add(run)
