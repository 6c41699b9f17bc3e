"""Feeds: RSS, Atom and JSON Feed, fetched as long as somebody reads them. Needs the extra `feeds`.

feeds = app.include("rota.apps.feeds")
async with await psycopg.AsyncConnection.connect(dsn) as conn:
    await feeds.subscribe(conn, "https://example.org/feed.xml", "ann")
"""

from __future__ import annotations

from typing import Any

from rota import Rota
from rota.apps.feeds.document import NotAFeed
from rota.apps.feeds.options import Options
from rota.apps.feeds.records import Feed, FeedDetail, FeedEntry, FullEntry
from rota.apps.feeds.service import Feeds
from rota.apps.feeds.subscribing import Subscribed

__all__ = ["Feed", "FeedDetail", "FeedEntry", "Feeds", "FullEntry", "NotAFeed", "Options", "Subscribed", "install"]


def install(app: Rota, **options: Any) -> Feeds:
    """Adds feeds to an application; the options are those of `Options`."""
    chosen = Options(**options)
    chosen.hand_down()
    return Feeds(app, chosen)
