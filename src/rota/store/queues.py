"""Queues: how full they are, and whether they are paused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.capped import COUNT_CAP

SQL = queries.load("queues")

WALK = 10 * COUNT_CAP


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue with counts that ended one beyond the cap, or with the bounded walk that was to find them."""

    name: str
    paused_at: datetime | None
    pause_reason: str | None
    oldest_age: timedelta | None  # how long the oldest ready job has been due
    ready: int
    waiting: int
    delayed: int
    held: int
    running: int
    delayed_capped: bool
    held_capped: bool
    running_capped: bool


async def read_all(conn: AsyncConn) -> list[QueueRow]:
    """Every queue, by name."""
    async with conn.cursor(row_factory=class_row(QueueRow)) as cursor:
        await cursor.execute(SQL["queues_read_all"], {"cap": COUNT_CAP, "walk": WALK})
        return await cursor.fetchall()


async def names(conn: AsyncConn) -> list[str]:
    """The names of all queues."""
    return [name for (name,) in await (await conn.execute(SQL["queues_names"])).fetchall()]


async def pause(conn: AsyncConn, name: str, *, reason: str | None) -> bool:
    """Stops claims from a queue until it is resumed; False if there is no such queue."""
    return await (await conn.execute(SQL["queues_pause"], {"name": name, "reason": reason})).fetchone() is not None


async def resume(conn: AsyncConn, name: str) -> bool:
    """Lets a queue be claimed from again and wakes idle workers; False if there is no such queue."""
    return await (await conn.execute(SQL["queues_resume"], {"name": name})).fetchone() is not None
