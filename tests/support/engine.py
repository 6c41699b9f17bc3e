"""Workers inside the test's own event loop, and a short way to define tasks, enqueue jobs and see what became of them."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import UUID

import psycopg
from psycopg.rows import namedtuple_row
from tests.support.wait import PATIENCE_S, until

from rota.engine.options import WorkerOptions
from rota.engine.worker import Worker
from rota.events import Event, Events, WorkerStarted
from rota.model.ids import new_id
from rota.model.payload import PayloadSchema
from rota.model.retry import Retry
from rota.model.secret import Record
from rota.model.task import TaskSpec
from rota.model.vault import seal_payload

E = TypeVar("E", bound=Event)

_INSERT = """
SELECT job_id, outcome FROM rota.insert_job(
    %(id)s, %(task)s, %(payload)s::text::json, %(queue)s, %(priority)s, NULL, %(delay)s, %(max_attempts)s, %(timeout)s,
    %(retry)s::text::json, NULL, NULL, NULL, NULL, %(parents)s::uuid[], %(on_parent_failure)s,
    new_limited => %(limited)s)
"""


def spec(handler: Callable[..., Any], name: str | None = None, **settings: Any) -> TaskSpec:
    """Make a task of a handler."""
    schema, wants_context = PayloadSchema.from_handler(handler, name)
    is_async = inspect.iscoroutinefunction(handler)
    return TaskSpec(name or handler.__name__, handler, schema, wants_context, is_async, **settings)


class Engine:
    """The tasks of a test, its jobs, its workers, and everything that they said."""

    def __init__(self, dsn: str, conn: psycopg.Connection[Any]) -> None:
        self.dsn = dsn
        self.conn = conn
        self.tasks: dict[str, TaskSpec] = {}
        self.events: list[Event] = []

    def task(self, handler: Callable[..., Any] | None = None, /, **settings: Any) -> Any:
        """Define a task; a decorator, with settings or without."""

        def define(handler: Callable[..., Any]) -> TaskSpec:
            task = spec(handler, **settings)
            self.tasks[task.name] = task
            return task

        return define if handler is None else define(handler)

    def enqueue_sealed(self, task: str, payload: str, **options: Any) -> UUID:
        """Store a job whose payload has secrets."""
        id = new_id()
        sealed = seal_payload(payload, Record("job", str(id)), task)
        return self.enqueue(task, json.loads(sealed), id=id, **options)

    def enqueue(
        self,
        task: TaskSpec | str,
        payload: dict[str, Any] | None = None,
        *,
        queue: str = "default",
        priority: int = 0,
        delay: timedelta | None = None,
        max_attempts: int = 4,
        timeout: timedelta | None = None,
        retry: Retry | None = None,
        parents: Iterable[UUID] = (),
        on_parent_failure: str = "cancel",
        conn: psycopg.Connection[Any] | None = None,
        id: UUID | None = None,
    ) -> UUID:
        """Store a job by the function that every way of enqueuing comes down to."""
        row = (
            (conn or self.conn)
            .execute(
                _INSERT,
                {
                    "id": id or new_id(),
                    "task": task if isinstance(task, str) else task.name,
                    "payload": json.dumps(payload or {}),
                    "queue": queue,
                    "priority": priority,
                    "delay": delay,
                    "max_attempts": max_attempts,
                    "timeout": timeout,
                    "retry": None if retry is None else json.dumps(retry.to_json()),
                    "parents": list(parents),
                    "on_parent_failure": on_parent_failure,
                    "limited": not isinstance(task, str) and task.limited,
                },
            )
            .fetchone()
        )
        assert row is not None
        assert row[1] == "created", row[1]
        return row[0]

    def fill(self, task: TaskSpec | str, count: int, *, queue: str = "default") -> None:
        """Store many plain jobs at once."""
        name = task if isinstance(task, str) else task.name
        self.conn.execute(
            "INSERT INTO rota.job (id, task, queue) SELECT rota.uuid7(), %s, %s FROM generate_series(1, %s)", [name, queue, count]
        )
        self.conn.execute("SELECT rota.wake()")

    def job(self, id: UUID) -> Any:
        """Read a job, live or finished, with its public state."""
        cursor = self.conn.cursor(row_factory=namedtuple_row)
        return cursor.execute("SELECT * FROM rota.jobs WHERE id = %s", [id]).fetchone()

    def row(self, id: UUID) -> Any:
        """Read a live job as it is stored."""
        return self.conn.cursor(row_factory=namedtuple_row).execute("SELECT * FROM rota.job WHERE id = %s", [id]).fetchone()

    def runs(self, id: UUID) -> list[Any]:
        """Read the finished attempts at a job, in their order."""
        cursor = self.conn.cursor(row_factory=namedtuple_row)
        return cursor.execute("SELECT * FROM rota.run WHERE job_id = %s ORDER BY attempt", [id]).fetchall()

    def outcomes(self, id: UUID) -> list[str]:
        """Tell how each attempt at a job ended."""
        return [run.outcome for run in self.runs(id)]

    def state(self, id: UUID) -> str:
        """Tell a job's public state."""
        job = self.job(id)
        assert job is not None, f"no job {id}"
        return job.state  # type: ignore[no-any-return]

    def count(self, what: str = "rota.job") -> int:
        """Count rows: of a table, or of a table with a WHERE."""
        row = self.conn.execute(f"SELECT count(*) FROM {what}").fetchone()
        assert row is not None
        return row[0]  # type: ignore[no-any-return]

    async def ended(self, *ids: UUID, state: str = "completed", deadline_s: float = PATIENCE_S) -> None:
        """Wait until these jobs have come to this state."""

        def arrived() -> bool:
            reached = "SELECT count(*) FROM rota.jobs WHERE id = ANY (%s) AND state = %s"
            return self.conn.execute(reached, [list(ids), state]).fetchone() == (len(ids),)

        await until(arrived, deadline_s, f"{len(ids)} jobs {state}")

    async def drained(self, deadline_s: float = PATIENCE_S) -> None:
        """Wait until no live job is left."""
        await until(lambda: self.count() == 0, deadline_s, "no live job")

    def seen(self, kind: type[E]) -> list[E]:
        """What was emitted of this kind so far."""
        return [event for event in list(self.events) if isinstance(event, kind)]

    def make_worker(self, *, dsn: str | None = None, **options: Any) -> Worker:
        """Make a worker of the test's tasks that is not running yet."""
        events = Events()
        events.subscribe(Event, self.events.append)
        return Worker(dsn or self.dsn, self.tasks, WorkerOptions(**options), events)

    @asynccontextmanager
    async def worker(self, *, dsn: str | None = None, **options: Any) -> AsyncIterator[Worker]:
        """Run a worker for the length of a block, and stop it in order at the end."""
        worker = self.make_worker(dsn=dsn, **{"shutdown_timeout_s": PATIENCE_S / 2, **options})
        started = asyncio.Event()
        worker.events.subscribe(WorkerStarted, lambda _: started.set())
        running = asyncio.create_task(worker.run())
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait({running, waiting}, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        try:
            assert started.is_set(), "the worker did not start"
            yield worker
        finally:
            worker.stop()
            done, _ = await asyncio.wait({running}, timeout=PATIENCE_S)
            if not done:
                running.cancel()
                await asyncio.wait({running}, timeout=PATIENCE_S)
        assert done, "the worker did not stop"
        running.result()

    def hold(self, id: UUID, *, worker: UUID | None = None, lease_s: float = 300.0) -> SimpleNamespace:
        """Claim a queued job for a worker that does nothing with it."""
        worker = worker or new_id()
        row = self.conn.execute(
            """UPDATE rota.job SET state = 'running', worker_id = %s, token = token + 1, attempt = attempt + 1,
                      claimed_at = rota.now(), lease_until = rota.now() + make_interval(secs => %s)
               WHERE id = %s AND state = 'queued' RETURNING token, attempt""",
            [worker, lease_s, id],
        ).fetchone()
        assert row is not None, f"job {id} is not queued"
        return SimpleNamespace(id=id, worker=worker, token=row[0], attempt=row[1])

    def take_away(self, id: UUID) -> None:
        """Return a running job to the queue behind its worker's back, as a rescuer does."""
        with self.conn.transaction():  # or a worker's own rescuer would come first
            self.conn.execute("UPDATE rota.job SET lease_until = rota.now() - interval '1 s' WHERE id = %s", [id])
            assert self.conn.execute("SELECT job_id FROM rota.rescue_runs('{}')").fetchall() == [(id,)]
