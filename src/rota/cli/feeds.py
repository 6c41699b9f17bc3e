"""`rota feeds`: add, list, entries, import, remove."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from rota.cli.database import connect
from rota.cli.local import control_on, current_user
from rota.cli.locate import AppOption, find_app
from rota.cli.output import JsonOption, YesOption, confirm, print_json, print_table, say
from rota.config import load_settings
from rota.errors import UsageError

if TYPE_CHECKING:
    from rota.apps.feeds import Feeds

T = TypeVar("T")

app = typer.Typer(
    help="Subscribe to feeds, and read what is in them.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)

WhichArgument = Annotated[str, typer.Argument(metavar="FEED", help="The feed's number or address.", show_default=False)]
SubscriberOption = Annotated[
    str | None, typer.Option("--as", metavar="NAME", help="The subscriber; else who runs the command.", show_default=False)
]


@app.command()
def add(
    url: Annotated[str, typer.Argument(metavar="URL", help="The feed's address.", show_default=False)],
    subscriber: SubscriberOption = None,
    location: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Subscribe to a feed; workers fetch it from now on."""
    who = subscriber or current_user()

    async def join(feeds: Feeds, conn: Any) -> Any:
        async with conn.transaction():
            done = await feeds.subscribe(conn, url, who)
            if done.subscribed:
                await control_on(conn).record(conn, "feeds.subscribe", done.feed_id, subscriber=who)
            return done

    done = _run(location, join)
    if as_json:
        print_json(done._asdict())
        return
    say(f"subscribed to {done.url}" if done.subscribed else f"{done.url} was subscribed to already")
    print(done.feed_id)


@app.command()
def remove(
    feed: WhichArgument,
    subscriber: SubscriberOption = None,
    yes: YesOption = False,
    location: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Unsubscribe from a feed; nobody fetches it when the last one has left, and its entries stay."""
    who = subscriber or current_user()
    confirm(f"Unsubscribe {who} from feed {feed}?", yes=yes)

    async def leave(feeds: Feeds, conn: Any) -> tuple[int, bool]:
        feed_id = await _find(feeds, conn, feed)
        async with conn.transaction():
            enabled = await feeds.unsubscribe(conn, feed_id, who)
            await control_on(conn).record(conn, "feeds.unsubscribe", feed_id, subscriber=who)
        return feed_id, enabled

    feed_id, enabled = _run(location, leave)
    if as_json:
        print_json({"feed_id": feed_id, "enabled": enabled})
        return
    say(f"{who} is unsubscribed from feed {feed_id}, " + ("which others read" if enabled else "which is fetched no more"))


@app.command(name="list")
def list_(
    health: Annotated[str | None, typer.Option(help="Only those that are new, ok, failing, gone or off.")] = None,
    q: Annotated[str | None, typer.Option("--search", "-q", help="Only those with this in their address or title.")] = None,
    subscriber: SubscriberOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, help="At most so many.")] = 50,
    location: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the feeds: how they do, and when each is fetched next."""
    kinds = ("new", "ok", "failing", "gone", "off")
    if health is not None and health not in kinds:
        raise UsageError(f"health={health!r} is none: one of {', '.join(kinds)}")
    found = _run(location, lambda feeds, conn: feeds.list(conn, health=health, q=q, subscriber=subscriber, limit=limit))
    if as_json:
        print_json([each.model_dump() for each in found])
        return
    print_table(
        ["id", "title", "health", "next fetch", "entries", "readers", "url", "error"],
        [
            [each.id, each.title, each.health, each.next_fetch_at, each.entries, each.subscribers, each.url, each.last_error]
            for each in found
        ],
        empty="there are no feeds: `rota feeds add URL` subscribes to one",
    )


@app.command()
def entries(
    feed: Annotated[str | None, typer.Argument(metavar="[FEED]", help="Of this feed only: its number or address.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, help="At most so many.")] = 20,
    location: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """List entries, those that were seen last first."""

    async def look(feeds: Feeds, conn: Any) -> Any:
        feed_id = None if feed is None else await _find(feeds, conn, feed)
        return await feeds.entries(conn, feed_id=feed_id, limit=limit)

    found = _run(location, look)
    if as_json:
        print_json([each.model_dump() for each in found])
        return
    print_table(
        ["id", "published", "title", "feed", "url"],
        [[each.id, each.published_at or each.seen_at, each.title, each.feed_title, each.url] for each in found],
        empty="there are no entries yet: workers fetch feeds, and `rota feeds list` says when",
    )


@app.command(name="import")
def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A list of feeds, as OPML; - is standard input.", show_default=False)
    ],
    subscriber: SubscriberOption = None,
    location: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Subscribe to all feeds of an OPML file; again is harmless."""
    from rota.apps.feeds.opml import read_opml

    try:
        body = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    opml = read_opml(body, load_settings())
    created = _run(location, lambda feeds, conn: _import_all(feeds, conn, opml.urls, subscriber or current_user()))
    if as_json:
        print_json({"feeds": len(opml.urls), "created": created, "refused": [each._asdict() for each in opml.refused]})
        return
    for each in opml.refused:
        say(f"left out: {each.url}: {each.reason}")
    say(f"subscribed to {len(opml.urls):,} feeds, of which {created:,} were not known")


async def _import_all(feeds: Feeds, conn: Any, urls: list[str], subscriber: str) -> int:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    created = 0
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        work = bar.add_task("feeds", total=len(urls))
        async for done, new in feeds.import_now(conn, urls, subscriber):
            created += new
            bar.advance(work, done)
    await control_on(conn).record(conn, "feeds.import", f"{len(urls)} feeds", subscriber=subscriber, feeds=len(urls))
    return created


def _run(location: str | None, operation: Callable[[Feeds, Any], Awaitable[T]]) -> T:
    """Does it with the feeds of the application, or where there is none with feeds as they are by default."""
    from rota.app import Rota

    application = find_app(location) or Rota()
    return connect(lambda conn: operation(application.include("rota.apps.feeds"), conn))


async def _find(feeds: Feeds, conn: Any, which: str) -> int:
    if which.isascii() and which.isdigit() and len(which) < 19:
        return (await feeds.get(conn, int(which))).id
    return await feeds.find(conn, which)
