"""Webhooks: who is told of alerts, how a message is signed and brought there, and what became of it."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from rota.control.alerts import check_kind
from rota.control.sending import Answer, post
from rota.db.connection import AsyncConn
from rota.errors import DeliveryFailed, NotFound, UsageError
from rota.model.redact import redact_text
from rota.model.sanitize import clean_text
from rota.store import webhooks as store
from rota.store.webhooks import DeliveryRecord, Message, WebhookRecord

MAX_URL_BYTES = 2000
MAX_LIMIT = 1000
SECRET_PREFIX = "rwh_"

Connect = Callable[[], Awaitable[AsyncConn]]


class Added(NamedTuple):
    """A new webhook with its secret, which is shown this once."""

    id: int
    secret: str


async def add(conn: AsyncConn, url: str, *, kinds: Sequence[str] = ()) -> Added:
    """Makes a webhook for alerts of some kinds, or of all."""
    check_url(url)
    for kind in kinds:
        check_kind(kind)
    secret = SECRET_PREFIX + secrets.token_urlsafe(32)
    return Added(await store.add(conn, url=url, secret=secret, kinds=list(dict.fromkeys(kinds))), secret)


async def list_webhooks(conn: AsyncConn) -> list[WebhookRecord]:
    """Every webhook. Of its URL the server only: with many services the rest of it is a secret, too."""
    return [replace(webhook, url=shown_url(webhook.url)) for webhook in await store.read_all(conn)]


async def set_enabled(conn: AsyncConn, id: int, *, enabled: bool) -> None:
    """Switches a webhook on or off; what waits to be sent waits no longer."""
    if not await store.set_enabled(conn, id, enabled=enabled):
        raise _unknown(id)


async def remove(conn: AsyncConn, id: int) -> None:
    """Removes a webhook, with the record of what was sent to it."""
    if not await store.remove(conn, id):
        raise _unknown(id)


async def test(conn: AsyncConn, id: int) -> UUID:
    """Enqueues a message that says nothing, to see whether it arrives; its number."""
    body = json.dumps({"version": 1, "event": "test", "alert": None})
    delivery = await store.test(conn, id, body=body)
    if delivery is None:
        raise _unknown(id)
    return delivery


async def list_deliveries(conn: AsyncConn, *, webhook: int | None = None, limit: int = 50) -> list[DeliveryRecord]:
    """The newest messages and what became of them."""
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"limit={limit!r} is out of range: from 1 to {MAX_LIMIT}")
    return await store.deliveries(conn, webhook=webhook, limit=limit)


async def deliver(connect: Connect, delivery: UUID, *, is_last: bool) -> str:
    """Brings a message to its webhook and writes down what became of it. No connection is held while the other side thinks."""
    async with await connect() as conn:
        message = await store.to_deliver(conn, delivery)
    if message is None:
        return "nothing to deliver"
    answer = await post(message.url, message.body.encode(), headers_of(message))
    error = None if answer.accepted else clean_text(redact_text(_why(answer)), 500)
    state = "delivered" if answer.accepted else "failed" if is_last else "pending"
    async with await connect() as conn:
        await store.record(conn, message.id, state=state, status=answer.status, took_s=answer.took_s, error=error)
    if error is not None:
        raise DeliveryFailed(f"message {message.id} was not taken by {shown_url(message.url)}: {error}")
    return f"answered {answer.status}"


def headers_of(message: Message) -> dict[str, str]:
    """What tells the other side that a message is ours, and whether it has had it before."""
    return {
        "Content-Type": "application/json",
        "User-Agent": "rota",
        "Rota-Delivery": str(message.id),
        "Rota-Signature": sign(message.secret, message.at, message.body.encode()),
    }


def sign(secret: str, at: int, body: bytes) -> str:
    """`t=…,v1=…`: the time, and the HMAC-SHA256 of time, dot and body by the webhook's secret."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def check_url(url: str) -> None:
    """Refuses what cannot be posted to, and URLs with a password in them, which would be seen by everybody."""
    advice = "write it as https://host/path"
    if not isinstance(url, str) or not url.isascii() or any(ord(each) <= 32 or ord(each) == 127 for each in url):
        raise UsageError(f"url is not allowed: spaces and characters beyond ASCII must be percent-encoded; {advice}")
    if len(url) > MAX_URL_BYTES:
        raise UsageError(f"url is {len(url)} bytes long: at most {MAX_URL_BYTES}")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"url is not allowed: {error}; {advice}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError(f"url={redact_text(url)!r} is not one of a web server: {advice}")
    if "@" in parts.netloc:
        raise UsageError(f"url has a user or password in it, which everybody would see: sign in by the signature instead; {advice}")


def shown_url(url: str) -> str:
    """As much of a URL as others may see."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" + ("/…" if len(parts.path) > 1 or parts.query else "")


def _why(answer: Answer) -> str:
    if answer.status is None:
        return answer.error or "no answer"
    redirect = ", a redirect, which is not followed" if 300 <= answer.status < 400 else ""
    return f"it answered {answer.status}{redirect}"


def _unknown(id: int) -> NotFound:
    return NotFound(f"there is no webhook {id}: `rota webhooks list` shows those there are")
