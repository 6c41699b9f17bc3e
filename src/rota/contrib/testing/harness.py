"""What a test sees of Rota: the jobs it has enqueued, a way to run them, and the clock."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from rota.app import Rota
from rota.contrib.testing.clock import Clock
from rota.db import migrations
from rota.engine.drain import Drain
from rota.engine.journal import Journal
from rota.engine.options import WorkerOptions
from rota.errors import PayloadError, UsageError
from rota.events import Events, RunRaised
from rota.model.duration import Duration, parse_duration
from rota.model.filters import JobFilter
from rota.model.task import TaskSpec
from rota.model.vault import records_of
from rota.store import tasks
from rota.store.jobs_read import JobRecord
from rota.task import BoundTask

SHOWN = 20  # jobs in the message of a failed assertion

_COLUMNS = sql.SQL(", ").join(sql.Identifier(field.name) for field in dataclasses.fields(JobRecord))
_STORED = """SELECT payload::text FROM rota.job WHERE id = %(id)s
             UNION ALL SELECT payload::text FROM rota.run WHERE job_id = %(id)s AND final"""
_ALL_JOBS = sql.SQL("SELECT {} FROM rota.jobs ORDER BY id").format(_COLUMNS)


class Harness:
    """The fixture `rota`: an application on a database of the test's own."""

    def __init__(self, app: Rota, dsn: str, conn: psycopg.Connection[Any]) -> None:
        self.app = app
        self.dsn = dsn
        self._conn = conn

    def jobs(self, task: BoundTask[..., Any] | str | None = None, state: str | None = None) -> list[JobRecord]:
        """The jobs of this test, live and finished, in the order in which they were enqueued."""
        wanted = JobFilter(states=[] if state is None else [state])  # refuses a state that does not exist
        name = None if task is None else self._spec(task).name
        with self._conn.cursor(row_factory=class_row(JobRecord)) as cursor:
            jobs = cursor.execute(_ALL_JOBS).fetchall()
        return [job for job in jobs if name in (None, job.task) and (not wanted.states or job.state in wanted.states)]

    def assert_enqueued(self, task: BoundTask[..., Any] | str, /, *, _count: int | None = None, **arguments: Any) -> None:
        """Fails unless a job of the task with these arguments was enqueued, or exactly `_count` of them.

        Arguments that are not named may be anything. Jobs that have run since count too.
        """
        __tracebackhide__ = True
        spec = self._spec(task)
        found = self._count(spec, arguments)
        if found == 0 and _count is None:
            raise AssertionError(f"no job {_call(spec.name, arguments)} was enqueued; {self._describe(spec)}")
        if _count is not None and found != _count:
            raise AssertionError(f"{found} jobs {_call(spec.name, arguments)} were enqueued, not {_count}; {self._describe(spec)}")

    def assert_not_enqueued(self, task: BoundTask[..., Any] | str, /, **arguments: Any) -> None:
        """Fails if a job of the task with these arguments was enqueued."""
        __tracebackhide__ = True
        spec = self._spec(task)
        if self._count(spec, arguments):
            raise AssertionError(f"a job {_call(spec.name, arguments)} was enqueued; {self._describe(spec)}")

    async def drain(
        self, travel: Duration | None = None, *, raise_errors: bool = False, concurrency: int = 1, max_runs: int = 10_000
    ) -> dict[str, int]:
        """Runs what is due, and what that makes due, until nothing is; tells how many runs ended how.

        With `travel` the clock then goes on by so much, with a stop at each moment at which a delayed job, a retry or a snoozed
        job becomes due. What a handler raises is recorded as it would be by a worker; `raise_errors` raises it here as well.
        With one slot, jobs run one after the other in a fixed order; `concurrency` gives them more.
        """
        if concurrency < 1:
            raise UsageError(f"concurrency={concurrency!r} is out of range: at least 1")
        until = None if travel is None else self.now() + parse_duration(travel, name="travel")
        errors: list[BaseException] = []
        ended: Counter[str] = Counter()
        events = Events()
        events.subscribe(RunRaised, lambda event: errors.append(event.error))
        Journal(events, "drain")
        options = WorkerOptions(queues=dict(self.app.queues), concurrency=concurrency)
        arrived = False
        async with Drain(self.dsn, self.app.tasks, options, events) as drain:
            while True:
                runs = await drain.run_once()
                ended.update(run.outcome or "lost" for run in runs)
                if errors and raise_errors:
                    raise errors[0]
                if ended.total() > max_runs:
                    raise UsageError(_endless(max_runs, runs[-1].task))
                if runs:
                    continue
                if arrived or until is None:
                    return dict(ended)
                arrived = self._go_on(drain.next_s, until)

    def drain_sync(
        self, travel: Duration | None = None, *, raise_errors: bool = False, concurrency: int = 1, max_runs: int = 10_000
    ) -> dict[str, int]:
        """`drain` for tests that are not async."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.drain(travel, raise_errors=raise_errors, concurrency=concurrency, max_runs=max_runs))
        raise UsageError("drain_sync() inside a running event loop would block it: use `await rota.drain()`")

    def now(self) -> datetime:
        """The time as the database's functions see it."""
        return self._clock.now()

    def travel(self, by: Duration) -> None:
        """Moves the clock that decides what is due; `drain` runs it."""
        self._clock.move(parse_duration(by, name="by"))

    def freeze(self, at: datetime | None = None) -> None:
        """Stops the clock, now or at the moment given; `travel` still moves it."""
        self._clock.freeze(at)

    def close(self) -> None:
        """Leaves the clock at the real time: the next test may use the same database."""
        if "_clock" in vars(self):
            self._clock.reset()

    @cached_property
    def _clock(self) -> Clock:
        return Clock(self._conn)

    def _go_on(self, next_s: float | None, until: datetime) -> bool:
        """Moves the clock to the next job that becomes due, or to `until`; says whether it has come there.

        There one has to look once more: the next job was looked up a moment ago, and may be due there too.
        """
        left = until - self.now()
        next_due = left if next_s is None else timedelta(seconds=next_s)
        self._clock.move(max(min(next_due, left), timedelta(0)))
        return next_due >= left

    def _spec(self, task: BoundTask[..., Any] | str) -> TaskSpec:
        name = task if isinstance(task, str) else task.spec.name
        if name not in self.app.tasks:
            known = ", ".join(sorted(each for each, spec in self.app.tasks.items() if not spec.system)) or "none"
            raise UsageError(f"the application under test has no task {name!r}; it has: {known}")
        return self.app.tasks[name]

    def _count(self, spec: TaskSpec, arguments: dict[str, Any]) -> int:
        parameters = _parameters(spec)
        for name in arguments:
            if name not in parameters:
                raise UsageError(f"{spec.name} has no parameter {name!r}; it has: {', '.join(parameters) or 'none'}")
        calls = (_arguments(spec, job, self._stored(job)) for job in self.jobs(spec.name))
        return sum(all(name in call and call[name] == value for name, value in arguments.items()) for call in calls)

    def _stored(self, job: JobRecord) -> str:
        """The payload with its secrets, which lists of jobs do not show."""
        row = self._conn.execute(_STORED, {"id": job.id}).fetchone()
        return "{}" if row is None else str(row[0])

    def _describe(self, spec: TaskSpec) -> str:
        """What was enqueued instead, for messages."""
        jobs = self.jobs()
        of_task = [job for job in jobs if job.task == spec.name]
        if not jobs:
            return "nothing was (a transaction that has not been committed cannot be seen)"
        if not of_task:
            others = ", ".join(f"{name} ({count})" for name, count in Counter(job.task for job in jobs).items())
            return f"what was enqueued is of other tasks: {others}"
        lines = [f"  {_call(spec.name, _arguments(spec, job, self._stored(job)))} {job.state}" for job in of_task[:SHOWN]]
        more = [f"  and {len(of_task) - SHOWN} more"] if len(of_task) > SHOWN else []
        return "\n".join(["the jobs of this task are:", *lines, *more])


@contextmanager
def harness(app: Rota, dsn: str) -> Iterator[Harness]:
    """Let an application work on this database for a block. The database gets its tasks, and the tables of what it includes."""
    app.import_modules()
    with app.connected_to(dsn), psycopg.connect(dsn, autocommit=True, application_name="rota test") as conn:
        if app.migrations:
            migrations.up(conn, app.migrations)
        tasks.sync(conn, tasks=app.tasks.values(), queues=list(app.queues), limits=app.queue_limits)
        rota = Harness(app, dsn, conn)
        try:
            yield rota
        finally:
            rota.close()


def _parameters(spec: TaskSpec) -> dict[str, inspect.Parameter]:
    parameters = list(inspect.signature(spec.handler).parameters.values())
    return {each.name: each for each in parameters[1 if spec.wants_context else 0 :]}


def _arguments(spec: TaskSpec, job: JobRecord, stored: str) -> dict[str, Any]:
    """What the handler is called with: the payload as it is stored, and the defaults of what is not in it."""
    given: dict[str, Any] = job.payload
    with suppress(PayloadError):  # enqueued by SQL that went past the schema: it is shown as it is
        given = spec.payload.decode(stored, records_of(spec.name, job=job.id, owner=job.owner, schedule=job.schedule_id))
    defaults = {name: each.default for name, each in _parameters(spec).items() if each.default is not each.empty}
    return {**defaults, **given}


def _call(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{each}={value!r}' for each, value in arguments.items())})"


def _endless(max_runs: int, task: str) -> str:
    return (
        f"more than {max_runs} jobs have run, the last one of {task}, and there is no end: does a task enqueue itself, or snooze "
        "for no time? If so many are meant, give max_runs"
    )
