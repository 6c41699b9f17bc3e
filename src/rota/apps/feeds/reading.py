"""What is known of feeds, as it is shown."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from rota.apps.feeds.addresses import Address
from rota.apps.feeds.records import Feed, FeedDetail, FeedEntry, FullEntry, Subscriber
from rota.errors import NotFound

Conn = AsyncConnection[Any]

MOST_COUNTED = 10_000  # of anything, for one number on a page

_FEED = f"""
SELECT f.id, f.url || CASE WHEN f.query IS NULL THEN '' ELSE '?…' END AS url,
    f.host, f.title, f.site_url, f.health, f.enabled, f.entry_count AS entries, f.next_fetch_at,
    extract(epoch FROM f.fetch_interval)::float8 AS interval_s, f.last_fetched_at, f.last_success_at, f.last_new_at, f.last_status,
    f.last_error, f.consecutive_failures, nullif(w.state, 'leaving') AS websub, w.until AS websub_until, f.created_at,
    'fetch_feed/feed:' || f.id AS schedule,
    (SELECT count(*) FROM (SELECT FROM feeds.subscription s WHERE s.feed_id = f.id AND s.unsubscribed_at IS NULL
                           LIMIT {MOST_COUNTED}) c) AS subscribers
FROM feeds.feeds f LEFT JOIN feeds.websub w ON w.feed_id = f.id"""
_LIST = (
    _FEED
    + """
WHERE f.merged_into IS NULL AND f.id > %(after)s AND (%(health)s::text IS NULL OR f.health = %(health)s)
    AND (%(health)s IS NULL OR %(health)s = 'off' OR f.state = %(health)s)  -- by its index
    AND (%(q)s::text IS NULL OR strpos(lower(f.url), %(q)s) > 0 OR strpos(lower(f.title), %(q)s) > 0)
    AND (%(subscriber)s::text IS NULL OR EXISTS (
        SELECT FROM feeds.subscription s WHERE s.feed_id = f.id AND s.subscriber = %(subscriber)s AND s.unsubscribed_at IS NULL))
ORDER BY f.id LIMIT %(limit)s"""
)
_ONE = _FEED + " WHERE f.id = %s AND f.merged_into IS NULL"
_AT = "SELECT feed_id FROM feeds.address WHERE digest = %s"
_SUBSCRIBERS = """
SELECT subscriber, created_at FROM feeds.subscription WHERE feed_id = %s AND unsubscribed_at IS NULL
ORDER BY subscriber LIMIT 100"""
_ADDRESSES = """
SELECT a.url FROM feeds.address a JOIN feeds.feed f ON f.id = a.feed_id WHERE f.id = %s AND a.url <> f.url
ORDER BY a.url LIMIT 100"""
_ENTRY = """
SELECT e.id, e.feed_id, f.title AS feed_title, e.uid, e.url, e.title, e.author, e.summary AS text, e.published_at, e.seen_at,
    e.updated_at"""
_ENTRIES = (
    _ENTRY
    + """
FROM feeds.entry e JOIN feeds.feed f ON f.id = e.feed_id
WHERE e.id < %(before)s AND (%(feed_id)s::bigint IS NULL OR e.feed_id = %(feed_id)s)
ORDER BY e.id DESC LIMIT %(limit)s"""
)
_FULL_ENTRY = _ENTRY + ", e.content FROM feeds.entry e JOIN feeds.feed f ON f.id = e.feed_id WHERE e.id = %s"
_COUNT = f"""
SELECT h.health, (SELECT count(*) FROM (
    SELECT FROM feeds.feeds f WHERE f.state = h.health AND f.health = h.health AND f.merged_into IS NULL
    LIMIT {MOST_COUNTED + 1}) c) AS count
FROM unnest(ARRAY['new', 'ok', 'failing', 'gone']) AS h (health)
UNION ALL
SELECT 'off', (SELECT count(*) FROM (
    SELECT FROM feeds.feeds f WHERE f.health = 'off' AND f.merged_into IS NULL LIMIT {MOST_COUNTED + 1}) c)"""
_LATE = """
SELECT min(next_fetch_at) AS oldest_due_at, greatest(extract(epoch FROM rota.now() - min(next_fetch_at)), 0)::float8 AS late_s
FROM feeds.feeds WHERE enabled AND next_fetch_at <= rota.now()"""


async def list_feeds(
    conn: Conn, *, health: str | None = None, q: str | None = None, subscriber: str | None = None, after: int = 0, limit: int = 50
) -> list[Feed]:
    """Feeds by their numbers, beyond `after`: of this health, with this in their address or title, read by this subscriber."""
    values = {"health": health, "q": q and q.lower(), "subscriber": subscriber, "after": after, "limit": limit}
    return [Feed(**row) for row in await _rows(conn, _LIST, values)]


async def get_feed(conn: Conn, feed_id: int) -> FeedDetail:
    """One feed; NotFound if there is none."""
    found = await _rows(conn, _ONE, [feed_id])
    if not found:
        raise NotFound(f"there is no feed {feed_id}: it may have moved to where another one is; `rota feeds list` shows them")
    subscriptions = [Subscriber(**row) for row in await _rows(conn, _SUBSCRIBERS, [feed_id])]
    addresses = [row["url"] for row in await _rows(conn, _ADDRESSES, [feed_id])]
    return FeedDetail(**found[0], subscriptions=subscriptions, addresses=addresses)


async def find_feed(conn: Conn, address: Address) -> int:
    """The number of the feed with this address, or that had it; NotFound if there is none."""
    found = await _rows(conn, _AT, [address.digest])
    if not found:
        raise NotFound(f"there is no feed with the address {address.base}: `rota feeds list` shows them")
    feed_id: int = found[0]["feed_id"]
    return feed_id


async def list_entries(conn: Conn, *, feed_id: int | None = None, before: int | None = None, limit: int = 50) -> list[FeedEntry]:
    """Entries, those that were seen last first: of one feed or of all."""
    values = {"feed_id": feed_id, "before": 2**63 - 1 if before is None else before, "limit": limit}
    return [FeedEntry(**row) for row in await _rows(conn, _ENTRIES, values)]


async def get_entry(conn: Conn, entry_id: int) -> FullEntry:
    """One entry with its content; NotFound if there is none."""
    found = await _rows(conn, _FULL_ENTRY, [entry_id])
    if not found:
        raise NotFound(f"there is no entry {entry_id}")
    return FullEntry(**found[0])


async def summarize(conn: Conn) -> dict[str, Any]:
    """How many feeds are in which health, counted as far as makes sense, and how late the latest is."""
    counts = {row["health"]: row["count"] for row in await _rows(conn, _COUNT)}
    shown = {health: {"count": min(count, MOST_COUNTED), "capped": count > MOST_COUNTED} for health, count in counts.items()}
    [late] = await _rows(conn, _LATE)
    return {**shown, "oldest_due_at": late["oldest_due_at"], "late_s": late["late_s"] or 0.0}


async def _rows(conn: Conn, statement: Any, values: Any = None) -> list[dict[str, Any]]:
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement, values)
        return await cursor.fetchall()
