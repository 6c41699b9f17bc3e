"""Feeds as an application has them: what to call, and the tasks behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any
from uuid import UUID

from psycopg import AsyncConnection

from rota import Retry, Rota
from rota.apps.feeds import handlers, importing, reading, subscribing, websub
from rota.apps.feeds.addresses import read_address
from rota.apps.feeds.opml import Opml, read_opml
from rota.apps.feeds.options import Options
from rota.apps.feeds.records import Feed, FeedDetail, FeedEntry, FullEntry
from rota.apps.feeds.subscribing import Subscribed

if TYPE_CHECKING:
    from rota.outbound.client import Answer

Conn = AsyncConnection[Any]


class Feeds:
    """Feeds, entries and who reads them; `app.include("rota.apps.feeds")` gives it. Each call is part of `conn`'s transaction."""

    def __init__(self, app: Rota, options: Options) -> None:
        self.app = app
        self.options = options
        app.queue(options.queue)
        self.fetch_feed = app.recurring(
            key="feed:{feed_id}",
            queue=options.queue,
            retry=Retry(base="5m", cap=options.max_interval, jitter="30s"),
            timeout=options.timeout_s + 120,
            slots=options.slots,
            concurrency_key="{host}",
            key_concurrency=options.host_concurrency,
            key_rate=options.host_rate,
            tags=["feeds"],
        )(self._bound(handlers.fetch_feed))
        self.renew_websub = app.recurring(key="all", every="1d", always=True, queue=options.queue, tags=["feeds"])(
            self._bound(handlers.renew_websub)
        )
        work: dict[str, Any] = {"queue": options.queue, "tags": ["feeds"]}
        self.ask_hub = app.task(**work, retry=Retry(5, base="1m", cap="1h"), timeout=options.timeout_s + 60)(
            self._bound(handlers.ask_hub)
        )
        self.read_delivery = app.task(**work, timeout="3m")(self._bound(handlers.read_delivery))
        self.import_opml = app.task(**work, timeout="1h")(self._bound(handlers.import_opml))
        app.routers.append("rota.apps.feeds.routes:router")
        app.sealed_columns += ["feeds.feed.query", "feeds.websub.sealed", "feeds.opml.urls"]
        app.migrations["feeds"] = "rota.apps.feeds:schema"

    @property
    def callback_base(self) -> str | None:
        """Where hubs reach the server; None: nowhere, so none is asked."""
        url = self.options.callback_url or self.app.settings.server.url
        return None if url is None else url.rstrip("/")

    async def subscribe(self, conn: Conn, url: str, subscriber: str) -> Subscribed:
        """Subscribes somebody to a feed, which is fetched from now on; again is harmless."""
        return (await self.subscribe_many(conn, [url], subscriber))[0]

    async def subscribe_many(self, conn: Conn, urls: Iterable[str], subscriber: str) -> list[Subscribed]:
        """Subscribes somebody to several feeds, all or none."""
        return await subscribing.subscribe(self, conn, urls, subscriber)

    async def unsubscribe(self, conn: Conn, feed_id: int, subscriber: str) -> bool:
        """Ends a subscription; whether the feed is still fetched, for others."""
        return await subscribing.unsubscribe(self, conn, feed_id, subscriber)

    async def list(self, conn: Conn, **filter: Any) -> list[Feed]:
        """Feeds by their numbers: `health`, `q`, `subscriber`, beyond `after`, at most `limit`."""
        return await reading.list_feeds(conn, **filter)

    async def get(self, conn: Conn, feed_id: int) -> FeedDetail:
        """One feed."""
        return await reading.get_feed(conn, feed_id)

    async def find(self, conn: Conn, url: str) -> int:
        """The number of the feed at this address."""
        return await reading.find_feed(conn, read_address(url))

    async def entries(self, conn: Conn, **filter: Any) -> Sequence[FeedEntry]:
        """Entries, the newest first: of `feed_id`, before the number `before`, at most `limit`."""
        return await reading.list_entries(conn, **filter)

    async def entry(self, conn: Conn, entry_id: int) -> FullEntry:
        """One entry with its content."""
        return await reading.get_entry(conn, entry_id)

    async def summary(self, conn: Conn) -> dict[str, Any]:
        """How feeds are doing, in numbers."""
        return await reading.summarize(conn)

    async def take_opml(self, conn: Conn, body: bytes, subscriber: str) -> tuple[UUID, Opml]:
        """Reads a list of feeds and has a job subscribe to it; the job's id, and what is in the list."""
        opml = read_opml(body, self.app.settings)
        return await importing.keep(self, conn, opml.urls, subscriber), opml

    def import_now(self, conn: Conn, urls: Sequence[str], subscriber: str) -> AsyncIterator[tuple[int, int]]:
        """Subscribes to a list here and now, a hundred at a time; after each hundred how many, and how many are new."""
        return importing.in_batches(self, conn, urls, subscriber)

    async def follow_hub(self, conn: Conn, feed_id: int, hub: str, topic: str) -> None:
        """Asks a hub for news of a feed, unless that has been done."""
        await websub.follow_hub(self, conn, feed_id, hub, topic)

    async def leave_hub(self, conn: Conn, feed_id: int) -> None:
        """Asks the hub of a feed, if it has one, to say no more of it."""
        await websub.leave_hub(self, conn, feed_id)

    async def download(self, url: str, headers: Mapping[str, str]) -> Answer:
        """What the server of a feed answers; in a test it may be another one."""
        from rota.outbound.client import Bounds, Request, client_for

        bounds = Bounds(self.options.timeout_s, head_bytes=self.options.max_bytes, max_bytes=self.options.max_bytes)
        return await client_for(self.app.settings).call(Request.to(url, headers=headers), bounds)

    def _bound(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(handler)  # under this name a process of its own finds it
        async def by_options(*args: Any, **arguments: Any) -> Any:
            handlers.current.set(self)  # each job has a context of its own
            return await handler(*args, **arguments)

        return by_options
