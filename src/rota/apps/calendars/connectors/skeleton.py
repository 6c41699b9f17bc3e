"""A connector to start from: copy it, fill in the four ways to talk to a provider, and name it in your package's entry points:

    [project.entry-points."rota.calendar_connectors"]
    example = "your_package.example:connect"

It keeps its resources in a dictionary, so that it can be tried; `tests/calendars/contract.py` is what any connector has to hold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from rota.apps.calendars.connectors import Calendar, Changes, Fetched, Place, Stored
from rota.apps.calendars.errors import Changed
from rota.config import Settings

SERVERS: dict[str, dict[str, str]] = {}  # texts by href; a real one has a server instead


def connect(place: Place, settings: Settings) -> Calendar:  # noqa: ARG001 (others call by `settings.http`)
    """The calendar at a place; nothing is asked before it is used."""
    return Example(place)


class Example(Calendar):
    """A calendar of a provider that tells no changes: two lists are compared."""

    def __init__(self, place: Place) -> None:
        self.shown = place.location
        self._texts = SERVERS.setdefault(place.location, {})

    async def changes(self, cursor: str | None, known: Mapping[str, str]) -> Changes:
        """A provider with sync tokens gives what came after `cursor`; this one lists everything, which is always right."""
        listed = {href: _etag(text) for href, text in self._texts.items()}
        return Changes(cursor, listed, known.keys() - listed.keys(), full=True)

    async def fetch(self, hrefs: Sequence[str]) -> dict[str, Fetched]:
        """Texts in as few requests as the provider allows."""
        return {href: Fetched(_etag(self._texts[href]), self._texts[href]) for href in hrefs if href in self._texts}

    async def create(self, name: str, uid: str, text: str) -> Stored:  # noqa: ARG002 (some providers need the UID)
        """Writes only where there is nothing: over HTTP by `If-None-Match: *`."""
        if name in self._texts:
            raise Changed("there is one of that name", name)
        self._texts[name] = text
        return Stored(name, _etag(text))

    async def update(self, href: str, etag: str, text: str) -> Stored:
        """Writes only over what was seen: over HTTP by `If-Match`."""
        self._check(href, etag)
        self._texts[href] = text
        return Stored(href, _etag(text))

    async def delete(self, href: str, etag: str) -> None:
        """The same for a deletion."""
        if href in self._texts:
            self._check(href, etag)
            del self._texts[href]

    def _check(self, href: str, etag: str) -> None:
        if href not in self._texts or _etag(self._texts[href]) != etag:
            raise Changed("it is not as it was", href)


def _etag(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
