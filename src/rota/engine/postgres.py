"""Jobs in PostgreSQL, as the engine sees them: the store's statements on a worker's own connections."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from time import monotonic
from typing import Any, Literal, TypeVar
from uuid import UUID

import psycopg
from psycopg.errors import DeadlockDetected, LockNotAvailable

from rota.db.carriers import PsycopgCarrier
from rota.db.connection import AsyncConn, Conn, answer_within, close_quietly, connect, connect_async, cut, is_disconnect
from rota.db.steps import atomically, carry_out
from rota.engine.transport import Fault, Overdue, Rescued
from rota.errors import DISTRIBUTION
from rota.model.limits import NO_LIMITS, Limited, QueueLimits
from rota.model.position import START, Position
from rota.model.run import Run
from rota.model.task import DEFAULT_APP, TaskSpec, versions_of
from rota.store import jobs_change, schedule_sync, tasks, workers
from rota.store import runs as store
from rota.store.task_sync import text_array

Answer = TypeVar("Answer")

PLANS_LAST_S = 1.0  # the plan for an empty table reads all of a full one, and a table can fill within a second


class PostgresTransport:
    """A worker's connections. Behind a transaction pooler (`pooled`) sessions have no settings and cannot be woken."""

    def __init__(
        self, dsn: str, worker: UUID, *, versions: Mapping[str, str], app: str = DEFAULT_APP, pooled: bool = False
    ) -> None:
        self._dsn = dsn
        self._worker = worker
        self._tasks, self._versions = text_array(versions), text_array(versions.values())
        self._app = app
        self._pooled = pooled

    async def open(self, name: str) -> PostgresSession:
        """A connection of its own for each part of a worker."""
        conn = await connect_async(self._dsn, name, pooled=self._pooled)
        return PostgresSession(conn, self._worker, tasks=self._tasks, versions=self._versions, app=self._app, pooled=self._pooled)

    @contextmanager
    def open_pulse(self) -> Iterator[PostgresPulse]:
        """The connection whose end means that the worker has died."""
        with connect(self._dsn, "heartbeat", pooled=self._pooled) as conn:
            yield PostgresPulse(conn, self._worker, pooled=self._pooled)


class PostgresSession:
    """A connection that commits each statement."""

    __slots__ = ("_app", "_planned", "_pooled", "_tasks", "_versions", "_worker", "conn")

    def __init__(
        self,
        conn: AsyncConn,
        worker: UUID,
        *,
        tasks: str = "{}",
        versions: str = "{}",
        app: str = DEFAULT_APP,
        pooled: bool = False,
    ) -> None:
        self.conn = conn
        self._worker = worker
        self._tasks = tasks  # that it knows, as PostgreSQL writes an array
        self._versions = versions  # of these, in the same order
        self._app = app
        self._pooled = pooled
        self._planned = monotonic()

    def answer_within(self, seconds: float) -> AbstractContextManager[None]:
        """Cuts the connection unless the block ends in time."""
        return answer_within(self.conn, seconds)

    def fault_of(self, error: BaseException) -> Fault:
        """What PostgreSQL means by this error."""
        if isinstance(error, LockNotAvailable | DeadlockDetected):
            return "locked"
        if is_disconnect(error) or not isinstance(error, psycopg.Error):
            return "lost"
        blamed = isinstance(error, psycopg.DataError | psycopg.IntegrityError | psycopg.InternalError)
        return "refused" if blamed else "denied"

    async def close(self) -> None:
        """Closes the connection, which may be broken already."""
        await close_quietly(self.conn)

    async def claim(self, queue: str, limit: int, *, lease_s: float, after: Position = START, now: float = 0.0) -> list[Run]:
        """Takes up to `limit` ready jobs of a queue, in their order."""
        return await store.claim(
            self.conn, worker=self._worker, tasks=self._tasks, queue=queue, limit=limit, lease_s=lease_s, after=after, now=now
        )

    async def promote(self) -> tuple[int, float | None, Limited]:
        """Makes ready what is due and within its limits."""
        return await store.promote(self.conn)

    async def set_aside(self, queue: str) -> int:
        """Move jobs of disabled and of unknown tasks out of the way of claims."""
        return await tasks.set_aside(self.conn, queue=queue, known=self._tasks)

    async def take_back(self, queues: Collection[str], *, free: int) -> int:
        """Put jobs back in line that were set aside and that this worker can run."""
        return await tasks.take_back(self.conn, queues=text_array(queues), known=self._tasks, versions=self._versions, free=free)

    async def overdue_unknown(self, patience_s: float) -> list[Overdue]:
        """Note that the application has a live worker; return the tasks that have stayed unknown for too long."""
        return await tasks.overdue(self.conn, app=self._app, patience_s=patience_s)

    async def task_names(self) -> list[str]:
        """The users' tasks that some code has."""
        return await tasks.names(self.conn)

    async def fail_unknown(self, overdue: Overdue, error: Mapping[str, Any]) -> int:
        """Fail some jobs of an unknown task."""
        queue, task, refused_by, until = overdue
        return await tasks.fail_unknown(self.conn, queue=queue, task=task, refused_by=refused_by, until=until, error=error)

    async def hold_back(self, runs: Sequence[Run]) -> None:
        """Returns unstarted jobs, uncharged, to wait for a place within a limit."""
        await store.hold_back(self.conn, worker=self._worker, runs=runs)

    async def cancel_requested(self) -> list[tuple[str, int]]:
        """This worker's running jobs that somebody wants to stop."""
        return await store.cancel_requested(self.conn, worker=self._worker)

    async def listen(self) -> bool:
        """Listens, unless a pooler would hand the session to others."""
        if not self._pooled:
            await self.conn.execute("LISTEN rota_wake")
        return not self._pooled

    async def want_wake(self, wants_wake: bool) -> None:
        """Says whether an enqueue should NOTIFY for this worker's sake."""
        await workers.want_wake(self.conn, id=self._worker, wants_wake=wants_wake)

    async def wait_for_wake(self, seconds: float) -> bool:
        """Waits for a NOTIFY."""
        woken = False
        async for _ in self.conn.notifies(timeout=seconds, stop_after=1):
            woken = True
        return woken

    async def complete(self, runs: Sequence[Run], *, scheduled: bool = False) -> set[str]:
        """Records completions; the ids of those that were not ours."""
        return await self._record(store.complete_scheduled if scheduled else store.complete, runs)

    async def finish(self, runs: Sequence[Run]) -> dict[str, str | None]:
        """Records endings of any kind."""
        return await self._record(store.finish, runs)

    async def _record(self, statement: Callable[..., Awaitable[Answer]], runs: Sequence[Run]) -> Answer:
        if monotonic() - self._planned > PLANS_LAST_S:
            await self.conn.execute("DISCARD PLANS")
            self._planned = monotonic()
        if not self._pooled:  # its settings limit the wait for locks
            return await statement(self.conn, worker=self._worker, runs=runs)
        async with self.conn.transaction():
            await jobs_change.wait_briefly(self.conn)
            return await statement(self.conn, worker=self._worker, runs=runs)

    async def locked(self, runs: Sequence[Run]) -> set[str]:
        """Those whose jobs somebody's transaction has locked now."""
        return await store.locked(self.conn, runs=runs)

    async def release(self, runs: Sequence[Run]) -> None:
        """Returns unstarted jobs to the queue, uncharged, and wakes who may want them."""
        await store.release(self.conn, worker=self._worker, runs=runs)

    async def release_unknown(self, known: Collection[str], *, older_than_s: float) -> int:
        """Returns claims that this worker does not know it has."""
        return await store.release_unknown(self.conn, worker=self._worker, known=known, older_than_s=older_than_s)

    async def missing(self, *, restart_grace_s: float) -> set[tuple[UUID, str]]:
        """Live workers whose session is gone, with that session."""
        return await workers.missing(self.conn, restart_grace_s=restart_grace_s)

    async def stopped_holding(self) -> list[UUID]:
        """Workers that have ended and still hold jobs."""
        return await workers.stopped_holding(self.conn)

    async def rescue(self, dead: Sequence[UUID], *, batch: int) -> list[Rescued]:
        """Takes jobs from dead workers and from others whose lease ran out."""
        return await store.rescue(self.conn, dead=dead, batch=batch, rescuer=self._worker)

    async def stop_dead(self, worker: UUID) -> bool:
        """Marks a worker as dead."""
        return await workers.stop_dead(self.conn, id=worker)

    async def forget_keys(self, *, limit: int) -> int:
        """Removes expired keys of jobs that have ended."""
        return await store.forget_keys(self.conn, limit=limit)

    async def tidy(self) -> None:
        """Makes partitions ahead of time and forgets what is long gone."""
        await store.make_partitions(self.conn)
        await workers.forget(self.conn)
        await store.forget_edits(self.conn)


class PostgresPulse:
    """The heartbeat's connection."""

    def __init__(self, conn: Conn, worker: UUID, *, pooled: bool) -> None:
        self._conn = conn
        self._worker = worker
        self._pooled = pooled

    def beat(self) -> Literal["alive", "called dead"] | None:
        """Says that the worker lives, in this session."""
        return workers.beat(self._conn, id=self._worker, pooled=self._pooled)

    def register(
        self,
        specs: Sequence[TaskSpec],
        *,
        app: str,
        queues: Sequence[str],
        slots: int,
        limits: Mapping[str, QueueLimits] = NO_LIMITS,
    ) -> None:
        """Makes the worker known, with its tasks, queues and schedules."""
        tasks.sync(self._conn, tasks=specs, queues=queues, limits=limits, app=app)
        carry_out(PsycopgCarrier(self._conn), atomically(schedule_sync.sync(specs, app=app), autocommits=True))
        workers.register(
            self._conn,
            id=self._worker,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=version(DISTRIBUTION),
            app=app,
            queues=queues,
            versions=versions_of(specs),
            slots=slots,
        )

    def renew(self, runs: Sequence[Run], *, lease_s: float) -> tuple[set[str], set[str]]:
        """Extends the leases of these runs."""
        return store.renew(self._conn, worker=self._worker, runs=runs, lease_s=lease_s)

    def stop(self, reason: str) -> None:
        """Writes down that the worker has ended."""
        workers.stop(self._conn, id=self._worker, reason=reason)

    def fileno(self) -> int:
        """The connection's socket."""
        return self._conn.fileno()

    def probe(self) -> None:
        """Asks the server anything."""
        self._conn.execute("SELECT 1")

    def cut(self) -> None:
        """Shuts the socket down under a statement that waits for an answer."""
        cut(self._conn)
