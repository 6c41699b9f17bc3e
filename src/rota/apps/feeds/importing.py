"""Lists of feeds: subscribed to some at a time, so that nobody waits long for a lock, and with a word on how far it is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from psycopg import AsyncConnection, errors
from psycopg.rows import tuple_row

from rota import Cancel, Context, seal, unseal
from rota.apps.feeds.subscribing import check_subscriber, part_of, subscribe

if TYPE_CHECKING:
    from rota.apps.feeds.service import Feeds

Conn = AsyncConnection[Any]

KIND = "opml"
BATCH = 100
TRIES = 5

_NEW_ID = "SELECT nextval(pg_get_serial_sequence('feeds.opml', 'id'))"
_KEEP = "INSERT INTO feeds.opml (id, subscriber, urls) OVERRIDING SYSTEM VALUE VALUES (%s, %s, %s)"
_KEPT = "SELECT subscriber, urls FROM feeds.opml WHERE id = %s"
_DONE = "DELETE FROM feeds.opml WHERE id = %s"


async def keep(feeds: Feeds, conn: Conn, urls: Sequence[str], subscriber: str) -> UUID:
    """Keeps a list with the job that subscribes to it; that job's id."""
    check_subscriber(subscriber)
    async with part_of(conn), conn.cursor(row_factory=tuple_row) as cursor:
        row = await (await cursor.execute(_NEW_ID)).fetchone()
        assert row is not None
        await cursor.execute(_KEEP, [row[0], subscriber, _write(row[0], urls)])
        id: UUID = (await feeds.import_opml.using(conn=conn).aenqueue(opml_id=row[0])).id
    return id


async def import_opml(feeds: Feeds, ctx: Context, opml_id: int) -> Any:
    """Subscribes to a list that was kept; one that was broken off begins anew, which is harmless."""
    async with ctx.connection() as conn, conn.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(_KEPT, [opml_id])
        found = await cursor.fetchone()
    if found is None:
        return Cancel("the list has been subscribed to")
    subscriber, urls = found[0], _read(opml_id, found[1])
    done = created = 0
    ctx.progress(0, len(urls), "feeds")
    async with ctx.connection() as conn:
        async for some, new in in_batches(feeds, conn, urls, subscriber):
            done, created = done + some, created + new
            await conn.commit()
            ctx.progress(done, len(urls), "feeds")
            if ctx.canceled:
                return None
    async with ctx.transaction() as conn:
        await conn.execute(_DONE, [opml_id])
        ctx.result = {"feeds": len(urls), "created": created}
    return ctx.result


def _write(opml_id: int, urls: Sequence[str]) -> str:
    text = json.dumps(list(urls))
    has_query = any("?" in url for url in urls)
    return seal(text, kind=KIND, id=opml_id, field="urls", key_needed=False) if has_query else text


def _read(opml_id: int, stored: str) -> list[str]:
    text = stored if stored.startswith("[") else unseal(stored, kind=KIND, id=opml_id, field="urls")
    urls: list[str] = json.loads(text)
    return urls


async def in_batches(feeds: Feeds, conn: Conn, urls: Sequence[str], subscriber: str) -> AsyncIterator[tuple[int, int]]:
    """Subscribes to feeds, a transaction for each hundred; says after each how many those were, and how many of them are new."""
    for start in range(0, len(urls), BATCH):
        some = urls[start : start + BATCH]
        for left in reversed(range(TRIES)):
            try:
                done = await subscribe(feeds, conn, some, subscriber)
                break
            except errors.DeadlockDetected:  # with a feed that moves to one of these; it goes on, and so do we
                await conn.rollback()
                if not left:
                    raise
        yield len(some), sum(each.created for each in done)
