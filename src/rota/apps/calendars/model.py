"""The nouns of a synchronisation: pairs, what is known of an event on either side, and what is to be done about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

Side = Literal["first", "second"]
SIDES: tuple[Side, Side] = ("first", "second")
Direction = Literal["both", "to_second", "to_first"]
DIRECTIONS: tuple[Direction, ...] = ("both", "to_second", "to_first")


def other(side: Side) -> Side:
    """The side across."""
    return "second" if side == "first" else "first"


@dataclass(frozen=True, slots=True)
class End:
    """One calendar of a pair, as it is stored: what may be a secret is sealed."""

    connector: str
    shown: str
    sealed: str = field(repr=False)
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two calendars that are kept alike."""

    id: str
    first: End
    second: End
    direction: Direction
    every: timedelta | None  # how often it is synchronised by itself
    past: timedelta  # the window of those: from so long ago
    future: timedelta  # to so far ahead
    created_at: datetime

    def end(self, side: Side) -> End:
        """The calendar on a side."""
        return self.first if side == "first" else self.second


class Window(NamedTuple):
    """The time whose events a synchronisation takes in."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Resource:
    """What was seen of an event in one calendar."""

    href: str
    etag: str
    uid: str | None  # None: it is no event, or none that could ever be read
    digest: str | None = None
    core: str | None = None
    stamped_at: datetime | None = None
    sequence: int = 0
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    problem: str | None = None


class Intent(NamedTuple):
    """Something that we were about to do, and may have done: written down before it is."""

    side: Side  # where
    digest: str | None  # of what was to be written; None: a deletion
    core: str | None
    source: str | None  # the digest that the other side had then

    def plain(self) -> list[Any]:
        """As it is stored."""
        return [self.side, self.digest, self.core, self.source]


@dataclass(frozen=True, slots=True)
class State:
    """An event of a pair: how each side has it, and what each had when they were last alike."""

    uid: str
    first: Resource | None = None
    second: Resource | None = None
    base_first: str | None = None
    base_second: str | None = None
    intents: tuple[Intent, ...] = ()

    def at(self, side: Side) -> Resource | None:
        """How a side has it."""
        return self.first if side == "first" else self.second

    def digest(self, side: Side) -> str | None:
        """What a side says; None when it does not have it."""
        resource = self.at(side)
        return None if resource is None else resource.digest

    def base(self, side: Side) -> str | None:
        """What a side said when both were alike."""
        return self.base_first if side == "first" else self.base_second


Kind = Literal["both_edited", "edit_over_deletion", "overruled"]


@dataclass(frozen=True, slots=True)
class Write:
    """Make the other side as `source` has it; `kind` says what was overruled, if something was."""

    source: Side
    kind: Kind | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove it from `side`."""

    side: Side
    kind: Kind | None = None


@dataclass(frozen=True, slots=True)
class Settle:
    """Both are alike: remember that."""

    base_first: str | None
    base_second: str | None


@dataclass(frozen=True, slots=True)
class Forget:
    """Neither has it any more."""


@dataclass(frozen=True, slots=True)
class Leave:
    """There is nothing to do."""


Action = Write | Delete | Settle | Forget | Leave


@dataclass(slots=True)
class Report:
    """What a synchronisation has done."""

    created: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    updated: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    deleted: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    matched: int = 0  # found alike on both sides
    conflicts: int = 0
    full: list[str] = field(default_factory=list)  # the sides of which everything was listed
    problems: list[str] = field(default_factory=list)  # what could not be done, a line for each

    @property
    def processed(self) -> int:
        """Events that were brought in order."""
        return self.matched + sum(sum(each.values()) for each in (self.created, self.updated, self.deleted))

    @property
    def failed(self) -> int:
        """Events that could not be."""
        return len(self.problems)

    def plain(self) -> dict[str, Any]:
        """As it is kept with the run."""
        return {
            "processed": self.processed,
            "failed": self.failed,
            "created": self.created,
            "updated": self.updated,
            "deleted": self.deleted,
            "matched": self.matched,
            "conflicts": self.conflicts,
            "full": self.full,
            "problems": self.problems[:10],
        }
