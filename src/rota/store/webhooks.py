"""Webhooks and what was sent to them. One function per SQL block, connection first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn

SQL = queries.load("webhooks")


@dataclass(frozen=True, slots=True)
class WebhookRecord:
    """A webhook as operators see it: without its secret."""

    id: int
    url: str
    kinds: list[str]
    enabled: bool
    created_at: datetime
    last_state: str | None
    last_status: int | None
    last_tried_at: datetime | None


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """A message to a webhook, and what became of the last try."""

    id: UUID
    webhook_id: int
    alert_id: int | None
    state: str
    attempt: int
    status: int | None
    took: timedelta | None
    error: str | None
    created_at: datetime
    tried_at: datetime | None


class Message(NamedTuple):
    """What is to be sent, where to, and what it is signed with."""

    id: UUID
    webhook_id: int
    body: str
    url: str
    secret: str
    at: int  # seconds since 1970, by the database's clock


async def new_id(conn: AsyncConn) -> int:
    """Reserve the number of a new webhook: its secret is bound to it."""
    row = await (await conn.execute(SQL["webhooks_new_id"])).fetchone()
    assert row is not None
    id: int = row[0]
    return id


async def add(conn: AsyncConn, id: int, *, url: str, secret: str, kinds: Sequence[str]) -> None:
    """Store a webhook under its reserved number."""
    await conn.execute(SQL["webhooks_add"], {"id": id, "url": url, "secret": secret, "kinds": list(kinds)})


async def read_all(conn: AsyncConn, id: int | None = None) -> list[WebhookRecord]:
    """Every webhook, or the one of that number, with what became of the last message to it."""
    async with conn.cursor(row_factory=class_row(WebhookRecord)) as cursor:
        await cursor.execute(SQL["webhooks_list"], {"id": id})
        return await cursor.fetchall()


async def lock(conn: AsyncConn, id: int) -> None:
    """Lets nobody else change a webhook until the transaction ends."""
    await conn.execute(SQL["webhooks_lock"], {"id": id})


async def set_enabled(conn: AsyncConn, id: int, *, enabled: bool) -> bool:
    """Switches a webhook on or off; False if there is none of that number."""
    return await (await conn.execute(SQL["webhooks_set_enabled"], {"id": id, "enabled": enabled})).fetchone() is not None


async def remove(conn: AsyncConn, id: int) -> bool:
    """Removes a webhook with what was sent to it; False if there is none of that number."""
    return await (await conn.execute(SQL["webhooks_remove"], {"id": id})).fetchone() is not None


async def test(conn: AsyncConn, id: int, *, body: str) -> UUID | None:
    """Enqueues a message to one webhook; None if there is none of that number."""
    row = await (await conn.execute(SQL["webhooks_test"], {"id": id, "body": body})).fetchone()
    return row[0] if row else None


async def to_deliver(conn: AsyncConn, id: UUID) -> Message | None:
    """A message that has not arrived; None if it has, or nobody wants it any more."""
    row = await (await conn.execute(SQL["webhooks_to_deliver"], {"id": id})).fetchone()
    return Message(*row) if row else None


async def record(conn: AsyncConn, id: UUID, *, state: str, status: int | None, took_s: float, error: str | None) -> None:
    """Writes down what became of a try."""
    parameters = {"id": id, "state": state, "status": status, "took_s": took_s, "error": error}
    await conn.execute(SQL["webhooks_record"], parameters)


async def deliveries(conn: AsyncConn, *, webhook: int | None, before: UUID | None, limit: int) -> list[DeliveryRecord]:
    """The newest messages, of all webhooks or of one, or those older than `before`."""
    async with conn.cursor(row_factory=class_row(DeliveryRecord)) as cursor:
        await cursor.execute(SQL["webhooks_deliveries"], {"webhook": webhook, "before": before, "limit": limit})
        return await cursor.fetchall()


async def prune(conn: AsyncConn, *, hours: int, limit: int) -> int:
    """Removes old messages; how many."""
    return (await conn.execute(SQL["webhooks_prune"], {"hours": hours, "limit": limit})).rowcount
