"""Which jobs are meant: the filter that lists and bulk operations share."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.errors import UsageError

LIVE_STATES = ("waiting", "queued", "running")
FINISHED_STATES = ("completed", "failed", "canceled")
JOB_STATES = (*LIVE_STATES, *FINISHED_STATES)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Jobs in one of `states` (none named: in any) for which everything else that is given holds too."""

    states: Collection[str] = ()
    task: str | None = None  # a name, or a pattern with * and ?
    queue: str | None = None
    key: str | None = None
    text: str | None = None  # somewhere in the error, small and capital letters alike
    since: datetime | timedelta | None = None  # created then or later; a timedelta counts back from the database's now

    def __post_init__(self) -> None:
        for state in self.states:
            if state not in JOB_STATES:
                raise UsageError(f"state={state!r} is not a state of jobs: one of {', '.join(JOB_STATES)}")
        for name in ("task", "queue", "key", "text"):
            check_text(name, getattr(self, name))
        if isinstance(self.since, datetime) and self.since.tzinfo is None:
            raise UsageError(f"since={self.since.isoformat()} has no time zone: give an aware datetime, e.g. in UTC")

    @property
    def narrows(self) -> bool:
        """Whether anything is given at all."""
        return any(getattr(self, field.name) for field in dataclasses.fields(self))

    @property
    def exact_task(self) -> str | None:
        """The task, when it is a name and not a pattern."""
        return None if self.task is None or "*" in self.task or "?" in self.task else self.task

    def within(self, states: Collection[str], *, to: str) -> JobFilter:
        """The same filter over the states that an operation (named by `to`) applies to; others cannot be asked for."""
        for state in self.states:
            if state not in states:
                raise UsageError(f"state={state!r} cannot be asked for: jobs to {to} are {', '.join(states)}")
        return dataclasses.replace(self, states=tuple(self.states or states))


def check_text(name: str, value: str | None) -> None:
    """Refuses text that PostgreSQL cannot store; `name` is the argument that an error speaks of."""
    if value is not None and ("\0" in value or any("\ud800" <= character <= "\udfff" for character in value)):
        raise UsageError(f"{name}={value!r} has a character that PostgreSQL cannot store: leave it out")


def like(pattern: str) -> str:
    """A pattern with * and ? as SQL's LIKE wants it."""
    for special in "\\%_":
        pattern = pattern.replace(special, "\\" + special)
    return pattern.replace("*", "%").replace("?", "_")
