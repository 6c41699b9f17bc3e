"""Who reads which feed. A subscription, its feed and the feed's recurring row change in one transaction, that of the caller.

Whoever changes a feed locks its row first, and the recurring row after it: two who come and go at once do so one after the other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from rota.apps.feeds.addresses import Address, read_address
from rota.errors import Conflict, NotFound, UsageError

if TYPE_CHECKING:
    from rota.apps.feeds.service import Feeds

Conn = AsyncConnection[Any]

MAX_SUBSCRIBER = 300
LOOKS = 5  # at feeds that move while they are subscribed to

# A feed is fetched while somebody reads it, unless its server has said that it is gone for good.
WANTED = """EXISTS (SELECT FROM feeds.subscription WHERE feed_id = %(feed_id)s AND unsubscribed_at IS NULL)
AND NOT EXISTS (SELECT FROM feeds.feed WHERE id = %(feed_id)s AND (gone_at IS NOT NULL OR merged_into IS NOT NULL))"""

_KNOWN = "SELECT digest, feed_id FROM feeds.address WHERE digest = ANY (%s)"
_NEW_ADDRESS = """
INSERT INTO feeds.address (digest, url, feed_id)
SELECT n.digest, n.url, nextval(pg_get_serial_sequence('feeds.feed', 'id'))
FROM unnest(%s::text[], %s::text[]) AS n (digest, url) ORDER BY n.digest
ON CONFLICT (digest) DO NOTHING RETURNING digest, feed_id"""
_NEW_FEED = """
INSERT INTO feeds.feed (id, url, query, host)
SELECT n.id, n.url, n.query, n.host
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[]) AS n (id, url, query, host)"""
_LOCK = "SELECT id, host FROM feeds.feed WHERE id = ANY (%s) ORDER BY id FOR UPDATE"
_SUBSCRIBE = """
INSERT INTO feeds.subscription (feed_id, subscriber) SELECT id, %s FROM unnest(%s::bigint[]) AS n (id)
ON CONFLICT (feed_id, subscriber) WHERE unsubscribed_at IS NULL DO NOTHING RETURNING feed_id"""
_COME_BACK = "UPDATE feeds.feed SET gone_at = NULL WHERE id = ANY (%s) AND gone_at IS NOT NULL"
_UNSUBSCRIBE = """
UPDATE feeds.subscription SET unsubscribed_at = rota.now()
WHERE feed_id = %s AND subscriber = %s AND unsubscribed_at IS NULL RETURNING id"""


class Subscribed(NamedTuple):
    """What came of subscribing to an address."""

    feed_id: int
    url: str
    created: bool  # the feed was not known
    subscribed: bool  # and they were not subscribed to it


async def subscribe(feeds: Feeds, conn: Conn, urls: Iterable[str], subscriber: str) -> list[Subscribed]:
    """Subscribes somebody to feeds, all or none, in the order of the addresses; again is harmless."""
    check_subscriber(subscriber)
    asked = [read_address(url, feeds.app.settings) for url in urls]
    if not asked:
        return []
    async with part_of(conn), conn.cursor(row_factory=tuple_row) as cursor:
        created = await _make_unknown(cursor, asked)
        ids, hosts = await _lock_all(cursor, sorted({each.digest for each in asked}))
        all_ids = sorted(hosts)
        await cursor.execute(_SUBSCRIBE, [subscriber, all_ids])
        fresh = {feed_id for (feed_id,) in await cursor.fetchall()}
        await feeds.fetch_feed.using(conn=conn).aensure_many([{"feed_id": id, "host": hosts[id]} for id in all_ids])
        await cursor.execute(_COME_BACK, [all_ids])
    return [Subscribed(ids[each.digest], each.url, each.digest in created, ids[each.digest] in fresh) for each in asked]


async def unsubscribe(feeds: Feeds, conn: Conn, feed_id: int, subscriber: str) -> bool:
    """Ends a subscription; whether the feed is still fetched. NotFound if there is no such subscription."""
    check_subscriber(subscriber)
    async with part_of(conn), conn.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(_LOCK, [[feed_id]])
        await cursor.execute(_UNSUBSCRIBE, [feed_id, subscriber])
        if await cursor.fetchone() is None:
            raise NotFound(f"{subscriber} is not subscribed to feed {feed_id}: `rota feeds list` shows who is subscribed to what")
        return await sync(feeds, conn, feed_id)


async def sync(feeds: Feeds, conn: Conn, feed_id: int) -> bool:
    """Enables or disables a feed's row as its subscriptions say; its feed is locked. Whether it is enabled."""
    try:
        enabled = (await feeds.fetch_feed.using(conn=conn).async_enabled(WANTED, feed_id=feed_id)).enabled
    except NotFound:  # an operator has deleted the row; whoever subscribes next makes it again
        enabled = False
    if not enabled:
        await feeds.leave_hub(conn, feed_id)
    return enabled


@asynccontextmanager
async def part_of(conn: Conn) -> AsyncIterator[None]:
    """A block of statements that is done as a whole, within the caller's transaction; one of its own where they autocommit."""
    if not conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE:
        await conn.execute("SELECT")  # begins theirs: what follows must not commit before they do
    async with conn.transaction():
        yield


def check_subscriber(subscriber: str) -> None:
    """Refuses what names nobody."""
    if not isinstance(subscriber, str) or not 1 <= len(subscriber) <= MAX_SUBSCRIBER or not subscriber.isprintable():
        raise UsageError(f"subscriber={subscriber!r:.80} is not allowed: 1 to {MAX_SUBSCRIBER} printable characters")


async def _make_unknown(cursor: Any, asked: Sequence[Address]) -> set[str]:
    """Makes a feed for each address that nobody has yet. Of two who do so at once the second waits, and finds the first's."""
    addresses = {each.digest: each for each in asked}
    await cursor.execute(_KNOWN, [list(addresses)])
    known = {digest for digest, _ in await cursor.fetchall()}
    unknown = sorted(addresses.keys() - known)
    if not unknown:
        return set()
    await cursor.execute(_NEW_ADDRESS, [unknown, [addresses[digest].base for digest in unknown]])
    made = [(id, addresses[digest]) for digest, id in await cursor.fetchall()]
    columns = [(id, each.base, each.seal_query(id), each.host) for id, each in made]
    await cursor.execute(_NEW_FEED, [list(column) for column in zip(*columns, strict=True)] or [[], [], [], []])
    return {each.digest for _, each in made}


async def _lock_all(cursor: Any, digests: list[str]) -> tuple[dict[str, int], dict[int, str]]:
    """The feeds of these addresses, locked, and the hosts of the feeds. One that moves to another meanwhile is looked up again."""
    ids: dict[str, int] = {}
    hosts: dict[int, str] = {}
    for _ in range(LOOKS):
        await cursor.execute(_KNOWN, [digests])
        found = dict(await cursor.fetchall())
        if found == ids:
            return ids, hosts
        ids = found
        await cursor.execute(_LOCK, [sorted(set(ids.values()))])
        hosts = dict(await cursor.fetchall())
    raise Conflict("the feeds move while they are subscribed to: try again in a moment")
