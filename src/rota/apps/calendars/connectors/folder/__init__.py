"""`folder`: a directory of .ics files on the worker's machine, one event or several in each."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, unquote

from rota.apps.calendars.connectors import Calendar, Changes, Fetched, Place, Stored
from rota.apps.calendars.content import Component, decode, parse
from rota.apps.calendars.errors import Broken, Changed, NotACalendar, Refused, Unavailable
from rota.apps.calendars.ical import Found, split
from rota.config import Settings
from rota.errors import UsageError

MAX_BYTES = 10 * 1024 * 1024  # of a file
STALE_S = 3600.0  # after which a file that somebody began to write is left over

_TEMPORARY = ".rota-"


def connect(place: Place, settings: Settings) -> Calendar:  # noqa: ARG001 (others call by `settings.http`)
    """The calendar in a directory."""
    if not os.path.isabs(place.location):
        raise UsageError(f"folder {place.location!r} is not an absolute path: workers run in directories of their own")
    return Folder(Path(place.location))


class Folder(Calendar):
    """Files of a directory, not of those below it. An href is a file and a UID in it, an etag comes from the event's text.

    A file is written beside and then put in its place, so that nobody ever reads half of one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.shown = str(path)

    async def changes(self, cursor: str | None, known: Mapping[str, str]) -> Changes:  # noqa: ARG002
        """What a comparison of lists gives; a file that cannot be read leaves what is known of it as it is."""
        return await asyncio.to_thread(self._compare, known)

    async def fetch(self, hrefs: Sequence[str]) -> dict[str, Fetched]:
        """The events in their files."""
        return await asyncio.to_thread(self._fetch, hrefs)

    async def create(self, name: str, uid: str, text: str) -> Stored:
        """Writes a file of its own."""
        return await asyncio.to_thread(self._create, name, uid, text)

    async def update(self, href: str, etag: str, text: str) -> Stored:
        """Writes the file anew, with this event in it."""
        return Stored(href, await asyncio.to_thread(self._replace, href, etag, text))

    async def delete(self, href: str, etag: str) -> None:
        """Writes the file anew without this event, or removes it if there is nothing else in it."""
        await asyncio.to_thread(self._replace, href, etag, None)

    def _compare(self, known: Mapping[str, str]) -> Changes:
        changes = Changes(None, full=True)
        try:
            entries = sorted(os.scandir(self._path), key=lambda entry: entry.name)
        except OSError as error:  # a disk that is not mounted is not an empty calendar
            raise NotACalendar(f"{self.shown} cannot be read: {error.strerror}") from None
        unread: list[str] = []
        for entry in entries:
            if entry.name.startswith(_TEMPORARY):
                self._clear(entry)
            elif entry.name.lower().endswith(".ics") and entry.is_file(follow_symlinks=False):
                try:
                    found, problems = split(self._read(entry.name))
                except FileNotFoundError:
                    continue
                except (Broken, OSError) as error:
                    unread.append(_href(entry.name, ""))
                    changes.problems[_href(entry.name, "")] = str(error)
                    continue
                changes.changed |= {_href(entry.name, each.uid): _etag(each.text) for each in found}
                if problems:
                    changes.problems[_href(entry.name, "")] = problems[0]
        for href in known.keys() - changes.changed.keys():
            if (file := _href(href.partition("#")[0], "")) in unread:
                changes.problems[href] = changes.problems[file]
            elif href not in changes.problems:
                changes.gone.add(href)
        return changes

    def _fetch(self, hrefs: Sequence[str]) -> dict[str, Fetched]:
        found: dict[str, Fetched] = {}
        for name in {href.partition("#")[0] for href in hrefs}:
            with contextlib.suppress(FileNotFoundError, Broken):  # what is broken is told by the next comparison
                events, _ = split(self._read(name))
                found |= {_href(name, each.uid): Fetched(_etag(each.text), each.text) for each in events}
        return {href: found[href] for href in hrefs if href in found}

    def _create(self, name: str, uid: str, text: str) -> Stored:
        href = _href(f"{name}.ics", uid)
        temporary = self._write(text)
        try:
            os.link(temporary, self._path / f"{name}.ics")  # unlike a rename it fails where there is one
        except FileExistsError:
            raise Changed(f"{self.shown} has a file {name}.ics", href) from None
        except OSError as error:
            raise Refused(f"{self.shown}: {name}.ics cannot be written: {error.strerror}") from None
        finally:
            temporary.unlink(missing_ok=True)
        self._keep()
        return Stored(href, _etag(_one(text).text))

    def _replace(self, href: str, etag: str, text: str | None) -> str | None:
        name, _, quoted = href.partition("#")
        uid = unquote(quoted)
        try:
            whole = self._read(name)
            found, _ = split(whole)
        except FileNotFoundError:
            found = []
        except Broken as error:
            raise Changed(f"{self.shown}: {name} cannot be read any more: {error}", href) from None
        there = next((each for each in found if each.uid == uid), None)
        if there is None and text is None:
            return None
        if there is None or _etag(there.text) != etag:
            raise Changed(f"{self.shown}: {name} is not as it was", href)
        alone = len(found) == 1 and not _others(whole)
        new = text if alone else _exchanged(whole, uid, text)
        if new is None:
            (self._path / name).unlink(missing_ok=True)
        else:
            os.replace(self._write(new), self._path / name)
        self._keep()
        return None if text is None or new is None else next(_etag(each.text) for each in split(new)[0] if each.uid == uid)

    def _read(self, name: str) -> str:
        if "/" in name or name.startswith("."):
            raise FileNotFoundError(name)
        with open(self._path / name, "rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise Broken(f"it has more than {MAX_BYTES // 1024 // 1024} MiB")
        return decode(data)

    def _write(self, text: str) -> Path:
        temporary = self._path / f"{_TEMPORARY}{secrets.token_hex(8)}"
        try:
            with open(temporary, "xb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise Unavailable(f"{self.shown} cannot be written to: {error.strerror}") from None
        return temporary

    def _keep(self) -> None:
        """Makes sure that a crash of the machine does not undo it."""
        with contextlib.suppress(OSError):
            directory = os.open(self._path, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    def _clear(self, entry: os.DirEntry[str]) -> None:
        with contextlib.suppress(OSError):
            if entry.stat(follow_symlinks=False).st_mtime < time.time() - STALE_S:
                os.unlink(entry.path)


def _href(name: str, uid: str) -> str:
    return f"{name}#{quote(uid, safe='@')}"


def _etag(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def _one(text: str) -> Found:
    return split(text)[0][0]


def _others(whole: str) -> bool:
    """Whether a file has more than events and time zones, such as tasks, which are not ours to remove."""
    return any(each.name not in ("VEVENT", "VTIMEZONE") for calendar in parse(whole) for each in calendar.components)


def _exchanged(whole: str, uid: str, text: str | None) -> str:
    """A file's text with one event replaced by another, or left out; everything else stays as it is written."""
    calendars = parse(whole)
    for calendar in calendars:
        calendar.parts = [part for part in calendar.parts if not (isinstance(part, Component) and _is_of(part, uid))]
    if text is not None:
        [new] = parse(text)
        zones = {id.value for each in calendars[0].components if each.name == "VTIMEZONE" and (id := each.get("TZID"))}
        calendars[0].parts += [
            each for each in new.components if each.name != "VTIMEZONE" or ((id := each.get("TZID")) and id.value not in zones)
        ]
    return "".join(calendar.text() for calendar in calendars)


def _is_of(component: Component, uid: str) -> bool:
    line = component.get("UID")
    return component.name == "VEVENT" and line is not None and line.value.strip() == uid
