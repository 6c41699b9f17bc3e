"""`caldav`: a calendar on a CalDAV server (RFC 4791), with changes by sync token (RFC 6578) where the server has them.

A client of our own over the guarded HTTP client: the libraries there are block, bring an XML parser and an HTTP stack of their
own, and would go past the rules of what may be called. What is needed is five requests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from rota.apps.calendars.connectors import Calendar, Changes, Fetched, Place, Stored
from rota.apps.calendars.connectors.caldav import xml
from rota.apps.calendars.connectors.web import Web
from rota.apps.calendars.errors import Changed, NotACalendar, Refused
from rota.config import Settings
from rota.outbound.address import check_url

if TYPE_CHECKING:
    from rota.outbound.client import Answer

BATCH = 50  # texts in one request
MAX_PAGES = 1000  # of one list of changes
XML = 'application/xml; charset="utf-8"'
ICS = "text/calendar; charset=utf-8"

# What servers say to a token that they no longer know, or to a report that they never knew: everything is listed then.
_NO_TOKEN = (400, 403, 405, 409, 410, 412, 415, 501, 507)


def connect(place: Place, settings: Settings) -> Calendar:
    """The calendar at the URL of a collection."""
    return Dav(place, settings)


class Dav(Calendar):
    """A collection. An href is the path of a resource below it."""

    def __init__(self, place: Place, settings: Settings) -> None:
        target = check_url(place.location, settings)
        url = target.url if target.url.endswith("/") else f"{target.url}/"
        parts = urlsplit(url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._path = _plain(parts.path)
        self.shown = target.host
        self._web = Web(place, settings, self.shown)

    async def changes(self, cursor: str | None, known: Mapping[str, str]) -> Changes:
        """By the sync token; where there is none, or it is refused, by ctag and a list of all etags."""
        about = await self._about()
        said: dict[str, str] = json.loads(cursor) if cursor else {}
        # Asked before anything is listed: what changes meanwhile is told again next time, which does no harm.
        now = {name: value for name, value in (("token", about.token), ("ctag", about.ctag)) if value}
        new_cursor = json.dumps(now) if now else None
        if said and now and said == now:
            return Changes(cursor)
        if said.get("token") and about.token:
            told = await self._since(said["token"])
            if told is not None:
                told.cursor = json.dumps({**now, "token": told.cursor}) if told.cursor else new_cursor
                return told
        listed = await self._list()
        return Changes(new_cursor, listed, known.keys() - listed.keys(), full=True)

    async def fetch(self, hrefs: Sequence[str]) -> dict[str, Fetched]:
        """Texts, some at a time."""
        found: dict[str, Fetched] = {}
        for at in range(0, len(hrefs), BATCH):
            batch = hrefs[at : at + BATCH]
            answer = await self._ask("REPORT", "", xml.multiget(self._path_of(href) for href in batch), Depth="0")
            if answer.status != 207:
                raise self._unexpected("REPORT calendar-multiget", answer)
            for each in xml.read_multistatus(answer.head)[0]:
                href = self._href(each.href)
                if href is not None and each.status == 200 and each.text is not None:
                    found[href] = Fetched(each.etag or "", each.text)
        return found

    async def create(self, name: str, uid: str, text: str) -> Stored:  # noqa: ARG002
        """PUT where there is nothing."""
        return await self._put(f"{name}.ics", text, If_None_Match="*")

    async def update(self, href: str, etag: str, text: str) -> Stored:
        """PUT over what was seen."""
        return await self._put(href, text, If_Match=_strong(etag))

    async def delete(self, href: str, etag: str) -> None:
        """DELETE of what was seen; nobody is told that an invitation is declined by it."""
        answer = await self._ask("DELETE", href, None, If_Match=_strong(etag), Schedule_Reply="F")
        if answer.status == 412:
            raise Changed(f"{self.shown}: {href} is not as it was", href)
        if answer.status not in (200, 202, 204, 404, 410):
            raise Refused(f"{self.shown}: DELETE: it answered {answer.status}")

    async def _put(self, href: str, text: str, **condition: str) -> Stored:
        answer = await self._ask("PUT", href, text.encode(), kind=ICS, Schedule_Reply="F", **condition)
        if answer.status in (200, 201, 204):
            etag = answer.headers.get("etag", "")
            return Stored(href, None if not etag or etag.startswith("W/") else etag)
        if answer.status == 412 or (answer.status in (404, 410) and "If_Match" in condition):
            raise Changed(f"{self.shown}: {href} is not as it was", href)
        if answer.status in (403, 409) and xml.names_precondition(answer.head, "no-uid-conflict"):
            raise Changed(f"{self.shown}: it has this event under another name")
        if answer.status in (404, 410):
            raise NotACalendar(f"{self.shown}: PUT: it answered {answer.status}: the calendar is gone")
        raise Refused(f"{self.shown}: PUT: it answered {answer.status}")

    async def _about(self) -> xml.Collection:
        answer = await self._ask("PROPFIND", "", xml.ABOUT, Depth="0")
        if answer.status != 207:
            raise self._unexpected("PROPFIND", answer)
        about = self._read(xml.read_collection, answer)
        if not about.is_calendar:
            raise NotACalendar(f"{self.shown}: what is at this address is not a calendar: give the URL of the calendar itself")
        self.writable = about.writable
        return about

    async def _since(self, token: str) -> Changes | None:
        """What has changed since a token; None when the server will not say."""
        changes = Changes(token)
        for _ in range(MAX_PAGES):
            answer = await self._ask("REPORT", "", xml.sync_collection(changes.cursor or ""), Depth="0")
            if answer.status in _NO_TOKEN:
                return None
            if answer.status != 207:
                raise self._unexpected("REPORT sync-collection", answer)
            found, after = self._read(xml.read_multistatus, answer)
            more = False
            for each in found:
                href = self._href(each.href)
                if href == "":
                    more = more or each.status == 507  # there is more than it tells at once
                elif href is not None and each.status in (404, 410):
                    changes.gone.add(href)
                    changes.changed.pop(href, None)
                elif href is not None and each.status == 200 and not each.href.endswith("/"):
                    changes.changed[href] = each.etag or ""
                    changes.gone.discard(href)
            if after is None or (more and after == changes.cursor):
                return None
            changes.cursor = after
            if not more:
                return changes
        return None

    async def _list(self) -> dict[str, str]:
        answer = await self._ask("PROPFIND", "", xml.LIST, Depth="1")
        if answer.status != 207:
            raise self._unexpected("PROPFIND", answer)
        listed: dict[str, str] = {}
        for each in self._read(xml.read_multistatus, answer)[0]:
            href = self._href(each.href)
            if not href or each.is_collection or each.status != 200:
                continue
            if each.kind and "text/calendar" not in each.kind.lower():
                continue
            listed[href] = each.etag or ""
        return listed

    async def _ask(self, method: str, href: str, body: bytes | None, kind: str = XML, **headers: str) -> Answer:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent |= {"Content-Type": kind} if body is not None else {}
        return await self._web.ask(method, self._origin + self._path_of(href), body=body, headers=sent)

    def _read(self, reader: xml.Reader[xml.T], answer: Answer) -> xml.T:
        try:
            return reader(answer.head)
        except NotACalendar as error:
            raise NotACalendar(f"{self.shown}: {error}") from None

    def _path_of(self, href: str) -> str:
        return quote(self._path + href, safe="/@:!$&'()*+,;=~-._")

    def _href(self, told: str) -> str | None:
        """A resource's name below the collection, however a server writes its path; None for what is not below it."""
        path = _plain(urlsplit(told).path)
        if path == self._path or f"{path}/" == self._path:
            return ""
        inside = path.removeprefix(self._path)
        return inside if inside != path and "/" not in inside.rstrip("/") else None

    def _unexpected(self, what: str, answer: Answer) -> NotACalendar:
        advice = "this user may not read it" if answer.status == 403 else "check the address of the calendar"
        return NotACalendar(f"{self.shown}: {what}: it answered {answer.status}: {advice}")


def _plain(path: str) -> str:
    return unquote(path)


def _strong(etag: str) -> str:
    # A proxy that packs answers makes etags weak; none can be compared so, and ours was not packed.
    return etag.removeprefix("W/")
