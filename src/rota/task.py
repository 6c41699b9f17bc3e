"""Tasks as their callers see them: typed after the handler, so that a wrong argument is an error before it runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NoReturn, ParamSpec, Protocol, TypeVar, Unpack, overload

from rota.errors import UnknownTask, UsageError, did_you_mean
from rota.model.job import Enqueued, JobOptions, JobSettings, NewJob
from rota.model.options import METHODS, no_attribute
from rota.model.payload import PayloadSchema
from rota.model.task import TaskSpec, check_task_name
from rota.store.intake import Intake

if TYPE_CHECKING:
    from rota.engine.context import Context

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class BoundTask(Generic[P, R]):
    """A task with settings for the jobs to be enqueued."""

    def __init__(self, spec: TaskSpec, intake: Intake, settings: JobSettings, conn: Any = None) -> None:
        self.spec = spec
        self._intake = intake
        self._settings = settings
        self._conn = conn

    if not TYPE_CHECKING:  # to a type checker every attribute would exist

        def __getattr__(self, name: str) -> NoReturn:
            """Say what to call here for a method that other libraries have, such as `delay`."""
            no_attribute(self, name, METHODS)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """Stores a job that will call the handler with these arguments."""
        return self._intake.insert(self.job(*args, **kwargs), self._conn)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """Like `enqueue`, from an event loop."""
        return await self._intake.ainsert(self.job(*args, **kwargs), self._conn)

    def job(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """A job that is not stored yet, for `enqueue_many`."""
        return NewJob(self._settings, self.spec.payload.encode(args, kwargs))

    def using(self, *, conn: Any = None, **options: Unpack[JobOptions]) -> BoundTask[P, R]:
        """The same task with other settings for its jobs.

        `conn` makes an enqueue part of that connection's transaction. A second job with the same `key` (and task and
        owner) is not created while the first is live or until `key_ttl` is over: the first is returned, or with `strict`
        DuplicateKey raised. The job waits for its `parents` to complete.
        """
        settings = self._settings.changed(**options)
        return BoundTask(self.spec, self._intake, settings, self._conn if conn is None else conn)


class Task(BoundTask[P, R]):
    """A handler whose calls can be enqueued; calling it calls the handler itself."""

    def __init__(self, spec: TaskSpec, intake: Intake) -> None:
        super().__init__(spec, intake, JobSettings.of(spec))
        functools.update_wrapper(self, spec.handler)

    @property
    def name(self) -> str:
        """The name under which workers know the task."""
        return self.spec.name

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        result: R = self.spec.handler(*args, **kwargs)
        return result

    def __repr__(self) -> str:
        return f"<Task {self.spec.name}>"


class Anything:
    """Accepted only by a handler whose first parameter is Any, object or not annotated.

    To a type checker such a parameter could be the context as well as payload, so the arguments go unchecked.
    """


class Definition(Protocol):
    """What `@app.task(...)` gives: it makes a task of the handler below it."""

    @overload
    def __call__(self, handler: Callable[Concatenate[Anything, ...], R], /) -> Task[..., R]: ...
    @overload
    def __call__(self, handler: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, handler: Callable[P, R], /) -> Task[P, R]: ...


def jobs_of_event(
    tasks: Iterable[TaskSpec], event: str, payload: Mapping[str, Any], triggered_by: Mapping[str, Any]
) -> list[NewJob]:
    """Build a job of each task that listens for an event, with what the task has parameters for."""
    return [
        NewJob(JobSettings.of(spec).changed(triggered_by=triggered_by), spec.payload.encode_json(spec.payload.pick(payload)))
        for spec in tasks
        if event in spec.listens
    ]


def unknown_task(name: str, tasks: Mapping[str, TaskSpec]) -> UnknownTask:
    """Return the error about a name that no task has."""
    shown = sorted(each for each, spec in tasks.items() if not spec.system)
    hint = did_you_mean(name, tasks, f"defined are {', '.join(shown) or 'none'}")
    return UnknownTask(f"there is no task {name!r}: {hint}")


def read_handler(handler: Callable[..., Any], name: str | None) -> TaskSpec:
    """What a handler says of its task by itself."""
    if not inspect.isfunction(handler) or inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise UsageError(f"a task is made of a function, def or async def without yield, not of {handler!r}")
    name = handler.__name__ if name is None else name
    check_task_name(name)
    payload, wants_context = PayloadSchema.from_handler(handler, name)
    return TaskSpec(name, handler, payload, wants_context, inspect.iscoroutinefunction(handler))
