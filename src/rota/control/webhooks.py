"""Webhooks: who is told of alerts, how a message is signed and brought there, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit
from uuid import UUID

from rota.config import Settings
from rota.control.alerts import check_kind
from rota.control.sending import Answer, post
from rota.control.servers import note_ports
from rota.db.connection import AsyncConn
from rota.errors import DeliveryFailed, NotFound, UsageError
from rota.model.redact import redact_text
from rota.model.sanitize import clean_text
from rota.model.secret import seal, unseal
from rota.outbound.address import check_url
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


async def add(conn: AsyncConn, settings: Settings, url: str, *, kinds: Sequence[str] = ()) -> Added:
    """Add a webhook for alerts of some kinds, or of all. Its URL and secret are stored encrypted; without a key only in `local`.

    Raises `UsageError` for a URL that no message could be sent to.
    """
    await note_ports(conn)
    url = read_address(url, settings)
    for kind in kinds:
        check_kind(kind)
    id, secret = await store.new_id(conn), new_secret()
    sealed = seal(json.dumps([url, secret]), kind=KIND, id=id, field="secret", key_needed=False)
    await store.add(conn, id, url=shown_url(url), secret=sealed, kinds=list(dict.fromkeys(kinds)))
    return Added(id, secret)


async def list_webhooks(conn: AsyncConn) -> list[WebhookRecord]:
    """Return every webhook, with the server of its URL only: with many services the rest of it is a secret, too."""
    return await store.read_all(conn)


async def get_webhook(conn: AsyncConn, id: int, *, lock: bool = False) -> WebhookRecord:
    """One webhook; with `lock` nobody else changes it until the transaction ends."""
    if lock:
        await store.lock(conn, id)
    for webhook in await store.read_all(conn, id):
        return webhook
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
    url, secret = open_sealed(message)
    answer = await post(url, message.body.encode(), headers_of(message, secret), settings)
    error = None if answer.accepted else clean_text(redact_text(_why(answer)), 500)
    state = "delivered" if answer.accepted else "failed" if is_last else "pending"
    async with await connect() as conn:
        await store.record(conn, message.id, state=state, status=answer.status, took_s=answer.took_s, error=error)
    if error is not None:
        raise DeliveryFailed(f"message {message.id} was not taken by {message.url}: {error}")
    return f"answered {answer.status}"


def open_sealed(message: Message) -> tuple[str, str]:
    """Return the URL that a message goes to, and the secret it is signed with."""
    url, secret = json.loads(unseal(message.secret, kind=KIND, id=message.webhook_id, field="secret"))
    return url, secret


def headers_of(message: Message, secret: str) -> dict[str, str]:
    """What tells the other side that a message is ours, and whether it has had it before."""
    signed = sign([secret], str(message.id), message.at, message.body.encode())
    return {"Content-Type": "application/json", **signed}


def read_address(url: str, settings: Settings) -> str:
    """Return a URL that can be posted to, in its one form. User and password in it are refused."""
    whole = check_url(url, settings).whole
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
