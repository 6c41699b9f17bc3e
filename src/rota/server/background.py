"""What goes on in a server beside the requests: a worker, if jobs.enabled says so; else timers for what a worker would do.

A server that knows its address also records it, see `rota.control.servers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from rota.control.retention import prune_deliveries
from rota.control.servers import BEAT_S, machine_name
from rota.db.carriers import AsyncPsycopgCarrier
from rota.db.connection import Backoff, connect_async
from rota.db.steps import atomically, carry_out_async
from rota.engine.depth import COUNT_EVERY_S, JobCounter
from rota.engine.journal import Journal
from rota.errors import DatabaseError
from rota.model.ids import new_id
from rota.server.refusals import RefusalWriter
from rota.store import schedule_sync
from rota.store import servers as store
from rota.store.servers import RunningServer

if TYPE_CHECKING:
    from rota.app import Rota
    from rota.engine.worker import Worker
    from rota.server.state import State

PRUNE_EVERY_S = 3600.0
PRUNE_FIRST_S = 60.0  # after a start: of many that start at once, each has a moment

log = logging.getLogger("rota.server")


class ThreadedWorker:
    """A worker, its scheduler included, in a thread with an event loop of its own.

    A handler that holds up its loop does not hold up requests, and many requests do not hold up heartbeats and claims. They still
    share one interpreter: where handlers need the processor, run `rota worker` instead.
    """

    def __init__(self, app: Rota, on_end: Callable[[], None]) -> None:
        self._app = app
        self._on_end = on_end  # called in the server's loop when it has ended by itself, which it should not
        self._server_loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._lock = threading.Lock()  # of the next three
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker: Worker | None = None
        self._stops = 0
        threading.Thread(target=self._run, name="rota-worker", daemon=True).start()

    @property
    def stopping(self) -> bool:
        """Whether it has been told to end."""
        return self._stops > 0

    def stop(self) -> None:
        """Lets running jobs finish and ends; called again, gives up on them."""
        with self._lock:
            self._stops += 1
            if self._loop is not None and self._worker is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._worker.stop)

    async def wait(self) -> None:
        """Waits for its end."""
        await self._ended.wait()

    def _run(self) -> None:
        import uvloop

        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._work())
        except Exception:
            log.exception("the worker inside the server has failed")
        finally:
            self._server_loop.call_soon_threadsafe(self._note_end)

    async def _work(self) -> None:
        worker = self._app.worker()
        Journal(worker.events, worker.id)
        with self._lock:
            self._loop, self._worker = asyncio.get_running_loop(), worker
            for _ in range(self._stops):  # told before it was there
                worker.stop()
        try:
            await worker.run()
        finally:
            with self._lock:
                self._loop = None
            await self._app.aclose()  # what its handlers enqueued through

    def _note_end(self) -> None:
        self._ended.set()
        if not self.stopping:
            self._on_end()


class Pruner:
    """Removes old records of what was sent to webhooks once an hour, where no worker of this server would."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._task = asyncio.create_task(self._keep_pruning(), name="rota-pruner")

    async def aclose(self) -> None:
        """Stops."""
        self._task.cancel()
        await asyncio.wait({self._task})

    async def run_once(self) -> int:
        """Removes what is old enough; how many."""
        async with self._state.connection() as conn:
            return await prune_deliveries(conn, hours=self._state.settings.housekeeping.deliveries_hours)

    async def _keep_pruning(self) -> None:
        await asyncio.sleep(PRUNE_FIRST_S)
        while True:
            try:
                if removed := await self.run_once():
                    log.info("removed %d old records of deliveries to webhooks", removed)
            except Exception as error:  # the next turn comes in any case
                log.warning("old records of deliveries to webhooks could not be removed: %s", error)
            await asyncio.sleep(PRUNE_EVERY_S)


class Starter:
    """Makes sure of recurring rows that are always on, once the database answers; a worker inside does it at its own start."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._task = asyncio.create_task(self._ensure(), name="rota-starter")

    async def aclose(self) -> None:
        """Stops."""
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _ensure(self) -> None:
        backoff = Backoff()
        while True:
            try:
                async with self._state.connection() as conn:
                    carrier = AsyncPsycopgCarrier(conn)
                    steps = schedule_sync.ensure_always(self._state.app.tasks.values())
                    return await carry_out_async(carrier, atomically(steps, autocommits=carrier.autocommits))
            except Exception as error:  # requests say so too
                log.debug("recurring rows that are always on could not be looked at: %s", error)
            await asyncio.sleep(backoff.next())


class Presence:
    """Record that this server is running, and where, until it stops.

    With an inherited socket the address outlives this process: `rota dev` starts the next one on it at once. The record then stays
    until it is too old.
    """

    def __init__(self, state: State, server: RunningServer, *, inherited: bool) -> None:
        self._state = state
        self._server = server
        self._inherited = inherited
        self._id = new_id()
        self._task = asyncio.create_task(self._keep_beating(), name="rota-presence")

    async def aclose(self) -> None:
        """Remove the record, unless the database is away: without a beat the record is void after a while."""
        self._task.cancel()
        await asyncio.wait({self._task})
        if self._inherited:
            return
        with contextlib.suppress(Exception):
            async with self._state.connection() as conn:
                await store.remove(conn, self._id)

    async def _keep_beating(self) -> None:
        while True:
            try:
                async with self._state.connection() as conn:
                    await store.beat(conn, self._id, machine_name(), self._server)
            except Exception as error:  # requests say that the database is away; here the next beat is enough
                log.debug("the server's address could not be recorded: %s", error)
            await asyncio.sleep(BEAT_S)


class Counting:
    """Counts what there is too much of to be counted in a request, where no worker of this server would."""

    def __init__(self, state: State) -> None:
        database = state.settings.database
        self._state = state
        self._counter = JobCounter(lambda: connect_async(database.dsn, "counter", pooled=database.pooled), state.app.events)
        self._task = asyncio.create_task(self._keep_counting(), name="rota-counting")

    async def aclose(self) -> None:
        """Stop."""
        self._task.cancel()
        await asyncio.wait({self._task})
        await self._counter.aclose()

    async def _keep_counting(self) -> None:
        while True:
            try:
                async with self._state.connection() as conn:
                    await self._counter.run_once(conn)
            except DatabaseError as error:  # requests say that the database is away
                log.debug("the jobs could not be counted: %s", error)
            except Exception as error:  # the next turn comes in any case
                log.warning("the jobs could not be counted: %s", error)
            await asyncio.sleep(COUNT_EVERY_S)


class Background:
    """All of it, from the start of a server to its end."""

    def __init__(self, state: State, on_broken: Callable[[], None]) -> None:
        jobs = state.settings.jobs.enabled
        self.worker = ThreadedWorker(state.app, on_broken) if jobs else None
        self.timers: list[Pruner | Counting | Starter | Presence | RefusalWriter] = [RefusalWriter(state)]
        if not jobs:
            self.timers += [Pruner(state), Counting(state), Starter(state)]
        if state.address is not None:
            self.timers.append(Presence(state, state.address, inherited=state.inherited))

    def stop(self) -> None:
        """Lets the worker begin to drain; called again, gives up on its jobs."""
        if self.worker is not None:
            self.worker.stop()

    async def aclose(self) -> None:
        """Waits until the worker has ended by its own rules, and ends the rest."""
        if self.worker is not None:
            if not self.worker.stopping:
                self.worker.stop()
            await self.worker.wait()
        for timer in self.timers:
            await timer.aclose()
