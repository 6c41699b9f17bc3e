"""What the engine knows of a task: the handler and how to run it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from rota.errors import UsageError
from rota.model.limits import check_concurrency
from rota.model.payload import PayloadSchema
from rota.model.retry import Retry
from rota.model.schedule import Timing
from rota.model.vault import records_of

TaskStrategy = Literal["on_demand", "cron", "interval", "init", "event", "recurring"]

SYSTEM_PREFIX = "rota."  # of the names of Rota's own tasks and their schedules
FieldValue = str | int | float | bool

DEFAULT_APP = "default"  # what an application is called that nobody has named
MAX_ATTEMPTS = 4  # of a task that says nothing and belongs to no application, whose settings would

_TASK_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,199}")
_EVENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,49}")
_QUEUE_NAME = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,62}")


@dataclass(frozen=True, slots=True)
class AlwaysRow:
    """The one row of a recurring task that is always on."""

    key: str
    every: timedelta
    keep_successes: bool


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task as defined in code."""

    name: str
    handler: Callable[..., Any]
    payload: PayloadSchema
    wants_context: bool
    is_async: bool
    queue: str = "default"
    priority: int = 0
    retry: Retry = field(default_factory=Retry)
    timeout_s: float | None = None
    isolate: bool = False
    max_concurrency: int | None = None  # jobs of it that may run at once, over all workers
    rate: str | None = None  # starts of it, as stored: 100/60s
    concurrency_key: str | None = None  # the next two are of each key: {customer_id}
    key_concurrency: int | None = None
    key_rate: str | None = None
    listens: tuple[str, ...] = ()  # the events that enqueue it
    schedule: Timing | None = None
    recurring: bool = False  # the handler returns when to run next
    always: AlwaysRow | None = None  # of a recurring task: the row that each start makes sure of
    each_sync: bool = False  # of schedule=init: at each sync, not once ever
    description: str = ""
    tags: tuple[str, ...] = ()
    fields: tuple[tuple[str, FieldValue], ...] = ()  # of the users' own, by name
    enabled: bool = True  # when it is first seen; from then on operators say so
    default_payload: str = "{}"  # JSON: of its schedule's jobs, and of who triggers it by hand
    retention_days: int | None = None  # None: as for all tasks
    retention_count: int | None = None
    system: bool = False  # shown to those only who ask for it, as are Rota's own
    slots: int = 0  # further jobs of it that a worker runs at a time, beside its concurrency

    @property
    def limited(self) -> bool:
        """Whether its jobs wait for a place."""
        return not (self.max_concurrency is None and self.rate is None and self.concurrency_key is None)

    @property
    def strategy(self) -> TaskStrategy:
        """What makes it run."""
        if self.recurring:
            return "recurring"
        if self.schedule is not None:
            return self.schedule.strategy
        return "event" if self.listens else "on_demand"

    @property
    def run_once(self) -> bool:
        """Whether it runs once ever, until it has succeeded."""
        return self.strategy == "init" and not self.each_sync

    @property
    def max_attempts(self) -> int:
        """How often a job of it is tried."""
        return self.retry.max_attempts or MAX_ATTEMPTS


def versions_of(specs: Iterable[TaskSpec]) -> dict[str, str]:
    """Return what tells a version of each task from others: the schema of its payload."""
    return {spec.name: spec.payload.version for spec in sorted(specs, key=lambda spec: spec.name)}


def check_task_name(name: str) -> None:
    """Refuses a name that would not work in URLs, metrics and the command line."""
    if not isinstance(name, str) or not _TASK_NAME.fullmatch(name):
        raise UsageError(f"task name {name!r} is not allowed: letters, digits and _ . : - only, at most 200, no digit first")
    if name.startswith(SYSTEM_PREFIX):
        raise UsageError(f"task name {name!r} is not allowed: names that begin with {SYSTEM_PREFIX!r} are Rota's own")


def check_event_name(name: str) -> None:
    """Refuses a name of an event that the database would refuse."""
    if not isinstance(name, str) or not _EVENT_NAME.fullmatch(name):
        raise UsageError(f"event name {name!r} is not allowed: letters, digits and _ . : - only, at most 50, no digit first")


def check_queue_name(name: str) -> None:
    """Refuses a queue name that the database would refuse."""
    if not isinstance(name, str) or not _QUEUE_NAME.fullmatch(name):
        raise UsageError(f"queue name {name!r} is not allowed: small letters, digits and _ . - only, at most 63")


def check_weight(queue: str, value: int) -> None:
    """Refuse a queue's weight that workers could not share their slots by."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1000:
        raise UsageError(f"weight={value!r} of queue {queue!r} is out of range: from 1 to 1000")


def check_importable(handler: Callable[..., Any]) -> None:
    """Refuses a handler that another process could not find by its module and name."""
    module, name = getattr(handler, "__module__", None), getattr(handler, "__qualname__", None)
    if module is None or name is None:
        raise UsageError(f"{handler!r} cannot run in a process of its own, which would not find it: it has no name")
    if "<" in name:  # <locals>, <lambda>
        raise UsageError(
            f"{module}.{name} cannot run in a process of its own, which would not find it: define it at the top level of its module"
        )
    if module == "__main__" and getattr(sys.modules["__main__"], "__file__", None) is None:
        raise UsageError(f"{name} cannot run in a process of its own, which would not find it: define it in a file")


def check_max_concurrency(value: int) -> None:
    """Refuses a limit that the database would refuse."""
    check_concurrency(value, name="max_concurrency")


def check_app_name(name: str) -> None:
    """Refuses a name of an application that could not be told from others."""
    if not isinstance(name, str) or not _QUEUE_NAME.fullmatch(name):
        raise UsageError(f"application name {name!r} is not allowed: small letters, digits and _ . - only, at most 63")


def check_priority(value: int) -> None:
    """Refuses a priority that the database would refuse."""
    if isinstance(value, bool) or not isinstance(value, int) or not -32768 <= value <= 32767:
        raise UsageError(f"priority={value!r} is out of range: from -32768 (first) to 32767 (last)")


def check_schedule(spec: TaskSpec) -> None:
    """Refuses a schedule for a task that cannot run without arguments."""
    if spec.schedule is None:
        return
    if not isinstance(spec.schedule, Timing):
        raise UsageError(f"schedule={spec.schedule!r} of task {spec.name!r} is not a schedule: give cron(...), every(...) or init")
    try:
        spec.payload.encode_json(spec.default_payload, records_of(spec.name))
    except UsageError as error:
        raise UsageError(
            f"task {spec.name!r} has a schedule, so its parameters need defaults, or it a default_payload: {error}"
        ) from None
