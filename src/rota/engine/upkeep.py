"""What every worker does now and then for the good of all: rescue, cancel, tidy. Each duty is safe in any number at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from time import monotonic
from typing import Generic
from uuid import UUID

from rota.db.connection import AsyncConn
from rota.engine.claimer import Claimer
from rota.engine.holdings import Holdings
from rota.engine.options import WorkerOptions
from rota.engine.service import Line
from rota.engine.tally import FLUSH_EVERY_S, MERGE_EVERY_S, Tally, merge_stats
from rota.engine.transport import Session
from rota.engine.unknown_tasks import LOOK_S, UnknownTasks
from rota.events import DatabaseLost, Events, RunRescued, RunsReleased, WorkerDied

ANSWER_WITHIN_S = 30.0
RESCUE_BATCH = 500
KEY_BATCH = 1000
KEY_BATCHES = 20  # at a time
STALE_BUFFER_S = 0.25  # claimed ahead and still not started: somebody else may be free


@dataclass(slots=True)
class Duty(Generic[Line]):
    """Something to do every so often: to jobs, on a session, or to what the control plane keeps, on a connection."""

    every_s: float
    run_once: Callable[[Line], Awaitable[None]]
    due: float = 0.0


class Upkeep:
    """Runs the duties in turn on one session."""

    name = "upkeep"

    def __init__(
        self, worker: UUID, options: WorkerOptions, holdings: Holdings, claimer: Claimer, events: Events,
        interrupt: Callable[[str, str], None], tally: Tally, duties: Sequence[Duty[AsyncConn]] = (),
    ) -> None:  # fmt: skip
        self._worker = worker
        self._options = options
        self._holdings = holdings
        self._claimer = claimer
        self._events = events
        self._interrupt = interrupt
        self._missing_since: dict[tuple[UUID, str], float] = {}  # by worker and session
        unknown = UnknownTasks(options, holdings, events)
        self._duties: list[Duty[Session]] = [
            Duty(0.5, self.rescue_from_dead),
            Duty(min(5.0, options.lease_s / 4), self.rescue_expired),
            Duty(0.5, self.cancel_requested),
            Duty(0.1, self.return_stale),
            Duty(LOOK_S, unknown.set_aside),
            Duty(LOOK_S, unknown.take_back),
            Duty(min(5.0, max(options.unknown_task_after_s / 4, 0.5)), unknown.fail_overdue),
            Duty(options.heartbeat_s, self.return_unknown),
            Duty(60.0, self.forget_keys),
            Duty(3600.0, self.tidy),
            Duty(FLUSH_EVERY_S, _lent(tally.flush)),
            Duty(MERGE_EVERY_S, _lent(merge_stats)),
            *(Duty(duty.every_s, _lent(duty.run_once), duty.due) for duty in duties),
        ]

    async def serve(self, session: Session) -> None:
        """Does what is due on this session until it breaks."""
        self._missing_since.clear()  # whoever reconnects after an outage deserves the same patience as we had
        while True:
            now = monotonic()
            for duty in self._duties:
                if now >= duty.due:
                    duty.due = now + duty.every_s
                    await self._do(duty, session)
            await asyncio.sleep(max(min(duty.due for duty in self._duties) - monotonic(), 0.01))

    async def _do(self, duty: Duty[Session], session: Session) -> None:
        try:
            with session.answer_within(ANSWER_WITHIN_S):
                await duty.run_once(session)
        except Exception as error:
            match session.fault_of(error):
                case "locked":
                    pass  # what somebody's transaction has locked is for the next time
                case "lost":
                    raise
                case _:
                    # What one duty may not do must not keep the others from being done.
                    self._events.emit(DatabaseLost(f"{self.name}, {duty.run_once.__name__}", error, duty.every_s))

    async def rescue_from_dead(self, session: Session) -> None:
        """Takes the jobs of workers whose session has been gone for some seconds."""
        now = monotonic()  # before the look: what it shows is no newer
        missing = await session.missing(restart_grace_s=self._options.restart_grace_s)
        self._missing_since = {each: self._missing_since.get(each, now) for each in missing}
        for (id, _), since in self._missing_since.items():
            if id != self._worker and now - since >= self._options.dead_after_s:
                rescued = await self._rescue(session, [id])
                # Marked only now: were we to die in between, the next rescuer still finds the rest.
                if await session.stop_dead(id):
                    self._events.emit(WorkerDied(id, rescued))

    async def rescue_expired(self, session: Session) -> None:
        """The backstop: takes jobs whose lease has run out, whoever holds them, and what ended workers have left behind."""
        await self._rescue(session, await session.stopped_holding())

    async def _rescue(self, session: Session, dead: list[UUID]) -> int:
        count = 0
        while True:
            rescued = await session.rescue(dead, batch=RESCUE_BATCH)
            for row in rescued:
                self._events.emit(RunRescued(*row))
            count += len(rescued)
            if len(rescued) < RESCUE_BATCH:
                return count

    async def cancel_requested(self, session: Session) -> None:
        """Tells handlers that somebody wants their job to stop; what has not been started is given back, which ends it."""
        unstarted = []
        for id, token in await session.cancel_requested():
            run = self._holdings.held.get(id)
            if run is None or run.token != token:
                continue
            if self._holdings.withdraw(run):
                unstarted.append(run)
            else:
                self._interrupt(id, "cancel")
        if unstarted:
            await session.release(unstarted)

    async def return_stale(self, session: Session) -> None:
        """Gives back what was claimed ahead when the jobs before it turn out to be slow."""
        if stale := self._holdings.take_unstarted(STALE_BUFFER_S):
            await session.release(stale)
            self._events.emit(RunsReleased(len(stale), "slots are taken by slow jobs"))

    async def return_unknown(self, session: Session) -> None:
        """Gives back claims whose answer never arrived, unless one may be arriving now."""
        if self._claimer.in_flight:
            return
        count = await session.release_unknown(list(self._holdings.held), older_than_s=self._options.heartbeat_s)
        if count:
            self._events.emit(RunsReleased(count, "the answer to their claim was lost"))

    async def forget_keys(self, session: Session) -> None:
        """Removes idempotency keys that protect nothing any more; what is too much for one time is left for the next."""
        for _ in range(KEY_BATCHES):
            if await session.forget_keys(limit=KEY_BATCH) < KEY_BATCH:
                return

    async def tidy(self, session: Session) -> None:
        """Makes room for what comes and forgets what is long gone."""
        await session.tidy()


def _lent(run_once: Callable[[AsyncConn], Awaitable[None]]) -> Callable[[Session], Awaitable[None]]:
    """The same on a session, which lends its connection."""

    @wraps(run_once)
    async def run(session: Session) -> None:
        await run_once(session.conn)

    return run
