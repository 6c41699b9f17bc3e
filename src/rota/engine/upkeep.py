"""What every worker does now and then for the good of all: rescue, cancel, tidy. Each duty is safe in any number at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from uuid import UUID

import psycopg
from psycopg.errors import DeadlockDetected, LockNotAvailable

from rota.db.connection import AsyncConn, answer_within, is_disconnect
from rota.engine.claimer import Claimer
from rota.engine.holdings import Holdings
from rota.engine.options import WorkerOptions
from rota.events import DatabaseLost, Events, RunRescued, RunsReleased, WorkerDied
from rota.store import runs, workers

ANSWER_WITHIN_S = 30.0
RESCUE_BATCH = 500
KEY_BATCH = 1000
KEY_BATCHES = 20  # at a time
STALE_BUFFER_S = 0.25  # claimed ahead and still not started: somebody else may be free


@dataclass(slots=True)
class Duty:
    """Something to do every so often."""

    every_s: float
    run_once: Callable[[AsyncConn], Awaitable[None]]
    due: float = 0.0


class Upkeep:
    """Runs the duties in turn on one connection."""

    name = "upkeep"

    def __init__(
        self, worker: UUID, options: WorkerOptions, holdings: Holdings, claimer: Claimer, events: Events,
        interrupt: Callable[[str, str], None],
    ) -> None:  # fmt: skip
        self._worker = worker
        self._options = options
        self._holdings = holdings
        self._claimer = claimer
        self._events = events
        self._interrupt = interrupt
        self._missing_since: dict[tuple[UUID, str], float] = {}  # by worker and session
        self._duties = [
            Duty(0.5, self.rescue_from_dead),
            Duty(min(5.0, options.lease_s / 4), self.rescue_expired),
            Duty(0.5, self.cancel_requested),
            Duty(0.1, self.return_stale),
            Duty(options.heartbeat_s, self.return_unknown),
            Duty(60.0, self.forget_keys),
            Duty(3600.0, self.tidy),
        ]

    async def serve(self, conn: AsyncConn) -> None:
        """Does what is due on this connection until it breaks."""
        self._missing_since.clear()  # whoever reconnects after an outage deserves the same patience as we had
        while True:
            now = monotonic()
            for duty in self._duties:
                if now >= duty.due:
                    duty.due = now + duty.every_s
                    await self._do(duty, conn)
            await asyncio.sleep(max(min(duty.due for duty in self._duties) - monotonic(), 0.01))

    async def _do(self, duty: Duty, conn: AsyncConn) -> None:
        try:
            # What somebody's transaction has locked is for the next time.
            with answer_within(conn, ANSWER_WITHIN_S), contextlib.suppress(LockNotAvailable, DeadlockDetected):
                await duty.run_once(conn)
        except psycopg.Error as error:
            if is_disconnect(error):
                raise
            # What one duty may not do must not keep the others from being done.
            self._events.emit(DatabaseLost(f"{self.name}, {duty.run_once.__name__}", error, duty.every_s))

    async def rescue_from_dead(self, conn: AsyncConn) -> None:
        """Takes the jobs of workers whose session has been gone for some seconds."""
        now = monotonic()  # before the look: what it shows is no newer
        missing = await workers.missing(conn, restart_grace_s=self._options.restart_grace_s)
        self._missing_since = {session: self._missing_since.get(session, now) for session in missing}
        for (id, _), since in self._missing_since.items():
            if id != self._worker and now - since >= self._options.dead_after_s:
                rescued = await self._rescue(conn, [id])
                # Marked only now: were we to die in between, the next rescuer still finds the rest.
                if await workers.stop_dead(conn, id=id):
                    self._events.emit(WorkerDied(id, rescued))

    async def rescue_expired(self, conn: AsyncConn) -> None:
        """The backstop: takes jobs whose lease has run out, whoever holds them, and what ended workers have left behind."""
        await self._rescue(conn, await workers.stopped_holding(conn))

    async def _rescue(self, conn: AsyncConn, dead: list[UUID]) -> int:
        count = 0
        while True:
            rescued = await runs.rescue(conn, dead=dead, batch=RESCUE_BATCH, rescuer=self._worker)
            for row in rescued:
                self._events.emit(RunRescued(*row))
            count += len(rescued)
            if len(rescued) < RESCUE_BATCH:
                return count

    async def cancel_requested(self, conn: AsyncConn) -> None:
        """Tells handlers that somebody wants their job to stop; what has not been started is given back, which ends it."""
        unstarted = []
        for id, token in await runs.cancel_requested(conn, worker=self._worker):
            run = self._holdings.held.get(id)
            if run is None or run.token != token:
                continue
            if self._holdings.withdraw(run):
                unstarted.append(run)
            else:
                self._interrupt(id, "cancel")
        if unstarted:
            await runs.release(conn, worker=self._worker, runs=unstarted)

    async def return_stale(self, conn: AsyncConn) -> None:
        """Gives back what was claimed ahead when the jobs before it turn out to be slow."""
        unstarted = self._holdings.unstarted
        if unstarted and monotonic() - unstarted[0].arrived > STALE_BUFFER_S:
            stale = self._holdings.take_unstarted()
            await runs.release(conn, worker=self._worker, runs=stale)
            self._events.emit(RunsReleased(len(stale), "slots are taken by slow jobs"))

    async def return_unknown(self, conn: AsyncConn) -> None:
        """Gives back claims whose answer never arrived, unless one may be arriving now."""
        if self._claimer.in_flight:
            return
        count = await runs.release_unknown(
            conn, worker=self._worker, known=list(self._holdings.held), older_than_s=self._options.heartbeat_s
        )
        if count:
            self._events.emit(RunsReleased(count, "the answer to their claim was lost"))

    async def forget_keys(self, conn: AsyncConn) -> None:
        """Removes idempotency keys that protect nothing any more; what is too much for one time is left for the next."""
        for _ in range(KEY_BATCHES):
            if await runs.forget_keys(conn, limit=KEY_BATCH) < KEY_BATCH:
                return

    async def tidy(self, conn: AsyncConn) -> None:
        """Makes partitions ahead of time and forgets workers that are long gone."""
        await runs.make_partitions(conn)
        await workers.forget(conn)
