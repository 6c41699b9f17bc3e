"""The handlers as workers know them, at the top level: a process of its own, in which a suspect runs, must find them."""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

from rota import Context, Rota
from rota.apps.feeds import fetching, importing, websub
from rota.apps.feeds.options import Options
from rota.config import load_settings

if TYPE_CHECKING:
    from rota.apps.feeds.service import Feeds

# Of the application whose job runs; in a process of its own, where there is none, one is made.
current: ContextVar[Feeds | None] = ContextVar("rota_feeds", default=None)


def here() -> Feeds:
    """The feeds of the application whose job runs."""
    return current.get() or _alone()


@cache
def _alone() -> Feeds:
    from rota.apps.feeds.service import Feeds

    return Feeds(Rota(settings=load_settings(app_apps="")), Options.handed_down())


async def fetch_feed(ctx: Context, feed_id: int, host: str = "") -> Any:  # noqa: ARG001 (by the host fetches are limited)
    """Fetches a feed and stores what is new; the feed, its server and how often there is news decide when it is fetched next."""
    return await fetching.fetch(here(), ctx, feed_id)


async def renew_websub(ctx: Context) -> None:
    """Asks hubs anew for news whose leases end within a day."""
    await websub.renew(here(), ctx)


async def ask_hub(ctx: Context, feed_id: int) -> Any:
    """Asks the hub of a feed for its news, or for no more of it."""
    return await websub.ask_hub(here(), ctx, feed_id)


async def read_delivery(ctx: Context, delivery_id: int) -> Any:
    """Stores what a hub has sent."""
    return await websub.read_delivery(here(), ctx, delivery_id)


async def import_opml(ctx: Context, opml_id: int) -> Any:
    """Subscribes somebody to a list of feeds."""
    return await importing.import_opml(here(), ctx, opml_id)
