"""What a fetch changes: entries, the feed itself, and where it is when it has moved. All of it in the transaction of the job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import AsyncConnection
from psycopg.rows import class_row, tuple_row

from rota.apps.feeds.addresses import Address, whole_url
from rota.apps.feeds.document import Entry
from rota.apps.feeds.subscribing import sync

if TYPE_CHECKING:
    from rota.apps.feeds.service import Feeds

Conn = AsyncConnection[Any]

RECENT = 20  # entries, by which the rate of a feed is judged
MAX_HEADER = 1000  # characters of a validator that is sent back

_KNOWN = """
SELECT f.id, f.url, f.query, f.enabled, f.etag, f.last_modified, f.body_digest, f.consecutive_failures AS failures,
    rota.now() AS now, w.until IS NOT NULL AND w.until > rota.now() AS is_pushed
FROM feeds.feeds f LEFT JOIN feeds.websub w ON w.feed_id = f.id WHERE f.id = %s"""
_LOCK = "SELECT FROM feeds.feed WHERE id = %s FOR UPDATE"
# What is there already, unchanged, is left alone, and takes no number.
_ENTRIES = """
INSERT INTO feeds.entry AS e (feed_id, uid, url, title, author, content, summary, digest, published_at)
SELECT %(feed_id)s, n.uid, n.url, n.title, n.author, n.content, n.summary, n.digest, n.published_at
FROM unnest(%(uids)s::text[], %(urls)s::text[], %(titles)s::text[], %(authors)s::text[], %(contents)s::text[],
            %(summaries)s::text[], %(digests)s::text[], %(published)s::timestamptz[])
    WITH ORDINALITY AS n (uid, url, title, author, content, summary, digest, published_at, position)
WHERE NOT EXISTS (SELECT FROM feeds.entry k WHERE k.feed_id = %(feed_id)s AND k.uid = n.uid AND k.digest = n.digest)
ORDER BY n.position
ON CONFLICT (feed_id, uid) DO UPDATE
SET url = excluded.url, title = excluded.title, author = excluded.author, content = excluded.content, summary = excluded.summary,
    digest = excluded.digest, updated_at = rota.now()
WHERE e.digest <> excluded.digest
RETURNING e.xmax = 0"""
_COUNTED = """
UPDATE feeds.feed SET entry_count = entry_count + %(new)s, last_new_at = CASE WHEN %(new)s > 0 THEN rota.now() ELSE last_new_at END
WHERE id = %(feed_id)s"""
_RECENT = """
SELECT least(coalesce(published_at, seen_at), seen_at) FROM feeds.entry WHERE feed_id = %s ORDER BY id DESC LIMIT %s"""
_SUCCEEDED = """
UPDATE feeds.feed SET
    fetch_interval = %(interval)s, title = coalesce(nullif(%(title)s, ''), title), site_url = coalesce(%(site_url)s, site_url),
    etag = CASE WHEN %(status)s = 304 THEN coalesce(%(etag)s, etag) ELSE %(etag)s END,
    last_modified = CASE WHEN %(status)s = 304 THEN coalesce(%(last_modified)s, last_modified) ELSE %(last_modified)s END,
    body_digest = coalesce(%(body_digest)s, body_digest), last_fetched_at = rota.now(), last_success_at = rota.now(),
    last_status = %(status)s, last_error = NULL, consecutive_failures = 0
WHERE id = %(feed_id)s"""
_FAILED = """
UPDATE feeds.feed SET
    last_fetched_at = rota.now(), last_status = %(status)s, last_error = %(reason)s, consecutive_failures = consecutive_failures + 1
WHERE id = %(feed_id)s"""
_GONE = """
UPDATE feeds.feed SET gone_at = rota.now(), last_fetched_at = rota.now(), last_status = 410,
    last_error = 'it is gone for good: its server answered 410', consecutive_failures = consecutive_failures + 1
WHERE id = %s"""
_CLAIM_ADDRESS = "INSERT INTO feeds.address (digest, url, feed_id) VALUES (%s, %s, %s) ON CONFLICT (digest) DO NOTHING"
_OWNER = "SELECT feed_id FROM feeds.address WHERE digest = %s"
# Locked, so that nobody disables it before it is made sure of, which enables it.
_IS_ENABLED = "SELECT enabled FROM rota.schedule WHERE id = rota.lock_recurring('fetch_feed', %s)"
_LOCK_BOTH = "SELECT id FROM feeds.feed WHERE id = ANY (%s) ORDER BY id FOR UPDATE"
_MOVE = "UPDATE feeds.feed SET url = %s, query = %s, host = %s, etag = NULL, last_modified = NULL WHERE id = %s"
# Who reads both keeps the one that stays.
_MERGE = (
    """UPDATE feeds.subscription s SET feed_id = %(into)s WHERE feed_id = %(feed_id)s AND unsubscribed_at IS NULL AND NOT EXISTS (
        SELECT FROM feeds.subscription t
        WHERE t.feed_id = %(into)s AND t.subscriber = s.subscriber AND t.unsubscribed_at IS NULL)""",
    "UPDATE feeds.subscription SET unsubscribed_at = rota.now() WHERE feed_id = %(feed_id)s AND unsubscribed_at IS NULL",
    """UPDATE feeds.entry e SET feed_id = %(into)s WHERE feed_id = %(feed_id)s
       AND NOT EXISTS (SELECT FROM feeds.entry t WHERE t.feed_id = %(into)s AND t.uid = e.uid)""",
    "DELETE FROM feeds.entry WHERE feed_id = %(feed_id)s",
    "UPDATE feeds.address SET feed_id = %(into)s WHERE feed_id = %(feed_id)s",
    "UPDATE feeds.feed SET merged_into = %(into)s, entry_count = 0 WHERE id = %(feed_id)s",
    """UPDATE feeds.feed SET entry_count = (SELECT count(*) FROM feeds.entry WHERE feed_id = %(into)s) WHERE id = %(into)s""",
)


class Known(NamedTuple):
    """What a fetch has to know of a feed."""

    id: int
    url: str  # the whole of it
    query: str | None
    enabled: bool
    etag: str | None
    last_modified: str | None
    body_digest: str | None
    failures: int
    now: datetime
    is_pushed: bool


async def get_known(conn: Conn, feed_id: int) -> Known | None:
    """The feed; None if there is none."""
    async with conn.cursor(row_factory=class_row(Known)) as cursor:
        await cursor.execute(_KNOWN, [feed_id])
        known = await cursor.fetchone()
        return known and known._replace(url=whole_url(known.id, known.url, known.query))


async def lock(conn: Conn, feed_id: int) -> None:
    """Lets nobody else change a feed until the transaction ends."""
    await conn.execute(_LOCK, [feed_id])


async def store_entries(conn: Conn, feed_id: int, entries: Sequence[Entry]) -> int:
    """Stores those that are new and changes those that have changed; how many are new. The feed is locked."""
    oldest_first = entries[::-1]  # the newest gets the highest number
    values = {
        "feed_id": feed_id,
        "uids": [each.uid for each in oldest_first],
        "urls": [each.url for each in oldest_first],
        "titles": [each.title for each in oldest_first],
        "authors": [each.author for each in oldest_first],
        "contents": [each.content for each in oldest_first],
        "summaries": [each.summary for each in oldest_first],
        "digests": [each.digest for each in oldest_first],
        "published": [each.published_at for each in oldest_first],
    }
    async with conn.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(_ENTRIES, values)
        new = sum(bool(is_new) for (is_new,) in await cursor.fetchall())
    await conn.execute(_COUNTED, {"feed_id": feed_id, "new": new})
    return new


async def recent_times(conn: Conn, feed_id: int) -> list[datetime]:
    """When the last entries were published, or seen where that is not known."""
    async with conn.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(_RECENT, [feed_id, RECENT])
        return [at for (at,) in await cursor.fetchall()]


async def succeeded(conn: Conn, feed_id: int, **values: Any) -> None:
    """Notes a fetch that went well."""
    await conn.execute(_SUCCEEDED, {"feed_id": feed_id, **values})


async def failed(conn: Conn, feed_id: int, *, status: int | None, reason: str) -> None:
    """Notes a fetch that failed."""
    await conn.execute(_FAILED, {"feed_id": feed_id, "status": status, "reason": reason})


async def gone(feeds: Feeds, conn: Conn, feed_id: int) -> None:
    """Switches a feed off that is gone for good, until somebody subscribes to it again."""
    await lock(conn, feed_id)
    await conn.execute(_GONE, [feed_id])
    await sync(feeds, conn, feed_id)


async def move(feeds: Feeds, conn: Conn, feed_id: int, to: Address) -> int:
    """Gives a feed another address; which feed has that now. Another one, if it had it before: this one is merged into it."""
    await conn.execute(_CLAIM_ADDRESS, [to.digest, to.base, feed_id])
    owner: int = await _value(conn, _OWNER, [to.digest])
    await conn.execute(_LOCK_BOTH, [[feed_id, owner]])
    if owner == feed_id:
        await conn.execute(_MOVE, [to.base, to.seal_query(feed_id), to.host, feed_id])
        if await _value(conn, _IS_ENABLED, [f"feed:{feed_id}"]):  # else whoever subscribes next gives the row its host
            await feeds.fetch_feed.using(conn=conn).aensure(feed_id=feed_id, host=to.host)
        return feed_id
    for statement in _MERGE:
        await conn.execute(statement, {"feed_id": feed_id, "into": owner})
    await sync(feeds, conn, feed_id)
    await conn.execute("UPDATE feeds.feed SET gone_at = NULL WHERE id = %s", [owner])  # it has just answered
    await sync(feeds, conn, owner)
    return owner


async def _value(conn: Conn, statement: str, values: Any) -> Any:
    async with conn.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(statement, values)
        row = await cursor.fetchone()
        return None if row is None else row[0]
