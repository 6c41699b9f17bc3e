"""How full the queues are: measured for subscribers, and counted in the background where there are many jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from time import monotonic
from uuid import uuid4

from rota.db.connection import AsyncConn, close_quietly
from rota.events import DatabaseLost, Events, QueueDepth, QueuesMeasured
from rota.store import job_counts, queues

MEASURE_EVERY_S = 15.0
COUNT_EVERY_S = 15.0
REST = 100  # times as long as a count took: counting takes at most 1 % of one processor


class Depth:
    """Measures the queues for whoever subscribed to that; for nobody it costs nothing."""

    def __init__(self, events: Events) -> None:
        self._events = events

    async def measure(self, conn: AsyncConn) -> None:
        """Looks once and tells."""
        if not self._events.wanted(QueuesMeasured):
            return
        self._events.emit(
            QueuesMeasured(
                [
                    QueueDepth(
                        row.name,
                        {state: getattr(row, state).count for state in ("ready", "delayed", "held", "waiting", "running")},
                        row.oldest_age.total_seconds() if row.oldest_age is not None else 0.0,
                    )
                    for row in await queues.read_all(conn)
                ]
            )
        )


class JobCounter:
    """Counts jobs in the background, of states that have too many to count while a caller waits; one process at a time."""

    def __init__(self, connect: Callable[[], Awaitable[AsyncConn]], events: Events) -> None:
        self._connect = connect
        self._events = events
        self._counting: asyncio.Task[None] | None = None

    async def run_once(self, conn: AsyncConn) -> None:
        """Begin to count if it is time; this connection is only asked who counts, and what."""
        owner = str(uuid4())  # of this count: the next one waits its time, even in the same process
        if self.is_counting or not await job_counts.take(conn, owner):
            return
        many = [state for state, count in (await job_counts.live(conn, system=True)).items() if count.capped]
        if many:
            self._counting = asyncio.create_task(self._count(owner, many), name="rota-counter")
        else:
            await job_counts.forget(conn)
            await job_counts.rest(conn, owner, COUNT_EVERY_S)

    @property
    def is_counting(self) -> bool:
        """Whether a count is under way."""
        return self._counting is not None and not self._counting.done()

    async def wait(self) -> None:
        """Wait until the count that is under way has ended."""
        if self._counting is not None:
            await asyncio.wait({self._counting})

    async def aclose(self) -> None:
        """Give up the count that is under way."""
        if self._counting is not None:
            self._counting.cancel()
            await self.wait()

    async def _count(self, owner: str, states: Collection[str]) -> None:
        conn: AsyncConn | None = None
        try:
            conn = await self._connect()
            begun = monotonic()
            await job_counts.keep(conn, states)
            await job_counts.rest(conn, owner, max(COUNT_EVERY_S, REST * (monotonic() - begun)))
        except Exception as error:
            self._events.emit(DatabaseLost("counter", error, COUNT_EVERY_S))
        finally:
            await close_quietly(conn)
