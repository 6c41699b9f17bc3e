"""`ics`: a calendar as one file over HTTP, which is read and never written. Unchanged, it is not even sent (conditional GET)."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from rota.apps.calendars.connectors import Calendar, Changes, Fetched, Place
from rota.apps.calendars.connectors.web import Web
from rota.apps.calendars.content import decode
from rota.apps.calendars.errors import Broken, NotACalendar
from rota.apps.calendars.ical import split
from rota.config import Settings
from rota.outbound.address import check_url

MAX_REDIRECTS = 5


def connect(place: Place, settings: Settings) -> Calendar:
    """The calendar at a URL."""
    return Feed(place, settings)


class Feed(Calendar):
    """One file with all events; the hrefs are their UIDs, the etags come from their texts."""

    writable = False

    def __init__(self, place: Place, settings: Settings) -> None:
        # `webcal` is what people are given to copy.
        self._url = "https" + place.location[6:] if place.location.startswith("webcal:") else place.location
        self.shown = check_url(self._url, settings).host  # the path of a private feed is its password
        self._web = Web(place, settings, self.shown)
        self._texts: dict[str, Fetched] | None = None
        self._problems: dict[str, str] = {}

    async def changes(self, cursor: str | None, known: Mapping[str, str]) -> Changes:
        """Nothing, if the server says so; else what a comparison of lists gives."""
        said: dict[str, str] = json.loads(cursor) if cursor else {}
        headers = {"If-None-Match": said["etag"]} if said.get("etag") else {}
        headers |= {"If-Modified-Since": said["modified"]} if said.get("modified") else {}
        now = await self._read(headers)
        if now is None:
            return Changes(cursor)
        assert self._texts is not None
        listed = {href: each.etag for href, each in self._texts.items()}
        gone = known.keys() - listed.keys() - self._problems.keys()
        return Changes(json.dumps(now) if now else None, listed, gone, dict(self._problems), full=True)

    async def fetch(self, hrefs: Sequence[str]) -> dict[str, Fetched]:
        """Texts of the file as it was read last; it is read if it was not."""
        if self._texts is None:
            await self._read({})
        assert self._texts is not None
        return {href: self._texts[href] for href in hrefs if href in self._texts}

    async def _read(self, headers: Mapping[str, str]) -> dict[str, str] | None:
        """Reads the file, and gives by what it is asked for next time; None when it is as it was."""
        sent = {"Accept": "text/calendar, */*;q=0.1", **headers}
        answer = await self._web.ask("GET", self._url, headers=sent, redirects=MAX_REDIRECTS)
        if answer.status == 304 and headers:
            return None
        if answer.status != 200:
            raise NotACalendar(f"{self.shown}: it answered {answer.status}")
        try:
            found, problems = await asyncio.to_thread(lambda: split(decode(answer.head)))
        except Broken as error:
            raise NotACalendar(f"{self.shown}: this is not a calendar: {error}") from None
        self._texts = {quote(each.uid, safe="@"): Fetched(_etag(each.text), each.text) for each in found}
        self._problems = {f"#{number}": problem for number, problem in enumerate(problems, 1)}
        validators = {"etag": answer.headers.get("etag"), "modified": answer.headers.get("last-modified")}
        return {name: value for name, value in validators.items() if value}


def _etag(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:40]
