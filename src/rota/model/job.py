"""A job before it is stored: how it is to be run, its payload, and what it waits for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, TypedDict, Unpack, get_args
from uuid import UUID

from rota.errors import UsageError
from rota.model.duration import Duration, parse_duration
from rota.model.options import JOB_HINTS, refuse_unknown
from rota.model.retry import Retry, check_max_attempts
from rota.model.roundtrip import has_nul, show
from rota.model.task import TaskSpec, check_priority, check_queue_name
from rota.model.vault import hide_drafts

OnParentFailure = Literal["cancel", "fail", "ignore"]

MAX_KEY_BYTES = 512  # of a key, which is indexed, and of an owner


class Enqueued:
    """What an enqueue gives back: the job's id, and whether it was created or was there already under its key."""

    __slots__ = ("_id", "created")

    # By hand, and with the id as text until someone asks, because a bulk enqueue makes hundreds of thousands.
    def __init__(self, id: UUID | str, created: bool = True) -> None:
        self._id = id
        self.created = created

    @property
    def id(self) -> UUID:
        """The job's id."""
        return self._id if isinstance(self._id, UUID) else UUID(self._id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Enqueued) and (str(self._id), self.created) == (str(other._id), other.created)

    def __hash__(self) -> int:
        return hash(str(self._id))

    def __repr__(self) -> str:
        return f"Enqueued(id={str(self._id)!r}, created={self.created})"


Parent = UUID | str | Enqueued


class JobOptions(TypedDict, total=False):
    """What can be said of a job when it is enqueued; None is the task's own setting."""

    delay: Duration | None
    run_at: datetime | None
    priority: int | None
    queue: str | None
    key: str | None
    key_ttl: Duration | None
    strict: bool | None
    max_attempts: int | None
    retry: Retry | None
    timeout: Duration | None
    parents: Iterable[Parent] | None
    on_parent_failure: OnParentFailure | None
    owner: str | None
    triggered_by: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How a job is to be run: its task's settings, with what `using()` changed."""

    task: str
    queue: str
    priority: int
    max_attempts: int
    timeout: timedelta | None = None  # this and the next: None is what the task's are when the job runs
    retry: Retry | None = None
    delay: timedelta | None = None
    run_at: datetime | None = None
    key: str | None = None
    key_ttl: timedelta = timedelta(days=1)
    strict: bool = False
    parents: tuple[str, ...] = ()
    on_parent_failure: OnParentFailure = "cancel"
    owner: str | None = None
    triggered_by: str | None = None  # JSON text
    limited: bool = False  # its task or queue has a limit

    @classmethod
    def of(cls, task: TaskSpec) -> JobSettings:
        """The settings of a task's jobs when nothing else is said."""
        return cls(task.name, task.queue, task.priority, task.max_attempts, limited=task.limited)

    def with_limit(self) -> JobSettings:
        """These settings for a queue that has a limit; the same object each time, by which a batch knows what its jobs share."""
        return self if self.limited else _limited(self)

    def changed(self, **options: Unpack[JobOptions]) -> JobSettings:
        """These settings with others in their place; None leaves one as it is."""
        given = {name: value for name, value in options.items() if value is not None}
        if not given:
            return self
        if given.keys() - _READ.keys():
            refuse_unknown("a job", given, _READ, JOB_HINTS)
        if "delay" in given and "run_at" in given:
            raise UsageError(f"give delay={given['delay']!r} or run_at={given['run_at']!r}, not both")
        changes: dict[str, Any] = {}
        for name, read in _READ.items():
            if name in given:
                changes |= read(given[name])
        settings = replace(self, **changes)
        if settings.strict and settings.key is None:
            raise UsageError("strict=True needs key=: without a key no job is a duplicate")
        return settings


@lru_cache(maxsize=256)
def _limited(settings: JobSettings) -> JobSettings:
    return replace(settings, limited=True)


class NewJob:
    """A job that is not stored yet, for `enqueue_many`; may wait for others of the same call with `after`."""

    __slots__ = ("parents", "payload", "settings")

    def __init__(self, settings: JobSettings, payload: str) -> None:
        self.settings = settings
        self.payload = payload
        self.parents: tuple[NewJob | str, ...] = ()

    def after(self, *parents: NewJob | Parent) -> NewJob:
        """Makes this job wait for `parents`: jobs of the same `enqueue_many`, or stored ones by their id."""
        self.parents += tuple(parent if isinstance(parent, NewJob) else parent_id(parent) for parent in parents)
        return self

    def __repr__(self) -> str:
        payload = hide_drafts(self.payload)
        return f"NewJob({self.settings.task} {payload if len(payload) <= 80 else payload[:80] + '…'})"


def parent_id(parent: Parent | NewJob) -> str:
    """The id of a stored parent as text."""
    if isinstance(parent, Enqueued):
        return str(parent.id)
    if isinstance(parent, NewJob):
        raise UsageError(f"parent {parent!r} is not stored yet: put both in one enqueue_many, with child.after(parent)")
    try:
        return str(parent if isinstance(parent, UUID) else UUID(parent))
    except (ValueError, TypeError, AttributeError):
        raise UsageError(f"parent {parent!r} is not a job: give its id, or what its enqueue returned") from None


def _read_priority(value: int) -> dict[str, Any]:
    check_priority(value)
    return {"priority": value}


def _read_queue(value: str) -> dict[str, Any]:
    check_queue_name(value)
    return {"queue": value}


def _read_retry(value: Retry) -> dict[str, Any]:
    if not isinstance(value, Retry):
        raise UsageError(f"retry={value!r} is not a policy: give a Retry(...)")
    return {"retry": value} if value.max_attempts is None else {"retry": value, "max_attempts": value.max_attempts}


def _read_max_attempts(value: int) -> dict[str, Any]:
    check_max_attempts(value)
    return {"max_attempts": value}


def _read_run_at(value: datetime) -> dict[str, Any]:
    if not isinstance(value, datetime):
        raise UsageError(f"run_at={value!r} is not a datetime; for a time from now give delay=")
    if value.utcoffset() is None:
        raise UsageError(f"run_at={value!r} has no time zone: write datetime(..., tzinfo=UTC), or give delay=")
    try:
        return {"run_at": value.astimezone(UTC), "delay": None}
    except OverflowError:
        raise UsageError(f"run_at={value!r} is out of range: in UTC it is not in the years 1 to 9999") from None


def check_on_parent_failure(value: str) -> None:
    """Refuses a policy that the database does not know."""
    if value not in get_args(OnParentFailure):
        raise UsageError(f"on_parent_failure={value!r} is unknown: give one of {', '.join(get_args(OnParentFailure))}")


def _read_on_parent_failure(value: OnParentFailure) -> dict[str, Any]:
    check_on_parent_failure(value)
    return {"on_parent_failure": value}


def _read_text(name: str, value: str) -> dict[str, Any]:
    try:
        size = len(value.encode())
    except (UnicodeEncodeError, AttributeError):
        raise UsageError(f"{name}={show(value)} is not text that can be stored") from None
    if "\0" in value or not 1 <= size <= MAX_KEY_BYTES:
        raise UsageError(f"{name}={show(value)} is not allowed: it has {size} bytes, of 1 to {MAX_KEY_BYTES}, or a NUL")
    return {name: value}


def encode_object(name: str, value: Mapping[str, Any]) -> str:
    """A mapping as the JSON text of an object that PostgreSQL can store; `name` is the argument that an error speaks of."""
    try:
        text = json.dumps(dict(value), allow_nan=False, ensure_ascii=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{name}={show(value)} cannot be written as a JSON object: {error}") from None
    if has_nul(text):
        raise UsageError(f"{name}={show(value)} has a NUL character, which PostgreSQL cannot store")
    return text


# Each option, checked, as the changes it makes; retry comes before max_attempts, which overrules it.
_READ: dict[str, Callable[[Any], dict[str, Any]]] = {
    "delay": lambda value: {"delay": parse_duration(value, name="delay"), "run_at": None},
    "run_at": _read_run_at,
    "priority": _read_priority,
    "queue": _read_queue,
    "key": lambda value: _read_text("key", value),
    "key_ttl": lambda value: {"key_ttl": parse_duration(value, name="key_ttl", positive=True)},
    "strict": lambda value: {"strict": bool(value)},
    "retry": _read_retry,
    "max_attempts": _read_max_attempts,
    "timeout": lambda value: {"timeout": parse_duration(value, name="timeout", positive=True)},
    "parents": lambda value: {"parents": tuple(parent_id(parent) for parent in value)},
    "on_parent_failure": _read_on_parent_failure,
    "owner": lambda value: _read_text("owner", value),
    "triggered_by": lambda value: {"triggered_by": encode_object("triggered_by", value)},
}
