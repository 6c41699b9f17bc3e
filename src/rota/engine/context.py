"""What a handler is given: who it is, whether it should stop, and the ways to make its effects exactly-once."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime, timedelta
from time import monotonic
from types import TracebackType
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection, Connection

from rota.db.carriers import AsyncPsycopgCarrier, PsycopgCarrier, carry
from rota.db.steps import Steps, carry_out, carry_out_async
from rota.engine.desk import Desk
from rota.engine.run_log import RunLogger
from rota.model.progress import write_progress
from rota.model.recurrence import Next, read_next
from rota.model.run import Run
from rota.model.sanitize import encode_result
from rota.store import runs as store


class Context:
    """A handler's view of its own run."""

    __slots__ = ("_desk", "_log", "_run", "result")

    def __init__(self, run: Run, desk: Desk) -> None:
        self._run = run
        self._desk = desk
        self._log: RunLogger | None = None
        self.result: Any = None  # what `transaction` stores as the job's result

    @property
    def job_id(self) -> UUID:
        """The job's id, the same in every attempt: a ready-made idempotency key for calls to the outside."""
        return self._run.job_id

    @property
    def run_id(self) -> str:
        """The job's id and the attempt, as in `0198…/2`: what `rota logs --run` takes."""
        return self._run.run_id

    @property
    def correlation_id(self) -> str:
        """What ties this run to others: the `correlation_id` of `triggered_by`, else the job's id."""
        return self._run.correlation_id

    @property
    def task(self) -> str:
        """The task's name."""
        return self._run.task

    @property
    def queue(self) -> str:
        """The queue the job was claimed from."""
        return self._run.queue

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1; every run has its own, also those that do not count."""
        return self._run.attempt

    @property
    def max_attempts(self) -> int:
        """How many attempts that count the job has; those that were snoozed, or lost with a worker, do not."""
        return self._run.max_attempts

    @property
    def is_last_attempt(self) -> bool:
        """Whether a failure of this run would be final."""
        return self._run.charged >= self._run.max_attempts

    @property
    def run_at(self) -> datetime:
        """When the job was due."""
        return self._run.run_at

    @property
    def scheduled_for(self) -> datetime | None:
        """The schedule's instant that this job stands for."""
        value = self._run.details["scheduled_for"] if self._run.details else None
        return datetime.fromisoformat(value) if value else None

    @property
    def key(self) -> str | None:
        """The job's idempotency key."""
        return self._run.details["key"] if self._run.details else None

    @property
    def triggered_by(self) -> dict[str, Any] | None:
        """Who or what made the job, if that was written down."""
        return self._run.details["triggered_by"] if self._run.details else None

    @property
    def canceled(self) -> bool:
        """Whether this run should stop: canceled, timed out, its lease lost, or the worker is stopping.

        A handler that has seen this and returns nothing has stopped; one that returns a result has finished all the same.
        """
        if self._run.interrupted is None:
            return False
        self._run.heard = True
        return True

    @property
    def log(self) -> RunLogger:
        """A logger in the manner of structlog: to the process log at once, and kept with the run in the database."""
        if self._log is None:
            self._log = RunLogger(self._run)
        return self._log

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Says how far the run has come, for others to see; may be called as often as one likes, and never waits."""
        if self._run.book is not None:
            self._run.book.show(self._run, write_progress(self._run, done, total, message))

    def transaction(self) -> JobTransaction:
        """A transaction in which the handler's writes and the job's completion commit together, or not at all.

        `async with ctx.transaction() as conn:` in async handlers, `with` in synchronous ones. Leaving the block completes the
        job; `ctx.result`, if set before, is stored as its result, or says when a recurring row runs next. Raises LeaseLost, and
        rolls back, when the job is no longer ours.
        """
        return JobTransaction(self, self._run, self._desk)

    def connection(self) -> HandlerConnection:
        """A connection to the database for the length of a block, from a pool that the worker's handlers share.

        `async with ctx.connection() as conn:` in async handlers, `with` in synchronous ones. What the handler has not committed by
        then is committed when the block ends, and rolled back when an error ends it. It says nothing of the job, as `transaction`
        does: it is for work in several transactions, which must be safe to do again.
        """
        return HandlerConnection(self._desk)

    def assert_held(self, conn: Any) -> Awaitable[None]:
        """Raises LeaseLost unless this worker still holds the job, and keeps it so until the transaction on `conn` ends.

        Takes every kind of connection that `enqueue` takes. With an async one await the answer: nothing is asked before.
        """
        asked = carry(conn, store.hold(worker=self._desk.worker_id, run=self._run))
        return asked if asked is not None else _Done()


def desk_of(context: Context) -> Desk:
    """What the engine's own handlers need beyond what users' handlers are given."""
    return context._desk


class _Done:
    """An answer that is there already."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


class HandlerConnection(
    AbstractAsyncContextManager["AsyncConnection[tuple[Any, ...]]"],
    AbstractContextManager["Connection[tuple[Any, ...]]"],
):
    """The block of `Context.connection`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._async_block: AbstractAsyncContextManager[AsyncConnection[tuple[Any, ...]]] | None = None
        self._block: AbstractContextManager[Connection[tuple[Any, ...]]] | None = None
        self._conn: Any = None

    async def __aenter__(self) -> AsyncConnection[tuple[Any, ...]]:
        self._async_block = (await self._desk.async_pool()).connection()
        self._conn = await self._async_block.__aenter__()
        return self._conn  # type: ignore[no-any-return]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._async_block is not None
        return await self._async_block.__aexit__(kind, error, trace)

    def __enter__(self) -> Connection[tuple[Any, ...]]:
        self._block = self._desk.pool().connection()
        self._conn = self._block.__enter__()
        return self._conn  # type: ignore[no-any-return]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None:
        assert self._block is not None
        return self._block.__exit__(kind, error, trace)


class JobTransaction(HandlerConnection):
    """The block of `Context.transaction`."""

    def __init__(self, context: Context, run: Run, desk: Desk) -> None:
        super().__init__(desk)
        self._context = context
        self._run = run

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if error is not None:
            return await super().__aexit__(kind, error, trace)
        ending = self._ending()
        try:
            await carry_out_async(AsyncPsycopgCarrier(self._conn), self._complete(ending))
        except BaseException as problem:
            await super().__aexit__(type(problem), problem, problem.__traceback__)
            raise
        await super().__aexit__(None, None, None)
        self._settle(ending)
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None:
        if error is not None:
            return super().__exit__(kind, error, trace)
        ending = self._ending()
        try:
            carry_out(PsycopgCarrier(self._conn), self._complete(ending))
        except BaseException as problem:
            super().__exit__(type(problem), problem, problem.__traceback__)
            raise
        super().__exit__(None, None, None)
        self._settle(ending)
        return None

    def _ending(self) -> tuple[float, str | None]:
        result = self._context.result
        if self._run.is_scheduled:
            next = read_next(result) if isinstance(result, timedelta | datetime) else Next()
            self._run.delay_s = None if next.delay is None else next.delay.total_seconds()
            self._run.next_at = next.at
        return monotonic() - self._run.started, None if result is None else encode_result(result)

    def _complete(self, ending: tuple[float, str | None]) -> Steps[None]:
        took_s, result = ending
        return store.complete_within(worker=self._desk.worker_id, run=self._run, took_s=took_s, result=result)

    def _settle(self, ending: tuple[float, str | None]) -> None:
        # Not before the commit: a thread that outlived its timeout must not touch how its run has ended.
        run = self._run
        run.outcome, run.error = "completed", None
        run.took_s, run.result = ending
        run.state = "completed"
