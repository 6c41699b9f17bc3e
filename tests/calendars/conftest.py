"""Calendars of a test: on a CalDAV server, in folders, over HTTP; and an application that keeps pairs of them alike."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row
from pydantic import SecretStr
from tests.calendars.events import Files
from tests.calendars.servers import PASSWORD, USER, Between, Dav, between, radicale
from tests.support.outside import Outside, outside

from rota import Rota
from rota.apps.calendars import pairs
from rota.apps.calendars.connectors import Place
from rota.apps.calendars.model import Window
from rota.apps.calendars.pairs import NewEnd
from rota.config import load_settings
from rota.contrib.testing.harness import Harness, harness

KEY = "k" * 40
FOLDERS = {"calendars": "rota.apps.calendars:schema"}  # of migrations, as the application registers them
WINDOW = Window(datetime(2029, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC))

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def dav_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A CalDAV server, for all tests of this process."""
    with radicale(tmp_path_factory.mktemp("radicale")) as port:
        yield port


@pytest.fixture
def make_dav(dav_port: int) -> Callable[[], Dav]:
    """Make a calendar on the server."""
    return lambda: Dav(dav_port, f"c{next(_numbers)}")


@pytest.fixture
async def proxy(dav_port: int) -> AsyncIterator[Between]:
    """A proxy before the server."""
    async with between(dav_port) as proxy:
        yield proxy


@pytest.fixture
async def web_server() -> AsyncIterator[Outside]:
    """Somebody's web server."""
    async with outside() as server:
        yield server


@dataclass
class Office:
    """An application with calendar sync, on a database of the test's own."""

    app: Rota
    rota: Harness
    dsn: str
    conn: psycopg.Connection[Any]

    async def pair(self, first: NewEnd, second: NewEnd, id: str = "team:rooms", **options: Any) -> None:
        """Add a pair."""
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as conn:
            await pairs.add(conn, self.app.settings, id, first, second, **options)

    async def enqueue(
        self, id: str = "team:rooms", window: Window = WINDOW, *, max_attempts: int | None = None, **payload: Any
    ) -> UUID:
        """Enqueue a synchronisation."""
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as conn:
            job = pairs.job_of(await pairs.get(conn, id), window, payload)
        options: Any = {} if max_attempts is None else {"max_attempts": max_attempts}
        return (await self.app.aenqueue("sync_pair", job.stored(), **options)).id

    async def sync(self, id: str = "team:rooms", window: Window = WINDOW, **payload: Any) -> dict[str, Any]:
        """Synchronise a pair, once, and give the summary of it."""
        job = await self.enqueue(id, window, max_attempts=1, **payload)
        await self.rota.drain()
        [summary] = [each for each in self.summaries(id) if each["job_id"] == job]
        return summary

    def summaries(self, id: str = "team:rooms") -> list[dict[str, Any]]:
        """The summaries of a pair, the newest first."""
        cursor = self.conn.cursor(row_factory=dict_row)
        return cursor.execute(
            "SELECT * FROM rota_calendars.summary WHERE pair_id = %s ORDER BY started_at DESC, attempt DESC", [id]
        ).fetchall()

    def conflicts(self, id: str = "team:rooms") -> list[dict[str, Any]]:
        """What has lost."""
        cursor = self.conn.cursor(row_factory=dict_row)
        return cursor.execute("SELECT * FROM rota_calendars.conflict WHERE pair_id = %s ORDER BY id", [id]).fetchall()


@pytest.fixture
async def office(dsn: str, conn: psycopg.Connection[Any]) -> AsyncIterator[Office]:
    """An application with calendar sync that may call this machine."""
    settings = load_settings(
        database_url=dsn, http_allow="127.0.0.1", housekeeping_enabled=False, secrets_key=KEY, app_apps="rota.apps.calendars"
    )
    async with Rota(settings=settings) as app:
        with harness(app, dsn) as rota:
            yield Office(app, rota, dsn, conn)


@pytest.fixture
def files(tmp_path: Path) -> Callable[[str], Files]:
    """Make a folder of events."""
    return lambda name: Files(tmp_path / name)


def folder_end(files: Files) -> NewEnd:
    """A folder as one side of a pair."""
    return NewEnd("folder", Place(str(files.path)))


def dav_end(dav: Dav, url: str | None = None, password: str = PASSWORD) -> NewEnd:
    """A calendar on the server as one side of a pair."""
    return NewEnd("caldav", Place(url or dav.url, USER, SecretStr(password)))


def ics_end(url: str) -> NewEnd:
    """A calendar over HTTP as one side of a pair."""
    return NewEnd("ics", Place(url))
