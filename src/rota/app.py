"""Rota: where tasks are defined and jobs enqueued; the object that a library user starts from."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

from rota.config import Settings, included_by, load_settings
from rota.config.redirect import redirected, redirecting, settings_at
from rota.db.pool import Pools
from rota.db.single import SingleConnections
from rota.db.steps import Steps
from rota.errors import UsageError
from rota.events import Events
from rota.model.duration import Duration, parse_duration
from rota.model.folders import MigrationFolders
from rota.model.job import Enqueued, JobOptions, JobSettings, NewJob, encode_object
from rota.model.limits import QueueLimits, parse_rate
from rota.model.options import RECURRING_HINTS, refuse_unknown
from rota.model.retry import Retry, policy_of
from rota.model.schedule import Timing
from rota.model.secret import use_keys
from rota.model.task import (
    SYSTEM_PREFIX,
    TaskSpec,
    check_app_name,
    check_event_name,
    check_importable,
    check_max_concurrency,
    check_priority,
    check_queue_name,
    check_schedule,
    check_weight,
)
from rota.model.task_meta import RECURRING_OPTIONS, TaskMeta, with_meta
from rota.modules import alias_main, check_names, import_modules
from rota.recurring import KeyTemplate, Recurring, RecurringDefinition
from rota.schedules import Schedules
from rota.store import hooks
from rota.store.intake import Intake
from rota.task import Anything, Definition, Task, jobs_of_event, read_handler, unknown_task

if TYPE_CHECKING:
    from rota.control.access import Policy
    from rota.control.plane import ControlPlane
    from rota.engine.context import Context
    from rota.engine.worker import Worker
    from rota.model.http_call import CallOptions

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Rota:
    """An application's tasks and queues, and the way to enqueue jobs of them.

    `modules` names the modules that define its tasks, and `shop.tasks.*` a whole package; else `app.modules` does. Creating the
    application does not import them: `import_modules` does, when all tasks are needed.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        settings: Settings | None = None,
        name: str | None = None,
        access: Policy | None = None,
        modules: str | Iterable[str] | None = None,
    ) -> None:
        if dsn is not None and settings is not None:
            raise UsageError("give dsn or settings, not both: the settings have a database.url")
        self.settings = redirected(settings or load_settings(database_url=dsn))
        self._missing_modules = check_names(self.settings.app.modules if modules is None else modules)
        alias_main(sys._getframe(1))
        self.name = self.settings.app.name if name is None else name  # tells it from others that share its database
        check_app_name(self.name)
        use_keys(self.settings.secrets.key, required=self.settings.app.env != "local")
        self.access = access  # who may do what in `control`; None: the default
        self.events = Events()  # what this application's workers say; subscribe before one starts
        self._tasks: dict[str, TaskSpec] = {}
        self._queues: dict[str, int] = {"default": 1}
        self._queue_limits: dict[str, QueueLimits] = {}
        self._intake = Intake(Pools(self.settings.database), self._queues.keys(), self._queue_limits)
        self.routers: list[str] = []  # of FastAPI, as "module:attribute": servers have their routes too
        self.migrations = MigrationFolders()  # by namespace: where SQL files make its tables, as "package:folder"
        self.sealed_columns: list[str] = []  # of its own tables, as "schema.table.column": what `seal` has written
        self.included: dict[str, Any] = {}  # what the `install` of each module has returned
        for module in included_by(self.settings):
            self.include(module)

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
        max_concurrency: int | None = None,
        schedule: Timing | None = None,
        on: str | Iterable[str] = (),
        **meta: Unpack[TaskMeta],
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
        max_concurrency: int | None = None,
        schedule: Timing | None = None,
        on: str | Iterable[str] = (),
        **meta: Unpack[TaskMeta],
    ) -> Any:
        """Makes a task of a handler, under the handler's name unless `name` is given.

        Jobs with a smaller priority run first. With `isolate` the handler runs in a process of its own, which is killed
        at its timeout and may die without hurting its neighbours. At most `max_concurrency` jobs of the task run at once, over all
        workers. With a `schedule`, which `cron`, `every` or `init` makes, the task runs by itself; `on` names the events that
        enqueue it, see `emit`. Operators see its `description` (default: its docstring's first paragraph), `tags` and `fields` of
        your own such as `{"team": "billing"}`. `enabled` holds until they change it; `default_payload` is for its schedule and for
        runs by hand; `retention_days` and `retention_count` are of its history; lists leave out `system` tasks unless asked.
        """

        def define(handler: Callable[..., Any]) -> Task[..., Any]:
            if isolate:
                check_importable(handler)
            spec = replace(
                read_handler(handler, name),
                queue=queue,
                priority=priority,
                retry=policy,
                timeout_s=timeout_s,
                isolate=isolate,
                max_concurrency=max_concurrency,
                schedule=schedule,
                listens=events,
            )
            spec = with_meta(spec, **meta)
            check_schedule(spec)
            self._add(spec)
            return Task(spec, self._intake)

        check_queue_name(queue)
        check_priority(priority)
        events = (on,) if isinstance(on, str) else tuple(on)
        for event in events:
            check_event_name(event)
        if max_concurrency is not None:
            check_max_concurrency(max_concurrency)
        policy = policy_of(retry, max_attempts, retries=self.settings.jobs.max_retries_default)
        timeout_s = None if timeout is None else parse_duration(timeout, name="timeout", positive=True).total_seconds()
        return define if handler is None else define(handler)

    def recurring(
        self,
        *,
        key: str,
        name: str | None = None,
        every: Duration = "1h",
        queue: str = "default",
        priority: int = 0,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        isolate: bool = False,
        max_concurrency: int | None = None,
        history: bool = False,
        always: bool = False,
        **meta: Unpack[TaskMeta],
    ) -> RecurringDefinition:
        """Make a recurring task of a handler: one row per key, which runs again and again when its handler says.

        `key` names the row after the arguments: `"feed:{feed_id}"`. The handler returns the time until its next run (timedelta),
        the time of it (datetime), or None for the interval before, at first `every`. After a failure the row backs off by `retry`.
        Failed runs are kept in the history, successful ones only with `history`. With `always` there is one row, without arguments:
        each start of a worker or server makes sure of it, and disabling it is refused.
        """

        def define(handler: Callable[..., Any]) -> Any:
            refuse_unknown("@app.recurring", meta, [*RECURRING_OPTIONS, *TaskMeta.__annotations__], RECURRING_HINTS)
            template = KeyTemplate(key)
            task = self.task(
                name=name,
                queue=queue,
                priority=priority,
                retry=retry or Retry(base="1m", cap="1h", jitter="5s"),
                timeout=timeout,
                isolate=isolate,
                max_concurrency=max_concurrency,
                **meta,
            )(handler)
            spec = self._tasks[task.name] = template.apply(task.spec, interval, history, always=always)
            return Recurring(spec, self._intake, template, interval, history)

        interval = parse_duration(every, name="every", positive=True)
        return define

    @property
    def schedules(self) -> Schedules:
        """The schedules in the database: make, change, look."""
        self.import_modules()
        return Schedules(self._intake, self._tasks)

    @property
    def queue_limits(self) -> Mapping[str, QueueLimits]:
        """What this application says of the limits of the queues that it declares."""
        return MappingProxyType(self._queue_limits)

    @property
    def control(self) -> ControlPlane:
        """What operators see and do, from an event loop; `control.acting_as(...)` for others than the application itself."""
        from rota.control.access import Access
        from rota.control.plane import ControlPlane

        self.import_modules()
        return ControlPlane(self, self._intake, self.access or Access.of(self.settings))

    def queue(self, name: str, *, weight: int = 1, max_concurrency: int | None = None, rate: str | None = None) -> None:
        """Declare a queue. From one with a weight of 3, workers take three times as much as from one with 1.

        At most `max_concurrency` of its jobs run at once, over all workers; at most as many start as `rate` says: "50/s"."""
        check_queue_name(name)
        check_weight(name, weight)
        if max_concurrency is not None:
            check_max_concurrency(max_concurrency)
        self._queue_limits[name] = QueueLimits(max_concurrency, None if rate is None else parse_rate(rate, name="rate"))
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

    def http_job(self, url: str, *, conn: Any = None, **options: Unpack[CallOptions]) -> Enqueued:
        """Stores a job that calls a URL, by POST unless `method` says otherwise; 2xx is success. Needs http.enabled."""
        return self._intake.insert(self.call(url, **options), conn)

    async def ahttp_job(self, url: str, *, conn: Any = None, **options: Unpack[CallOptions]) -> Enqueued:
        """Like `http_job`, from an event loop."""
        return await self._intake.ainsert(self.call(url, **options), conn)

    def call(self, url: str, **options: Unpack[CallOptions]) -> NewJob:
        """An HTTP job that is not stored yet, for `enqueue_many`."""
        from rota.control.http_jobs import new_job  # here, since most processes make no calls

        return new_job(self.settings, self._tasks.get("http_call"), url, **options)

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

    def emit(self, event: str, payload: Mapping[str, Any] | None = None, *, conn: Any = None) -> list[Enqueued]:
        """Enqueues every task that listens for this event, each with what it has parameters for; `conn` makes it part of that
        connection's transaction. Tasks of other applications on the same database hear it too."""
        return self._intake.transact(self._emission(event, payload or {}), conn, call="emit")

    async def aemit(self, event: str, payload: Mapping[str, Any] | None = None, *, conn: Any = None) -> list[Enqueued]:
        """Like `emit`, from an event loop."""
        return await self._intake.atransact(self._emission(event, payload or {}), conn)

    def definitions(self) -> list[TaskSpec]:
        """Its tasks and Rota's own, as `rota tasks sync` makes them known."""
        from rota.wiring import definitions_of

        self.import_modules()
        return definitions_of(self)

    def worker(self, *, events: Events | None = None, **options: Any) -> Worker:
        """A worker for this application's tasks; `options` are those of WorkerOptions, and overrule the settings."""
        from rota.wiring import worker_of  # here, since most processes only enqueue

        self.import_modules()
        return worker_of(self, events or self.events, options)

    def import_modules(self) -> None:
        """Import the modules that define its tasks; ConfigError says where one of them fails.

        Workers, servers, commands, the pytest plugin, `control` and `schedules` do it, as does `enqueue` by a name that is unknown.
        """
        if self._missing_modules:
            import_modules(self._missing_modules)
            self._missing_modules = ()

    def include(self, module: str, **options: Any) -> Any:
        """Add another application, such as `rota.apps.feeds`, once; return what its module's `install(app, **options)` returned."""
        if module not in self.included:
            self.included[module] = importlib.import_module(module).install(self, **options)
        elif options:
            raise UsageError(f"{module} is included already: give its options where that is done, and leave it out of app.apps")
        return self.included[module]

    @contextmanager
    def connected_to(self, dsn: str) -> Iterator[None]:
        """Works on another database for the length of a block, in processes that are started meanwhile too: for tests."""
        own = self.settings
        self.settings = settings_at(own, dsn)
        try:
            with redirecting(dsn), self._intake.using(SingleConnections(dsn)):
                yield
        finally:
            self.settings = own

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

    def _emission(self, event: str, payload: Mapping[str, Any]) -> Steps[list[Enqueued]]:
        check_event_name(event)
        text = encode_object("payload", payload)
        triggered_by = {"kind": "hook", "hook": event, "operation": "emit"}
        jobs = jobs_of_event(self._tasks.values(), event, payload, triggered_by)
        for job in jobs:
            self._intake.settle(job)
        return hooks.emit(event, text, encode_object("triggered_by", triggered_by), jobs)

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
            self.import_modules()
        if name in self._tasks:
            return self._tasks[name]
        if name.startswith(SYSTEM_PREFIX):
            from rota.wiring import own_task

            if (own := own_task(name)) is not None:
                return own
        raise unknown_task(name, self._tasks)
