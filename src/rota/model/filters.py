"""Which jobs and runs are meant: the filters that lists and bulk operations share."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from rota.errors import UsageError

LIVE_STATES = ("waiting", "queued", "running")
FINISHED_STATES = ("completed", "failed", "canceled")
JOB_STATES = (*LIVE_STATES, *FINISHED_STATES)
MAX_PATH = 20  # names, one in the other
MAX_VALUE = 500
MAX_MATCHES = 10
MAX_IDS = 1000
RUN_STATUSES = ("running", "completed", "failed", "canceled", "snoozed", "released", "lost")

_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?")


@dataclass(frozen=True, slots=True)
class PayloadMatch:
    """Something that a payload must have at a path: text, a number, true, false or null, all compared as they are written."""

    path: tuple[str, ...]
    value: str  # with * and ? unless it is `exact`
    exact: bool = False

    def __post_init__(self) -> None:
        if not 1 <= len(self.path) <= MAX_PATH or not all(self.path):
            raise UsageError(f"payload path {'.'.join(self.path)!r} is out of range: from 1 to {MAX_PATH} names")
        for name in (*self.path, self.value):
            check_text("payload", name)
            if len(name) > MAX_VALUE:
                raise UsageError(f"payload.{'.'.join(self.path)[:40]} is too long: at most {MAX_VALUE} characters")

    @property
    def is_pattern(self) -> bool:
        """Whether the value is a pattern with * and ?."""
        return not self.exact and ("*" in self.value or "?" in self.value)

    @property
    def writings(self) -> list[str]:
        """The ways in which the same value may be written: 42 is 42.0, too."""
        if self.exact or not _NUMBER.fullmatch(self.value):
            return [self.value]
        whole, _, part = self.value.partition(".")
        return [self.value, whole] if part and not part.strip("0") else [self.value] if part else [self.value, f"{whole}.0"]


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Jobs in one of `states` (none named: in any) for which everything else that is given holds too."""

    states: Collection[str] = ()
    task: str | None = None  # a name, or a pattern with * and ?
    queue: str | None = None
    key: str | None = None
    text: str | None = None  # somewhere in the error, small and capital letters alike
    since: datetime | timedelta | None = None  # created then or later; a timedelta counts back from the database's now
    fingerprint: str | None = None  # of the error
    until: datetime | timedelta | None = None  # created before
    owner: str | None = None  # the account whose job it is
    payload: tuple[PayloadMatch, ...] = ()
    ids: Collection[UUID] = ()  # one of these jobs

    def __post_init__(self) -> None:
        for state in self.states:
            if state not in JOB_STATES:
                raise UsageError(f"state={state!r} is not a state of jobs: one of {', '.join(JOB_STATES)}")
        for name in ("task", "queue", "key", "text", "fingerprint", "owner"):
            check_text(name, getattr(self, name))
        if len(self.ids) > MAX_IDS:
            raise UsageError(f"{len(self.ids)} jobs are named: at most {MAX_IDS} at a time")
        if len(self.payload) > MAX_MATCHES:
            raise UsageError(f"payload has {len(self.payload)} conditions: at most {MAX_MATCHES}")
        for name in ("since", "until"):
            _check_moment(name, getattr(self, name))

    @property
    def narrows(self) -> bool:
        """Whether anything is given at all."""
        return any(getattr(self, field.name) for field in dataclasses.fields(self))

    @property
    def exact_task(self) -> str | None:
        """The task, when it is a name and not a pattern."""
        return _exact(self.task)

    def within(self, states: Collection[str], *, to: str) -> JobFilter:
        """The same filter over the states that an operation (named by `to`) applies to; others cannot be asked for."""
        for state in self.states:
            if state not in states:
                raise UsageError(f"state={state!r} cannot be asked for: jobs to {to} are {', '.join(states)}")
        return dataclasses.replace(self, states=tuple(self.states or states))


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Runs with one of `statuses` (none named: with any) for which everything else that is given holds too."""

    statuses: Collection[str] = ()
    task: str | None = None  # a name, or a pattern with * and ?
    worker: UUID | None = None
    schedule: UUID | None = None
    job: UUID | None = None
    text: str | None = None  # somewhere in the error, small and capital letters alike
    since: datetime | timedelta | None = None  # of jobs created then or later
    until: datetime | timedelta | None = None  # of jobs created before
    triggered_by: str | None = None  # the kind: scheduler, manual, hook, …
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        for status in self.statuses:
            if status not in RUN_STATUSES:
                raise UsageError(f"status={status!r} is not a status of runs: one of {', '.join(RUN_STATUSES)}")
        for name in ("task", "text", "triggered_by", "fingerprint"):
            check_text(name, getattr(self, name))
        for name in ("since", "until"):
            _check_moment(name, getattr(self, name))

    @property
    def exact_task(self) -> str | None:
        """The task, when it is a name and not a pattern."""
        return _exact(self.task)

    @property
    def includes_system(self) -> bool:
        """Whether it asks for something that Rota's own runs may be, too."""
        return any(value is not None for value in (self.task, self.job, self.schedule, self.fingerprint))


def _exact(task: str | None) -> str | None:
    return None if task is None or "*" in task or "?" in task else task


def _check_moment(name: str, value: datetime | timedelta | None) -> None:
    if isinstance(value, datetime) and value.tzinfo is None:
        raise UsageError(f"{name}={value.isoformat()} has no time zone: give an aware datetime, e.g. in UTC")


def check_text(name: str, value: str | None) -> None:
    """Refuses text that PostgreSQL cannot store; `name` is the argument that an error speaks of."""
    if value is not None and ("\0" in value or any("\ud800" <= character <= "\udfff" for character in value)):
        raise UsageError(f"{name}={value!r} has a character that PostgreSQL cannot store: leave it out")


def like(pattern: str) -> str:
    """A pattern with * and ? as SQL's LIKE wants it."""
    for special in "\\%_":
        pattern = pattern.replace(special, "\\" + special)
    return pattern.replace("*", "%").replace("?", "_")
