"""One fetch of one feed, from the question to the time of the next one."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rota import Context, RetryAfter
from rota.apps.feeds import storing, timing
from rota.apps.feeds.addresses import read_address
from rota.apps.feeds.document import Document, NotAFeed
from rota.apps.feeds.parsing import parse
from rota.apps.feeds.storing import MAX_HEADER, Known
from rota.apps.feeds.text import one_line, storable, web_url
from rota.errors import UsageError
from rota.outbound.retry_after import STATUSES, read_retry_after

if TYPE_CHECKING:
    from rota.apps.feeds.service import Feeds
    from rota.outbound.client import Answer

ACCEPT = (
    "application/atom+xml, application/rss+xml, application/feed+json, application/xml;q=0.9, application/json;q=0.8, */*;q=0.1"
)
UNWANTED = timedelta(days=1)  # of a feed that was switched off while its fetch was about to begin
_LINK = re.compile(r'<([^<>]{1,4000})>([^<>,"]*(?:"[^"]*"[^<>,"]*)*)')
_REL = re.compile(r';\s*rel\s*=\s*"?([^";]*)"?', re.IGNORECASE)


class Failure(Exception):
    """Why a fetch has failed, in words for the operator."""

    def __init__(self, reason: str, status: int | None = None, asked: timedelta | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.asked = asked  # to be left alone for so long


async def fetch(feeds: Feeds, ctx: Context, feed_id: int) -> Any:
    """Fetches a feed, stores what is new, and says when it is fetched next; a failure is noted on the feed, which backs off."""
    async with ctx.connection() as conn:
        known = await storing.get_known(conn, feed_id)
    if known is None or not known.enabled:
        return UNWANTED
    try:
        answer = await _ask(feeds, known)
        document = await _read(feeds, known, answer)
    except Failure as failure:
        return await _fail(feeds, ctx, known, failure)
    if document is not None and document.more:
        ctx.log.warning("feed.cut", feed_id=feed_id, entries=feeds.options.max_entries)
    await _store(feeds, ctx, known, answer, document)
    return None


async def _ask(feeds: Feeds, known: Known) -> Answer:
    """The answer of the feed's server: 200, 304 or 410. A Failure for everything else."""
    from rota.outbound.client import NotCalled

    headers = {"User-Agent": feeds.options.user_agent, "Accept": ACCEPT, "Accept-Encoding": "gzip"}
    if known.etag is not None:
        headers["If-None-Match"] = known.etag
    if known.last_modified is not None:
        headers["If-Modified-Since"] = known.last_modified
    try:
        answer = await feeds.download(known.url, headers)
    except NotCalled as error:
        raise Failure(str(error), error.status) from None
    if answer.status in (200, 304, 410):
        return answer
    wait_s = read_retry_after(answer.headers.get("retry-after")) if answer.status in STATUSES else None
    raise Failure(f"it answered {answer.status}", answer.status, None if wait_s is None else timedelta(seconds=wait_s))


async def _read(feeds: Feeds, known: Known, answer: Answer) -> Document | None:
    """What the answer says; None if that is nothing new."""
    options = feeds.options
    if answer.status != 200:
        return None
    # What came packed is unpacked as far as the bound, and no further.
    if answer.cut or len(answer.head) >= options.max_bytes:
        raise Failure(f"it is longer than {options.max_bytes:,} bytes", 200)
    if _digest(answer.head) == known.body_digest:
        return None
    kind = answer.headers.get("content-type", "")
    try:
        return await asyncio.to_thread(parse, answer.head, kind, answer.url or known.url, max_entries=options.max_entries)
    except NotAFeed as error:
        raise Failure(str(error), 200) from None


async def _store(feeds: Feeds, ctx: Context, known: Known, answer: Answer, document: Document | None) -> None:
    async with ctx.transaction() as conn:
        if answer.status == 410:
            await storing.gone(feeds, conn, known.id)
            ctx.result = timedelta(seconds=1)  # it is off; whoever subscribes to it again has it tried at once
            return
        await storing.lock(conn, known.id)
        owner = known.id
        if (to := _moved_to(known, answer)) is not None:
            owner = await storing.move(feeds, conn, known.id, to)
        if owner != known.id:
            ctx.log.info("feed.merged", feed_id=known.id, into=owner)
            ctx.result = UNWANTED
            return
        new = 0 if document is None else await storing.store_entries(conn, known.id, document.entries)
        seen = timing.observed(await storing.recent_times(conn, known.id), known.now)
        interval = _interval(feeds, known, answer, document, seen)
        values = _validators(answer) | {"title": "", "site_url": None, "body_digest": None}
        if document is not None:
            values |= {"title": document.title, "site_url": document.site_url, "body_digest": _digest(answer.head)}
        await storing.succeeded(conn, known.id, interval=interval, status=answer.status, **values)
        ctx.result = interval
        hub, topic = hub_of(answer, document, known.url)
        if hub is not None:
            await feeds.follow_hub(conn, known.id, hub, topic or known.url)
    if new:
        ctx.log.info("feed.new", feed_id=known.id, entries=new)


def _interval(feeds: Feeds, known: Known, answer: Answer, document: Document | None, seen: timedelta | None) -> timedelta:
    options = feeds.options
    asked = [timing.fresh_for(answer.headers, known.now), None if document is None else document.ttl]
    least = max(options.min_interval, min(options.pushed_interval, options.max_interval) if known.is_pushed else timedelta(0))
    return timing.spread(timing.next_interval(seen=seen, asked=asked, least=least, most=options.max_interval), options.max_interval)


async def _fail(feeds: Feeds, ctx: Context, known: Known, failure: Failure) -> RetryAfter:
    delay = timing.backoff(known.failures + 1, asked=failure.asked, most=feeds.options.max_interval)
    delay = timing.spread(delay, feeds.options.max_interval)
    reason = storable(one_line(failure.reason, 500), 500)
    async with ctx.connection() as conn, conn.transaction():
        await storing.lock(conn, known.id)
        await ctx.assert_held(conn)  # a worker that has lost the job counts no failure
        await storing.failed(conn, known.id, status=failure.status, reason=reason)
    return RetryAfter(delay, reason)


def _moved_to(known: Known, answer: Answer) -> Any:
    """The address to remember from now on, if another one than it has."""
    if answer.moved_to is None:
        return None
    try:
        to = read_address(answer.moved_to)
    except UsageError:
        return None
    return to if to.url != known.url else None


def _validators(answer: Answer) -> dict[str, str | None]:
    """What makes the next question a conditional one; never what cannot be sent as it came."""
    found = {"etag": answer.headers.get("etag"), "last_modified": answer.headers.get("last-modified")}
    return {
        name: value if value is not None and len(value) <= MAX_HEADER and value.isascii() and value.isprintable() else None
        for name, value in found.items()
    }


def hub_of(answer: Answer, document: Document | None, base: str) -> tuple[str | None, str | None]:
    """The hub that tells of news, and what it knows the feed as: by the headers, or else by the document."""
    links = read_links(answer.headers, base)
    if "hub" in links:
        return links["hub"], links.get("self")
    return (None, None) if document is None else (document.hub, document.topic)


def read_links(headers: Mapping[str, str], base: str) -> dict[str, str]:
    """The first link of each relation that a header Link names."""
    found: dict[str, str] = {}
    for match in _LINK.finditer(headers.get("link", "")[:8000]):
        url = web_url(match[1], base)
        relation = _REL.search(match[2])
        for name in relation[1].lower().split() if relation and url else ():
            found.setdefault(name, str(url))
    return found


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
