"""A worker: one process that claims and runs jobs, made of small services."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from time import monotonic
from uuid import UUID

from rota.db.connection import AsyncConn, Backoff, close_quietly, connect_async
from rota.engine.claimer import Claimer
from rota.engine.completer import Completer
from rota.engine.depth import COUNT_EVERY_S, MEASURE_EVERY_S, Depth, JobCounter
from rota.engine.desk import Desk
from rota.engine.executor import Executor
from rota.engine.heartbeat import Heartbeat
from rota.engine.holdings import Holdings
from rota.engine.isolate import Quarantine
from rota.engine.lanes import lanes_of
from rota.engine.logbook import Logbook
from rota.engine.options import WorkerOptions
from rota.engine.postgres import PostgresTransport
from rota.engine.run_log import listening
from rota.engine.scheduler import Scheduler
from rota.engine.service import Service, keep_serving, keep_supplied
from rota.engine.slots import Slots
from rota.engine.standing import LOOK_EVERY_S, Standing
from rota.engine.tally import Tally
from rota.engine.transport import Session, Transport
from rota.engine.upkeep import Duty, Upkeep
from rota.events import DatabaseLost, Events, RunsReleased, WorkerBroken, WorkerStarted, WorkerStopped, WorkerStopping
from rota.model.ids import new_id
from rota.model.run import Run
from rota.model.task import TaskSpec, versions_of

LOOK_WITHIN_S = 10.0
CLEANUP_S = 2.0  # for handlers that were told to stop, and for the last words to the database


class Worker:
    """Claims and runs jobs until it is told to stop."""

    def __init__(
        self,
        dsn: str,
        tasks: Mapping[str, TaskSpec],
        options: WorkerOptions | None = None,
        events: Events | None = None,
        duties: Sequence[Duty[AsyncConn]] = (),  # of its upkeep, beside the engine's own
    ) -> None:
        self.id: UUID = new_id()  # new at each boot: no worker ever takes up another's identity
        self.options = options or WorkerOptions()
        self.events = events or Events()
        self._dsn = dsn
        self._transport: Transport = PostgresTransport(
            dsn, self.id, versions=versions_of(tasks.values()), app=self.options.app, pooled=self.options.pooled
        )
        self._tasks = tasks
        self._duties = duties
        self._stops = 0
        self._stopping = asyncio.Event()
        self._now = asyncio.Event()  # stop without waiting for running jobs

    def stop(self) -> None:
        """Lets running jobs finish and ends; called again, gives up on them. Safe to call from a signal handler of the loop."""
        self._stops += 1
        (self._stopping if self._stops == 1 else self._now).set()

    async def run(self) -> None:
        """Works until `stop`: then no schedules → no claims → unstarted jobs back → running ones drain → the rest back → closed."""
        options = self.options
        events = Events(within=self.events)  # its own: an application's are of all its workers
        loop = asyncio.get_running_loop()
        holdings = Holdings(lanes_of(self._tasks.values()))
        desk = Desk(self._dsn, self.id, size=options.concurrency, pooled=options.pooled, events=events)
        quarantine = Quarantine(desk, self._dsn, options.logs)
        book = Logbook(self.id, options.logs, events)
        standing = Standing(self._tasks)
        executor = Executor(standing.tasks, desk, events, quarantine.perform, options.lease_s, book)
        completer = Completer(holdings, events)
        slots = Slots(options.concurrency, holdings, executor, completer, events)
        claimer = Claimer(options, holdings, completer, events, lambda: slots.pace_s, standing.limited)
        tally = Tally(events)
        counter = JobCounter(lambda: connect_async(self._dsn, "counter", pooled=options.pooled), events)
        duties = [
            *self._duties,
            Duty(LOOK_EVERY_S, standing.look),
            Duty(MEASURE_EVERY_S, Depth(events).measure),
            Duty(COUNT_EVERY_S, counter.run_once, monotonic() + COUNT_EVERY_S),  # not while the worker catches up
        ]
        upkeep = Upkeep(self.id, options, holdings, claimer, events, slots.interrupt, tally, duties)

        def lose(run: Run) -> None:
            loop.call_soon_threadsafe(slots.interrupt, run.id, "lost")

        heartbeat = Heartbeat(self._transport, options, list(self._tasks.values()), holdings, events, lose)
        heartbeat.start()
        background: list[asyncio.Task[None]] = []
        try:
            if not (await self._registered(heartbeat) and await self._looked(standing)):
                return
            working = slots.start()
            claiming = asyncio.create_task(self._keep(claimer), name="rota-claimer")
            scheduling = self._start_scheduler()
            background = [
                asyncio.create_task(self._keep(completer), name="rota-completer"),
                asyncio.create_task(self._keep(upkeep), name="rota-upkeep"),
                asyncio.create_task(self._keep_book(book), name="rota-logbook"),
                asyncio.create_task(slots.tick(), name="rota-tick"),
                asyncio.create_task(_watch(heartbeat), name="rota-watch"),
            ]
            for task in (*working, claiming, *scheduling, *background):
                task.add_done_callback(self._end_with)
            events.emit(WorkerStarted(self.id, list(options.queues), options.concurrency))
            await self._stopping.wait()

            for task in (*scheduling, claiming):
                await _end(task)
            events.emit(WorkerStopping(self.id, len(slots.running)))
            deadline = monotonic() + options.shutdown_timeout_s
            await self._give_back(holdings, deadline)
            while slots.running and monotonic() < deadline and not self._now.is_set():
                await asyncio.sleep(0.01)
            await slots.interrupt_all("shutdown", CLEANUP_S)
            for slot in slots.running:  # a thread that does not listen: its run ends here, whatever it still does
                run = slot.run
                assert run is not None
                run.outcome, run.error = (
                    "released",
                    {"type": "Shutdown", "message": "its worker stopped before it ended"},
                )
                completer.add(run)
            await completer.drain(monotonic() + CLEANUP_S)
            await book.drain(monotonic() + CLEANUP_S)
            await self._write_tally(tally)
        finally:
            for task in background:
                await _end(task)
            await counter.aclose()
            await slots.close()
            await quarantine.close()
            await asyncio.to_thread(heartbeat.close, "stopped", CLEANUP_S)
            await desk.close()
            events.emit(WorkerStopped(self.id))

    def _start_scheduler(self) -> list[asyncio.Task[None]]:
        options = self.options
        if not options.scheduler:
            return []
        scheduler = Scheduler(
            self.events,
            apps=[options.app],
            tick_s=options.scheduler_tick_s,
            look_s=options.poll_interval_s,
            lock=options.scheduler_lock,
        )
        serving = keep_serving(scheduler, self._dsn, self.events, pooled=options.pooled)
        return [asyncio.create_task(serving, name="rota-scheduler")]

    def _end_with(self, task: asyncio.Task[None]) -> None:
        """A part that ends before it was told to, say because a handler cancelled every task it found, takes the worker with it:
        better none, which a supervisor replaces, than one that looks alive and does nothing."""
        if not self._stopping.is_set():
            error = None if task.cancelled() else task.exception()
            self.events.emit(WorkerBroken(self.id, task.get_name(), error))
            self.stop()

    async def _registered(self, heartbeat: Heartbeat) -> bool:
        while not heartbeat.registered.is_set():
            if heartbeat.refusal is not None:
                raise heartbeat.refusal
            if self._stopping.is_set():
                return False
            await asyncio.sleep(0.02)
        return True

    async def _looked(self, standing: Standing) -> bool:
        """Before the first claim: jobs must not run beyond limits that operators have set."""
        backoff = Backoff()
        while not self._stopping.is_set():
            try:
                async with asyncio.timeout(LOOK_WITHIN_S):
                    session = await self._transport.open("tasks")
                    try:
                        await standing.look(session.conn)
                    finally:
                        await session.close()
                return True
            except Exception as error:
                wait_s = backoff.next()
                self.events.emit(DatabaseLost("tasks", error, wait_s))
                await asyncio.sleep(wait_s)
        return False

    async def _keep(self, service: Service[Session]) -> None:
        await keep_supplied(service, lambda: self._transport.open(service.name), lambda session: session.close(), self.events)

    async def _keep_book(self, book: Logbook) -> None:
        with listening():
            await book.begin()
            await keep_serving(book, self._dsn, self.events, pooled=self.options.pooled)

    async def _write_tally(self, tally: Tally) -> None:
        if not tally.pending:
            return
        conn: AsyncConn | None = None
        with contextlib.suppress(Exception):  # statistics are no reason to stay
            try:
                async with asyncio.timeout(CLEANUP_S):
                    conn = await connect_async(self._dsn, "tally", pooled=self.options.pooled)
                    await tally.flush(conn)
            finally:
                await close_quietly(conn)

    async def _give_back(self, holdings: Holdings, deadline: float) -> None:
        """Returns what has not been started, and claims whose answer was cut off by the stop."""
        unstarted = holdings.take_unstarted()
        backoff = Backoff()
        while monotonic() < deadline:
            session: Session | None = None
            try:
                session = await self._transport.open("release")
                with session.answer_within(CLEANUP_S):
                    await session.release(unstarted)
                    await session.release_unknown(holdings.held.keys(), older_than_s=0)
            except Exception as error:
                wait_s = backoff.next()
                self.events.emit(DatabaseLost("release", error, wait_s))
                await asyncio.sleep(wait_s)
            else:
                if unstarted:
                    self.events.emit(RunsReleased(len(unstarted), "the worker is stopping"))
                return
            finally:
                if session is not None:
                    await session.close()


async def _watch(heartbeat: Heartbeat) -> None:
    while True:
        await asyncio.sleep(1)
        heartbeat.check()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=CLEANUP_S)
