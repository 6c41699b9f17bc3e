"""What tests of feeds share: somebody's web server with documents on it, and an application whose due work is done when told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
from aiohttp import web
from tests.support.outside import Got, Outside, outside
from tests.support.serving import settings_for

from rota import Rota
from rota.apps.feeds import Feeds
from rota.contrib.testing.clock import Clock
from rota.db import migrations
from rota.db.connection import close_quietly, connect_async
from rota.engine.drain import Drain
from rota.engine.options import WorkerOptions
from rota.engine.scheduler import Scheduler
from rota.events import Events
from rota.store import tasks

DOCUMENTS = Path(__file__).parent / "documents"
READER = "ann"


def document(name: str) -> bytes:
    """Read one of the documents."""
    return (DOCUMENTS / name).read_bytes()


def rss(*items: str, title: str = "A feed", head: str = "") -> bytes:
    """Make a feed of RSS with entries of these ids."""
    entries = "".join(f"<item><title>{each}</title><guid isPermaLink='false'>{each}</guid></item>" for each in items)
    return f"<rss version='2.0'><channel><title>{title}</title>{head}{entries}</channel></rss>".encode()


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Site:
    """A server whose pages a test sets, by path; it takes down what it is asked."""

    outside: Outside
    pages: dict[str, Answer] = field(default_factory=dict)

    def url(self, path: str) -> str:
        """Where a page is."""
        return f"http://127.0.0.1:{self.outside.port}{path}"

    def put(self, path: str, body: bytes = b"", status: int = 200, kind: str = "application/xml", **headers: str) -> str:
        """Set a page; its address."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}

        async def answer(_: web.Request) -> web.StreamResponse:
            return web.Response(status=status, body=body, headers={"Content-Type": kind, **named})

        self.pages[path] = answer
        return self.url(path)

    def asked(self, path: str) -> list[Got]:
        """The requests for a page."""
        return [got for got in self.outside.got if got.path == path]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer as the test has said."""
        page = self.pages.get(request.path)
        return web.Response(status=404) if page is None else await page(request)


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    """Run a server during a block."""
    async with outside() as server:
        made = Site(server)
        server.answer = made.answer
        yield made


class World:
    """An application with feeds on a database of the test's own, with a clock that stands still until it is moved."""

    def __init__(self, dsn: str, conn: psycopg.Connection[Any], aconn: psycopg.AsyncConnection[Any], **options: Any) -> None:
        self.dsn = dsn
        self.conn = conn  # for the test to look
        self.aconn = aconn  # for the application's calls
        self.app = make_app(dsn)
        self.feeds: Feeds = self.app.include("rota.apps.feeds", **{"host_rate": None, "host_concurrency": 50, **options})
        migrations.up(conn, self.app.migrations)
        tasks.sync(conn, tasks=self.app.tasks.values(), queues=list(self.app.queues), limits=self.app.queue_limits)
        self.clock = Clock(conn)
        self.clock.freeze()

    async def subscribe(self, url: str, subscriber: str = READER) -> int:
        """Subscribe; the feed's number."""
        return (await self.feeds.subscribe(self.aconn, url, subscriber)).feed_id

    async def work(self, *, rounds: int = 50, concurrency: int = 8) -> int:
        """Do everything that is due, and what that makes due at the same moment; how many runs that were."""
        scheduler = Scheduler(Events())
        options = WorkerOptions(queues=dict(self.app.queues), concurrency=concurrency)
        conn = await connect_async(self.dsn, "test")
        done = 0
        try:
            async with Drain(self.dsn, self.app.tasks, options, Events()) as drain:
                for _ in range(rounds):
                    made = await scheduler.tick(conn)
                    runs = await drain.run_once()
                    done += len(runs)
                    if not made and not runs:
                        return done
        finally:
            await close_quietly(conn)
        raise AssertionError(f"there is more to do after {rounds} rounds")

    async def later(self, by: timedelta) -> int:
        """Let time pass, and do what is due then."""
        self.clock.move(by)
        return await self.work()

    def feed(self, feed_id: int) -> dict[str, Any]:
        """The row of a feed."""
        with self.conn.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            row = cursor.execute("SELECT * FROM feeds.feeds WHERE id = %s", [feed_id]).fetchone()
        assert row is not None
        return row

    def schedule(self, feed_id: int) -> tuple[bool, Any]:
        """Whether the recurring row of a feed is enabled, and when it runs next."""
        row = self.conn.execute(
            "SELECT enabled, next_run_at FROM rota.schedule WHERE task = 'fetch_feed' AND key = %s", [f"feed:{feed_id}"]
        ).fetchone()
        assert row is not None
        return row

    def titles(self, feed_id: int) -> list[str]:
        """The titles of a feed's entries, in the order in which they came."""
        return [title for (title,) in self.conn.execute("SELECT title FROM feeds.entry WHERE feed_id = %s ORDER BY id", [feed_id])]


def make_app(dsn: str, **settings: Any) -> Rota:
    """Make an application that may call this machine."""
    return Rota(settings=settings_for(dsn, **{"http_allow": "127.0.0.1", "housekeeping_enabled": False, **settings}))


async def gather(*work: Awaitable[Any]) -> list[Any]:
    """Do things at once, and give what came of each, errors too."""
    return await asyncio.gather(*work, return_exceptions=True)
