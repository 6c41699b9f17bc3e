"""Runs what is due, one round after the other, without the parts of a worker that wait for more: for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import monotonic
from types import TracebackType
from typing import Self

from rota.db.connection import AsyncConn, close_quietly, connect_async
from rota.engine.completer import Completer
from rota.engine.desk import Desk
from rota.engine.executor import Executor
from rota.engine.holdings import Holdings
from rota.engine.isolate import Quarantine
from rota.engine.logbook import Logbook
from rota.engine.options import WorkerOptions
from rota.engine.postgres import PostgresTransport
from rota.engine.run_log import listening
from rota.engine.slots import Slots
from rota.engine.transport import Session, Transport
from rota.events import Events, RunsClaimed
from rota.model.ids import new_id
from rota.model.run import Run
from rota.model.task import TaskSpec, versions_of


class Drain:
    """Claims and runs due jobs in the calling event loop.

    A round takes no more jobs than there are slots, and the next one begins when all of them are recorded. With one slot
    jobs run strictly one by one: queue by queue, and in each by priority, due time and id.
    """

    def __init__(self, dsn: str, tasks: Mapping[str, TaskSpec], options: WorkerOptions, events: Events) -> None:
        self.next_s: float | None = None  # in how many seconds the next job was due, when last looked
        self._options = options
        self._events = events
        worker = new_id()
        self._transport: Transport = PostgresTransport(dsn, worker, versions=versions_of(tasks.values()), pooled=options.pooled)
        self._holdings = Holdings()
        self._desk = Desk(dsn, worker, size=options.concurrency, pooled=options.pooled)
        self._quarantine = Quarantine(self._desk, dsn, options.logs)
        self._book = Logbook(worker, options.logs, events)
        self._dsn = dsn
        self._book_conn: AsyncConn | None = None
        self._listening = listening()
        self._completer = Completer(self._holdings, events)
        executor = Executor(tasks, self._desk, events, self._quarantine.perform, options.lease_s, self._book)
        self._slots = Slots(options.concurrency, self._holdings, executor, self._completer, events)
        self._session: Session | None = None
        self._ticking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._session = await self._transport.open("drain")
        self._listening.__enter__()
        self._slots.start()
        self._ticking = asyncio.create_task(self._slots.tick(), name="rota-tick")
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.wait({self._ticking})
        await self._slots.close()
        self._listening.__exit__(None, None, None)
        await close_quietly(self._book_conn)
        await self._quarantine.close()
        await self._desk.close()
        if self._session is not None:
            await self._session.close()

    async def run_once(self) -> list[Run]:
        """Runs one round of due jobs to their end; an empty one when none is due."""
        assert self._session is not None, "a drain is used in an `async with`"
        _, self.next_s, _ = await self._session.promote()
        runs = await self._claim(self._session)
        self._holdings.add(runs)
        while self._holdings.held:
            await self._completer.run_once(self._session, await self._completer.take())
        if self._book.backlog:
            self._book_conn = self._book_conn or await connect_async(self._dsn, "logbook", pooled=self._options.pooled)
            await self._book.run_once(self._book_conn)
        return runs

    async def _claim(self, session: Session) -> list[Run]:
        lease_s = self._options.lease_s
        claimed: list[Run] = []
        for queue in self._options.queues:
            room = self._options.concurrency - len(claimed)
            if room and (runs := await session.claim(queue, room, lease_s=lease_s, now=monotonic())):
                claimed += runs
                self._events.emit(RunsClaimed(queue, runs))
        return claimed
