"""Where new jobs come in: through the caller's own connection, in the caller's transaction, or through a pool."""

from __future__ import annotations

import asyncio
import sys
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

from psycopg import AsyncConnection
from psycopg.errors import DeadlockDetected

from rota.db.carriers import AsyncPsycopgCarrier, PsycopgCarrier, async_carrier_of, carrier_of
from rota.db.failures import explained, was_ended
from rota.db.pool import Connections
from rota.db.steps import AsyncCarrier, Carrier, Steps, atomically, carry_out, carry_out_async
from rota.errors import DatabaseError, UnknownQueue, UsageError, did_you_mean
from rota.model.batch import Batch, kept
from rota.model.ids import new_id_text
from rota.model.job import Enqueued, JobSettings, NewJob
from rota.model.limits import NO_LIMITS, QueueLimits
from rota.store import jobs

Result = TypeVar("Result")

# Parents are locked in one order and so are jobs that end, but a job may be a parent here and a child there. PostgreSQL has undone
# all of an enqueue that it ends for that, and nearly always of one whose session it ends. In a transaction of our own it is done
# again, while in the caller's only they can.
TRIES = 4
ENDING_S = 0.05  # from the end of one session until others that end with it have said so, and are not used again


class Intake:
    """Stores new jobs, sync and async, one and many."""

    def __init__(self, connections: Connections, queues: Collection[str], limits: Mapping[str, QueueLimits] = NO_LIMITS) -> None:
        self._connections = connections
        self._queues = queues
        self._limits = limits  # of queues
        self._warned = False

    def insert(self, job: NewJob, conn: Any = None) -> Enqueued:
        """Stores one job."""
        self.settle(job)
        if conn is not None:
            return self.carry_out(jobs.insert(job), conn, call="enqueue")
        id = new_id_text()
        return self._repeat(lambda: self.carry_out(jobs.insert(job, id), call="enqueue"), lambda: [id])

    async def ainsert(self, job: NewJob, conn: Any = None) -> Enqueued:
        """Stores one job, from the event loop."""
        self.settle(job)
        if conn is not None:
            return await self.acarry_out(jobs.insert(job), conn)
        id = new_id_text()
        return await self._arepeat(lambda: self.acarry_out(jobs.insert(job, id)), lambda: [id])

    def carry_out(self, steps: Steps[Result], conn: Any = None, *, call: str) -> Result:
        """Does one step on the caller's connection or one of our own; `call` is what the caller called."""
        with explained:
            if conn is not None:
                return carry_out(carrier_of(conn), steps)
            self._check_own(call)
            with self._connections.connection() as own:
                return carry_out(PsycopgCarrier(own), steps)

    async def acarry_out(self, steps: Steps[Result], conn: Any = None) -> Result:
        """Like `carry_out`, from the event loop."""
        with explained:
            if conn is not None:
                return await carry_out_async(await async_carrier_of(conn), steps)
            async with self._connections.async_connection() as own:
                return await carry_out_async(AsyncPsycopgCarrier(own), steps)

    def transact(self, steps: Steps[Result], conn: Any = None, *, call: str) -> Result:
        """Does all of the steps or none, as part of the caller's transaction if there is one."""
        with explained:
            if conn is not None:
                carrier = carrier_of(conn)
                return carry_out(carrier, atomically(steps, autocommits=carrier.autocommits))
            self._check_own(call)
            with self._connections.connection() as own:
                return carry_out(PsycopgCarrier(own), atomically(steps, autocommits=True))

    async def atransact(self, steps: Steps[Result], conn: Any = None) -> Result:
        """Like `transact`, from the event loop."""
        with explained:
            if conn is not None:
                carrier = await async_carrier_of(conn)
                return await carry_out_async(carrier, atomically(steps, autocommits=carrier.autocommits))
            async with self._connections.async_connection() as own:
                return await carry_out_async(AsyncPsycopgCarrier(own), atomically(steps, autocommits=True))

    def insert_many(self, new: Iterable[NewJob], conn: Any = None) -> list[Enqueued]:
        """Stores all or none."""
        batch = self._batch(new)
        if conn is not None:
            return self._insert_batch(batch, conn)
        tried: list[Batch] = []

        def store() -> list[Enqueued]:
            tried.append(Batch(batch.jobs) if tried else batch)  # one that was tried knows jobs that were there under its keys
            return self._insert_batch(tried[-1])

        return self._repeat(store, lambda: tried[-1].ids)

    async def ainsert_many(self, new: Iterable[NewJob], conn: Any = None) -> list[Enqueued]:
        """Stores all or none, from the event loop."""
        batch = self._batch(new)
        if conn is not None:
            return await self._ainsert_batch(batch, conn)
        tried: list[Batch] = []

        async def store() -> list[Enqueued]:
            tried.append(Batch(batch.jobs) if tried else batch)
            return await self._ainsert_batch(tried[-1])

        return await self._arepeat(store, lambda: tried[-1].ids)

    def _repeat(self, store: Callable[[], Result], ids: Callable[[], Sequence[str]]) -> Result:
        """Store jobs, and again if PostgreSQL has undone it; if the session was ended, look first whether they are stored."""
        for _ in range(TRIES - 1):
            with suppress(DeadlockDetected):
                try:
                    return store()
                except DatabaseError as error:
                    if not was_ended(error):
                        raise
                    time.sleep(ENDING_S)
                    if self.carry_out(jobs.any_stored(ids()), call="enqueue"):
                        raise
        return store()

    async def _arepeat(self, store: Callable[[], Awaitable[Result]], ids: Callable[[], Sequence[str]]) -> Result:
        """The same from the event loop."""
        for _ in range(TRIES - 1):
            with suppress(DeadlockDetected):
                try:
                    return await store()
                except DatabaseError as error:
                    if not was_ended(error):
                        raise
                    await asyncio.sleep(ENDING_S)
                    if await self.acarry_out(jobs.any_stored(ids())):
                        raise
        return await store()

    def _insert_batch(self, batch: Batch, conn: Any = None) -> list[Enqueued]:
        with explained:
            if conn is not None:
                carrier = carrier_of(conn)
                return carry_out(carrier, _steps(batch, carrier))
            self._check_own("enqueue_many")
            with self._connections.connection() as own:
                carrier = PsycopgCarrier(own)
                return carry_out(carrier, _steps(batch, carrier))

    async def _ainsert_batch(self, batch: Batch, conn: Any = None) -> list[Enqueued]:
        with explained:
            if conn is not None:
                carrier = await async_carrier_of(conn)
                return await carry_out_async(carrier, _steps(batch, carrier))
            async with self._connections.async_connection() as own:
                carrier = AsyncPsycopgCarrier(own)
                return await carry_out_async(carrier, _steps(batch, carrier))

    @asynccontextmanager
    async def aconnection(self) -> AsyncIterator[AsyncConnection[Any]]:
        """One of our own connections, for as long as the block lasts; it commits each statement."""
        with explained:
            async with self._connections.async_connection() as own:
                yield own

    @contextmanager
    def using(self, connections: Connections) -> Iterator[None]:
        """Takes these connections instead of its own for the length of a block, and closes them."""
        own, self._connections = self._connections, connections
        try:
            yield
        finally:
            self._connections = own
            connections.close()

    def close(self) -> None:
        """Closes the connections that are ours."""
        self._connections.close()

    async def aclose(self) -> None:
        """Closes the connections that are ours, the event loop's too."""
        await self._connections.aclose()

    def _batch(self, new: Iterable[NewJob]) -> Batch:
        with kept():
            batch = Batch(list(new))
        checked: JobSettings | None = None
        for job in batch.jobs:
            if job.settings is not checked:
                self.settle(job)
                checked = job.settings
        return batch

    def settle(self, job: NewJob) -> None:
        """Refuses a job for a queue that is not declared, and has those of a limited one wait for a place."""
        self.check_queue(job.settings)
        if self._limits.get(job.settings.queue):
            job.settings = job.settings.with_limit()

    def check_queue(self, settings: JobSettings) -> None:
        """Refuses a job for a queue that is not declared."""
        if settings.queue not in self._queues:
            hint = did_you_mean(settings.queue, self._queues, f"known are {', '.join(sorted(self._queues))};")
            raise UnknownQueue(
                f"{settings.task}: there is no queue {settings.queue!r}: {hint} declare it with app.queue({settings.queue!r})"
            )

    def _check_own(self, call: str) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._check_django()
        else:
            noun, dot, verb = call.rpartition(".")
            raise UsageError(f"{call}() inside a running event loop would block it: use `await {noun}{dot}a{verb}()`")

    def _check_django(self) -> None:
        django = sys.modules.get("django.db")
        if self._warned or django is None:
            return
        if any(each.in_atomic_block for each in django.connections.all(initialized_only=True)):
            self._warned = True
            warnings.warn(
                "a job was enqueued outside the open transaction of Django, and stays if that is rolled back: "
                'to make it part of it use `.using(conn="default")`',
                RuntimeWarning,
                stacklevel=4,
            )


def _steps(batch: Batch, carrier: Carrier | AsyncCarrier) -> Steps[list[Enqueued]]:
    return jobs.insert_many(batch, can_copy=carrier.can_copy, autocommits=carrier.autocommits)
