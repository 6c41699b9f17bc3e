"""Rota: where tasks are defined and jobs enqueued; the object that a library user starts from."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

from rota.config import Settings, load_settings
from rota.db.pool import Pools
from rota.db.single import SingleConnections
from rota.errors import UnknownTask, UsageError
from rota.events import Events
from rota.model.duration import Duration, parse_duration
from rota.model.job import Enqueued, JobOptions, JobSettings, NewJob
from rota.model.payload import PayloadSchema
from rota.model.retry import Retry, check_max_attempts
from rota.model.task import TaskSpec, check_importable, check_priority, check_queue_name, check_task_name
from rota.store.intake import Intake
from rota.task import Anything, Definition, Task

if TYPE_CHECKING:
    from rota.engine.context import Context
    from rota.engine.worker import Worker

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


_REDIRECT = "ROTA_REDIRECT"  # for processes that a test starts: they must not reach the database that their code names


class Rota:
    """An application's tasks and queues, and the way to enqueue jobs of them."""

    def __init__(self, dsn: str | None = None, *, settings: Settings | None = None) -> None:
        if dsn is not None and settings is not None:
            raise UsageError("give dsn or settings, not both: the settings have a database.url")
        self.settings = _redirected(settings or load_settings(database_url=dsn))
        self.events = Events()  # what this application's workers say; subscribe before one starts
        self._tasks: dict[str, TaskSpec] = {}
        self._queues: dict[str, int] = {"default": 1}
        self._intake = Intake(Pools(self.settings.database), self._queues.keys())

    @property
    def tasks(self) -> Mapping[str, TaskSpec]:
        """The tasks by name."""
        return MappingProxyType(self._tasks)

    @property
    def queues(self) -> Mapping[str, int]:
        """The queues with their weights: those of tasks, and those declared."""
        return MappingProxyType(self._queues)

    @overload
    def task(self, handler: Callable[Concatenate[Anything, ...], R], /) -> Task[..., R]: ...
    @overload
    def task(self, handler: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def task(self, handler: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        handler: None = None,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 0,
        retry: Retry | None = None,
        max_attempts: int | None = None,
        timeout: Duration | None = None,
        isolate: bool = False,
    ) -> Definition: ...
    def task(
        self,
        handler: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 0,
        retry: Retry | None = None,
        max_attempts: int | None = None,
        timeout: Duration | None = None,
        isolate: bool = False,
    ) -> Any:
        """Makes a task of a handler, under the handler's name unless `name` is given.

        Jobs with a smaller priority run first. With `isolate` the handler runs in a process of its own, which is killed
        at its timeout and may die without hurting its neighbours.
        """

        def define(handler: Callable[..., Any]) -> Task[..., Any]:
            if isolate:
                check_importable(handler)
            spec = replace(
                _read_handler(handler, name),
                queue=queue,
                priority=priority,
                retry=policy,
                timeout_s=timeout_s,
                isolate=isolate,
            )
            self._add(spec)
            return Task(spec, self._intake)

        check_queue_name(queue)
        check_priority(priority)
        policy = self._retry_policy(retry, max_attempts)
        timeout_s = None if timeout is None else parse_duration(timeout, name="timeout", positive=True).total_seconds()
        return define if handler is None else define(handler)

    def queue(self, name: str, *, weight: int = 1) -> None:
        """Declares a queue; from one with a weight of 3 workers take three times as much as from one with 1."""
        check_queue_name(name)
        if isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= 1000:
            raise UsageError(f"weight={weight!r} of queue {name!r} is out of range: from 1 to 1000")
        self._queues[name] = weight

    def enqueue(
        self, task: str, payload: Mapping[str, Any] | str = "{}", *, conn: Any = None, **options: Unpack[JobOptions]
    ) -> Enqueued:
        """Stores a job of the task with that name; the payload is JSON, as text or as plain values."""
        return self._intake.insert(self.job(task, payload, **options), conn)

    async def aenqueue(
        self, task: str, payload: Mapping[str, Any] | str = "{}", *, conn: Any = None, **options: Unpack[JobOptions]
    ) -> Enqueued:
        """Like `enqueue`, from an event loop."""
        return await self._intake.ainsert(self.job(task, payload, **options), conn)

    def job(self, task: str, payload: Mapping[str, Any] | str = "{}", **options: Unpack[JobOptions]) -> NewJob:
        """A job of the task with that name that is not stored yet, for `enqueue_many`."""
        spec = self._spec(task)
        return NewJob(JobSettings.of(spec).changed(**options), spec.payload.encode_json(payload))

    def enqueue_many(self, jobs: Iterable[NewJob], *, conn: Any = None) -> list[Enqueued]:
        """Stores all of the jobs or none, fast; the results are in the order of the jobs."""
        return self._intake.insert_many(jobs, conn)

    async def aenqueue_many(self, jobs: Iterable[NewJob], *, conn: Any = None) -> list[Enqueued]:
        """Like `enqueue_many`, from an event loop."""
        return await self._intake.ainsert_many(jobs, conn)

    def worker(self, *, events: Events | None = None, **options: Any) -> Worker:
        """A worker for this application's tasks; `options` are those of WorkerOptions, and overrule the settings."""
        from rota.engine.options import WorkerOptions  # here, since most processes only enqueue
        from rota.engine.worker import Worker

        jobs = self.settings.jobs
        chosen: dict[str, Any] = {
            "queues": jobs.queues or dict(self._queues),
            "concurrency": jobs.worker_concurrency,
            "poll_interval_s": jobs.poll_interval_ms / 1000,
            "lease_s": jobs.lease_duration_s,
            "heartbeat_s": jobs.heartbeat_s,
            "shutdown_timeout_s": jobs.shutdown_timeout_s,
            "pooled": self.settings.database.pooled,
        }
        return Worker(self.settings.database.dsn, self.tasks, WorkerOptions(**{**chosen, **options}), events or self.events)

    @contextmanager
    def connected_to(self, dsn: str) -> Iterator[None]:
        """Works on another database for the length of a block, in processes that are started meanwhile too: for tests."""
        own, outer = self.settings, os.environ.get(_REDIRECT)
        self.settings = _at(own, dsn)
        os.environ[_REDIRECT] = f"{os.getpid()} {dsn}"
        try:
            with self._intake.using(SingleConnections(dsn)):
                yield
        finally:
            self.settings = own
            if outer is None:
                del os.environ[_REDIRECT]
            else:
                os.environ[_REDIRECT] = outer

    def close(self) -> None:
        """Closes the connections of `enqueue`; the next one opens them again."""
        self._intake.close()

    async def aclose(self) -> None:
        """Closes the connections of `enqueue`, and of `aenqueue` in this event loop."""
        await self._intake.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    def _retry_policy(self, retry: Retry | None, max_attempts: int | None) -> Retry:
        if retry is None:
            retry = Retry(max_attempts=1 + self.settings.jobs.max_retries_default)
        if max_attempts is None:
            return retry
        check_max_attempts(max_attempts)
        return replace(retry, max_attempts=max_attempts)

    def _add(self, spec: TaskSpec) -> None:
        if spec.name in self._tasks:
            known = self._tasks[spec.name].handler
            raise UsageError(
                f"there is a task {spec.name!r} already, {known.__module__}.{known.__qualname__}: "
                'give one of them another name with @app.task(name="...")'
            )
        self._tasks[spec.name] = spec
        self._queues.setdefault(spec.queue, 1)

    def _spec(self, name: str) -> TaskSpec:
        if name not in self._tasks:
            near = get_close_matches(name, self._tasks, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"defined are {', '.join(sorted(self._tasks)) or 'none'}"
            raise UnknownTask(f"there is no task {name!r}: {hint}")
        return self._tasks[name]


def _at(settings: Settings, dsn: str) -> Settings:
    return settings.model_copy(update={"database": settings.database.model_copy(update={"url": dsn, "pooled": False})})


def _redirected(settings: Settings) -> Settings:
    owner, _, dsn = os.environ.get(_REDIRECT, "").partition(" ")
    return _at(settings, dsn) if dsn and owner != str(os.getpid()) else settings


def _read_handler(handler: Callable[..., Any], name: str | None) -> TaskSpec:
    if not inspect.isfunction(handler) or inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise UsageError(f"a task is made of a function, def or async def without yield, not of {handler!r}")
    name = handler.__name__ if name is None else name
    check_task_name(name)
    payload, wants_context = PayloadSchema.from_handler(handler, name)
    return TaskSpec(name, handler, payload, wants_context, inspect.iscoroutinefunction(handler))
