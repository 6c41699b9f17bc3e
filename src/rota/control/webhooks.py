"""Webhooks: who is told of alerts, how a message is signed and brought there, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit
from uuid import UUID

from rota.config import Settings
from rota.control.alerts import check_kind
from rota.control.sending import Answer, post
from rota.db.connection import AsyncConn
from rota.errors import DeliveryFailed, NotFound, UsageError
from rota.model.http_call import read_url
from rota.model.redact import redact_text
from rota.model.sanitize import clean_text
from rota.model.secret import seal, unseal
from rota.outbound.signature import new_secret, sign
from rota.store import webhooks as store
from rota.store.webhooks import DeliveryRecord, Message, WebhookRecord

KIND = "webhook"
MAX_URL_BYTES = 2000
MAX_LIMIT = 1000

Connect = Callable[[], Awaitable[AsyncConn]]


@dataclass(frozen=True, slots=True)
class Added:
    """A new webhook with its secret, which is shown this once."""

    id: int
    secret: str


async def add(conn: AsyncConn, url: str, *, kinds: Sequence[str] = ()) -> Added:
    """Add a webhook for alerts of some kinds, or of all. Its secret is stored encrypted; without a key only in `local`."""
    url = check_url(url)
    for kind in kinds:
        check_kind(kind)
    id, secret = await store.new_id(conn), new_secret()
    sealed = seal(secret, kind=KIND, id=id, field="secret", key_needed=False)
    await store.add(conn, id, url=url, secret=sealed, kinds=list(dict.fromkeys(kinds)))
    return Added(id, secret)


async def list_webhooks(conn: AsyncConn) -> list[WebhookRecord]:
    """Every webhook. Of its URL the server only: with many services the rest of it is a secret, too."""
    return [replace(webhook, url=shown_url(webhook.url)) for webhook in await store.read_all(conn)]


async def get_webhook(conn: AsyncConn, id: int, *, lock: bool = False) -> WebhookRecord:
    """One webhook, its URL shown as in the list; with `lock` nobody else changes it until the transaction ends."""
    if lock:
        await store.lock(conn, id)
    for webhook in await store.read_all(conn, id):
        return replace(webhook, url=shown_url(webhook.url))
    raise _unknown(id)


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


async def list_deliveries(
    conn: AsyncConn, *, webhook: int | None = None, before: UUID | None = None, limit: int = 50
) -> list[DeliveryRecord]:
    """The newest messages and what became of them, or those older than `before`."""
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"limit={limit!r} is out of range: from 1 to {MAX_LIMIT}")
    return await store.deliveries(conn, webhook=webhook, before=before, limit=limit)


async def deliver(connect: Connect, delivery: UUID, settings: Settings, *, is_last: bool) -> str:
    """Brings a message to its webhook and writes down what became of it. No connection is held while the other side thinks."""
    async with await connect() as conn:
        message = await store.to_deliver(conn, delivery)
    if message is None:
        return "nothing to deliver"
    answer = await post(message.url, message.body.encode(), headers_of(message), settings)
    error = None if answer.accepted else clean_text(redact_text(_why(answer)), 500)
    state = "delivered" if answer.accepted else "failed" if is_last else "pending"
    async with await connect() as conn:
        await store.record(conn, message.id, state=state, status=answer.status, took_s=answer.took_s, error=error)
    if error is not None:
        raise DeliveryFailed(f"message {message.id} was not taken by {shown_url(message.url)}: {error}")
    return f"answered {answer.status}"


def headers_of(message: Message) -> dict[str, str]:
    """What tells the other side that a message is ours, and whether it has had it before."""
    secret = unseal(message.secret, kind=KIND, id=message.webhook_id, field="secret")
    signed = sign([secret], str(message.id), message.at, message.body.encode())
    return {"Content-Type": "application/json", **signed}


def check_url(url: str) -> str:
    """A URL that can be posted to, as it is stored; with a password in it, it would be seen by everybody, and is refused."""
    target = read_url(url)
    whole = f"{target.url}?{target.query}" if target.query else target.url
    if len(whole) > MAX_URL_BYTES:
        raise UsageError(f"url is {len(whole)} bytes long: at most {MAX_URL_BYTES}")
    return whole


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
