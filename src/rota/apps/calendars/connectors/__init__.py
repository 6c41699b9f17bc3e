"""The ways to a calendar. Each is a room of its own with a function `connect(place, settings)` that gives a `Calendar`.

`caldav`, `ics` and `folder` come along. Others are found by the entry points of installed packages, in the group
`rota.calendar_connectors`; `skeleton.py` is one to start from.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from pydantic import SecretStr

from rota.config import Settings
from rota.errors import UsageError, did_you_mean

GROUP = "rota.calendar_connectors"
OWN = {name: f"rota.apps.calendars.connectors.{name}" for name in ("caldav", "ics", "folder")}

_registered: dict[str, Connect] = {}
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,49}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a calendar is, and how one signs in there."""

    location: str  # a URL or a path
    user: str | None = None
    password: SecretStr | None = None  # without a user it is a bearer token


@dataclass(slots=True)
class Changes:
    """What has changed since a cursor: resources by their hrefs, and the cursor that comes after them."""

    cursor: str | None
    changed: dict[str, str] = field(default_factory=dict)  # href → etag; those that are as known may be among them
    gone: set[str] = field(default_factory=set)
    problems: dict[str, str] = field(default_factory=dict)  # href → why it cannot be read; it is neither changed nor gone
    full: bool = False  # it was found by comparing lists, not by what the server has told


class Fetched(NamedTuple):
    """The text of a resource, and the etag that it has."""

    etag: str
    text: str


class Stored(NamedTuple):
    """A resource that was written; without an etag the server has to be asked what it made of it."""

    href: str
    etag: str | None


class Calendar(ABC):
    """A calendar as a synchronisation sees it: resources with one event each, which have an href and an etag.

    The same href means the same resource for ever; an etag changes whenever the text does. What is not there any more, or is not
    what an etag says, is `Changed`, never overwritten: that is what makes it safe to be killed anywhere and to begin again.
    """

    writable: bool = True
    shown: str = ""  # how messages call it: without passwords, and without a path that may be one

    @abstractmethod
    async def changes(self, cursor: str | None, known: Mapping[str, str]) -> Changes:
        """What has changed since `cursor` came with an earlier answer (None: since nothing), given what is known: etags by href."""

    @abstractmethod
    async def fetch(self, hrefs: Sequence[str]) -> dict[str, Fetched]:
        """The texts of resources; those that are gone are left out."""

    async def create(self, name: str, uid: str, text: str) -> Stored:
        """Writes a new resource under a name that is made from the event's UID; Changed (with its href) when there is one."""
        raise NotImplementedError

    async def update(self, href: str, etag: str, text: str) -> Stored:
        """Writes a resource anew if its etag is still this one; else Changed."""
        raise NotImplementedError

    async def delete(self, href: str, etag: str) -> None:
        """Removes a resource if its etag is still this one; else Changed. One that is gone already is as good as removed."""
        raise NotImplementedError


Connect = Callable[[Place, Settings], Calendar]


def register(name: str, connect: Connect) -> None:
    """Makes a connector known in this process; an installed package says it by an entry point, for all processes."""
    check_name(name)
    _registered[name] = connect


def connector(name: str) -> Connect:
    """The connector of that name."""
    if name in _registered:
        return _registered[name]
    if name in OWN:
        connect: Connect = import_module(OWN[name]).connect
        return connect
    for entry in entry_points(group=GROUP, name=name):
        loaded: Any = entry.load()
        return loaded if callable(loaded) else loaded.connect  # type: ignore[no-any-return]
    known = names()
    raise UsageError(f"there is no connector {name!r}: {did_you_mean(name, known, 'there are ' + ', '.join(known))}")


def names() -> list[str]:
    """The connectors that this process could use."""
    return sorted({*OWN, *_registered, *(entry.name for entry in entry_points(group=GROUP))})


def check_name(name: str) -> None:
    """Refuses a name that no job could carry."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"connector={name!r} is not a name: small letters, digits, - and _, a letter first")
