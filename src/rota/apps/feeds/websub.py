"""WebSub: hubs that tell of news at once. We ask a hub to, it asks whether we meant it, and then sends us what is new, signed."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import secrets
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self
from urllib.parse import urlencode

from psycopg import AsyncConnection
from psycopg.rows import tuple_row

from rota import Cancel, Context, seal, unseal
from rota.apps.feeds.addresses import digest
from rota.apps.feeds.document import NotAFeed
from rota.apps.feeds.parsing import parse
from rota.apps.feeds.storing import lock, store_entries
from rota.apps.feeds.text import one_line
from rota.errors import CallFailed, ConfigError, UsageError
from rota.outbound.address import check_url

if TYPE_CHECKING:
    from rota.apps.feeds.service import Feeds

log = logging.getLogger("rota.feeds")

Conn = AsyncConnection[Any]
Mode = Literal["subscribe", "unsubscribe"]
Taken = Literal["taken", "ignored", "unknown", "full"]

RENEW_EVERY = timedelta(days=1)
ASK_AGAIN = timedelta(days=7)  # a hub that has denied
LEASES = (timedelta(minutes=5), timedelta(days=90))  # that a hub may give
MAX_WAITING = 20  # messages about one feed that nobody has read yet
MAX_REASON = 500
ALGORITHMS = {"sha1": hashlib.sha1, "sha256": hashlib.sha256, "sha384": hashlib.sha384, "sha512": hashlib.sha512}

_FOLLOW = """
INSERT INTO feeds.websub AS w (feed_id, hub, sealed, topic_digest, token_digest, state)
VALUES (%(feed_id)s, %(hub)s, %(sealed)s, %(topic)s, %(token)s, 'asked')
ON CONFLICT (feed_id) DO UPDATE
SET hub = excluded.hub, sealed = excluded.sealed, topic_digest = excluded.topic_digest, token_digest = excluded.token_digest,
    state = 'asked', until = NULL, asked_at = rota.now(), reason = NULL
WHERE (w.hub, w.topic_digest) <> (excluded.hub, excluded.topic_digest) OR w.state IN ('leaving', 'ended')
    OR w.state = 'denied' AND w.asked_at < rota.now() - %(again)s
RETURNING feed_id"""
_LEAVE = (
    "UPDATE feeds.websub SET state = 'leaving', until = NULL WHERE feed_id = %s AND state IN ('asked', 'active') RETURNING feed_id"
)
_ASKED = "SELECT hub, sealed, state FROM feeds.websub WHERE feed_id = %s"
_NOTE = "UPDATE feeds.websub SET reason = %s WHERE feed_id = %s AND state = 'asked'"  # the hub may have answered already
# Those that end within a day, or that ended while nobody looked; and questions that no hub came back to.
_ENDING = """
UPDATE feeds.websub w SET asked_at = rota.now() FROM (
    SELECT s.feed_id FROM feeds.websub s JOIN feeds.feeds f ON f.id = s.feed_id
    WHERE f.enabled AND (s.state = 'active' AND s.until < rota.now() + interval '24 hours'
                         OR s.state = 'asked' AND s.asked_at < rota.now() - interval '1 hour')
    ORDER BY s.feed_id FOR UPDATE OF s SKIP LOCKED) e
WHERE w.feed_id = e.feed_id RETURNING w.feed_id"""
_CONFIRM = """
UPDATE feeds.websub w SET state = 'active', until = rota.now() + %(lease)s, reason = NULL FROM feeds.feeds f
WHERE w.token_digest = %(token)s AND w.topic_digest = %(topic)s AND w.state IN ('asked', 'active')
    AND f.id = w.feed_id AND f.enabled
RETURNING w.feed_id"""
_CONFIRM_END = """
UPDATE feeds.websub SET state = 'ended', until = NULL
WHERE token_digest = %(token)s AND topic_digest = %(topic)s AND state IN ('leaving', 'ended')
RETURNING feed_id"""
_DENY = """
UPDATE feeds.websub SET state = 'denied', until = NULL, reason = %(reason)s
WHERE token_digest = %(token)s AND topic_digest = %(topic)s AND state IN ('asked', 'active') RETURNING feed_id"""
_RECEIVER = "SELECT feed_id, hub, sealed FROM feeds.websub WHERE token_digest = %s AND state = 'active'"
_TAKE = """
INSERT INTO feeds.delivery (feed_id, content_type, body) SELECT %(feed_id)s, %(kind)s, %(body)s
WHERE (SELECT count(*) FROM feeds.delivery WHERE feed_id = %(feed_id)s) < %(most)s RETURNING id"""
_DELIVERY = (
    "SELECT d.feed_id, d.content_type, d.body, f.url FROM feeds.delivery d JOIN feeds.feed f ON f.id = d.feed_id WHERE d.id = %s"
)
_READ = "DELETE FROM feeds.delivery WHERE id = %s"


class Credentials(NamedTuple):
    """What only a hub and we know of a subscription: the feed's address, where the hub calls, what it signs with."""

    topic: str
    token: str
    secret: str

    def seal(self, feed_id: int, hub: str) -> str:
        """Return them as they are stored, for this feed and hub."""
        return seal(json.dumps(self), kind="websub", id=feed_id, field="sealed", origin=hub, key_needed=False)

    @classmethod
    def unseal(cls, stored: str, feed_id: int, hub: str) -> Self:
        """Return what was stored for this feed and hub."""
        return cls(*json.loads(unseal(stored, kind="websub", id=feed_id, field="sealed", origin=hub)))


async def follow_hub(feeds: Feeds, conn: Conn, feed_id: int, hub: str, topic: str) -> None:
    """Asks a hub for news of a feed, unless it has been asked; part of the transaction that has found the hub.

    A hub that may not be called, and any hub where secrets cannot be stored, is left alone: the feed is polled as ever.
    """
    if feeds.callback_base is None:
        return
    token = secrets.token_urlsafe(24)
    try:
        check_url(hub, feeds.app.settings)
        sealed = Credentials(topic, token, secrets.token_urlsafe(32)).seal(feed_id, hub)
    except (UsageError, ConfigError) as error:
        log.warning("the hub of feed %s is not asked: %s", feed_id, error)
        return
    values = {"feed_id": feed_id, "hub": hub, "sealed": sealed, "topic": digest(topic), "token": digest(token), "again": ASK_AGAIN}
    if await _row(conn, _FOLLOW, values) is not None:
        await feeds.renew_websub.using(conn=conn).aensure()
        await feeds.ask_hub.using(conn=conn).aenqueue(feed_id=feed_id)


async def leave_hub(feeds: Feeds, conn: Conn, feed_id: int) -> None:
    """Asks a hub to say no more of a feed."""
    if await _row(conn, _LEAVE, [feed_id]) is not None:
        await feeds.ask_hub.using(conn=conn).aenqueue(feed_id=feed_id)


async def ask_hub(feeds: Feeds, ctx: Context, feed_id: int) -> Any:
    """Tells a hub what we want of it just now; it comes back to us before it does it."""
    from rota.outbound.client import Bounds, NotCalled, Request, client_for

    async with ctx.connection() as conn:
        found = await _row(conn, _ASKED, [feed_id])
    if found is None or found[2] in ("denied", "ended") or feeds.callback_base is None:
        return Cancel("the hub is not to be asked any more")
    hub, sealed, state = found
    topic, token, secret = Credentials.unseal(sealed, feed_id, hub)
    mode: Mode = "unsubscribe" if state == "leaving" else "subscribe"
    form = {"hub.callback": f"{feeds.callback_base}/websub/{token}", "hub.mode": mode, "hub.topic": topic}
    if mode == "subscribe":
        form |= {"hub.lease_seconds": str(round(feeds.options.lease.total_seconds())), "hub.secret": secret}
    headers = {"Content-Type": "application/x-www-form-urlencoded", "User-Agent": feeds.options.user_agent}
    request = Request.to(hub, "POST", headers, urlencode(form).encode())
    try:
        answer = await client_for(feeds.app.settings).call(request, Bounds(feeds.options.timeout_s))
        problem = None if 200 <= answer.status < 300 else f"the hub answered {answer.status}"
    except NotCalled as error:
        problem = f"the hub was not reached: {error}"
    async with ctx.connection() as conn:
        await conn.execute(_NOTE, [problem, feed_id])
    if problem is not None:
        raise CallFailed(problem)
    return mode


async def renew(feeds: Feeds, ctx: Context) -> None:
    """Asks hubs anew whose leases end within a day; jobs do the asking, made with the note that they were."""
    async with ctx.transaction() as conn:
        async with conn.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_ENDING)
            ids = sorted(feed_id for (feed_id,) in await cursor.fetchall())
        await feeds.app.aenqueue_many([feeds.ask_hub.job(feed_id=feed_id) for feed_id in ids], conn=conn)
        ctx.result = RENEW_EVERY
    ctx.log.info("websub.renewed", feeds=len(ids))


async def verify_intent(conn: Conn, token: str, mode: str, topic: str, lease_s: int | None, reason: str | None) -> bool:
    """Whether we want what a hub says that somebody wants for us; it does it only then."""
    values: dict[str, Any] = {"token": digest(token), "topic": digest(topic)}
    if mode == "subscribe":
        lease = timedelta(days=1) if lease_s is None else timedelta(seconds=min(lease_s, LEASES[1].total_seconds()))
        return await _row(conn, _CONFIRM, values | {"lease": max(lease, LEASES[0])}) is not None
    if mode == "unsubscribe":
        return await _row(conn, _CONFIRM_END, values) is not None
    if mode == "denied":
        return await _row(conn, _DENY, values | {"reason": one_line(reason or "", MAX_REASON) or None}) is not None
    return False


async def take(feeds: Feeds, conn: Conn, token: str, signature: str | None, kind: str, body: bytes) -> Taken:
    """Keeps what a hub has sent, with the job that reads it; what is not signed with our secret is passed over."""
    found = await _row(conn, _RECEIVER, [digest(token)])
    if found is None:
        return "unknown"
    feed_id, hub, sealed = found
    if not is_signed(Credentials.unseal(sealed, feed_id, hub).secret, signature, body):
        return "ignored"
    async with conn.transaction():
        kept = await _row(conn, _TAKE, {"feed_id": feed_id, "kind": one_line(kind, 200), "body": body, "most": MAX_WAITING})
        if kept is None:
            return "full"
        await feeds.read_delivery.using(conn=conn).aenqueue(delivery_id=kept[0])
    return "taken"


def is_signed(secret: str, signature: str | None, body: bytes) -> bool:
    """Whether a header X-Hub-Signature (`sha256=` and hexadecimal digits) was made with this secret over this body."""
    method, _, digest = (signature or "").strip().partition("=")
    algorithm = ALGORITHMS.get(method.lower())
    if algorithm is None or not digest.isascii():
        return False
    return hmac.compare_digest(hmac.new(secret.encode(), body, algorithm).hexdigest(), digest.lower())


async def read_delivery(feeds: Feeds, ctx: Context, delivery_id: int) -> Any:
    """Stores the entries of a message, and throws it away."""
    async with ctx.connection() as conn:
        found = await _row(conn, _DELIVERY, [delivery_id])
    if found is None:
        return Cancel("the message has been read")
    feed_id, kind, body, url = found
    try:
        document = await asyncio.to_thread(parse, bytes(body), kind, url, max_entries=feeds.options.max_entries)
    except NotAFeed as error:
        async with ctx.connection() as conn:
            await conn.execute(_READ, [delivery_id])
        return Cancel(f"the message of the hub is of no use: {error}")
    async with ctx.transaction() as conn:
        await lock(conn, feed_id)
        ctx.result = {"feed_id": feed_id, "new": await store_entries(conn, feed_id, document.entries)}
        await conn.execute(_READ, [delivery_id])
    return ctx.result


async def _row(conn: Conn, statement: str, values: Any) -> tuple[Any, ...] | None:
    async with conn.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(statement, values)
        return await cursor.fetchone()
