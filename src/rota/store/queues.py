"""Queues: how full they are, and whether they are paused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg.rows import class_row, dict_row

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.capped import COUNT_CAP, Capped

SQL = queries.load("queues")

WALK = 10  # times the cap, through those that have no index by queue


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue, and how many live jobs it has by state of the table."""

    name: str
    paused_at: datetime | None
    pause_reason: str | None
    max_concurrency: int | None
    rate: str | None
    overridden: bool  # these limits are an operator's
    oldest_age: timedelta | None  # how long the oldest ready job has been due
    ready: Capped
    delayed: Capped
    held: Capped  # by limits
    waiting: Capped
    running: Capped


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """What operators can set of a queue."""

    name: str
    paused_at: datetime | None
    pause_reason: str | None
    max_concurrency: int | None
    rate: str | None
    overridden: bool


async def get_for_change(conn: AsyncConn, name: str) -> QueueSettings | None:
    """What is set of a queue, locked; None if there is no such queue."""
    async with conn.cursor(row_factory=class_row(QueueSettings)) as cursor:
        await cursor.execute(SQL["queues_get_for_change"], {"name": name})
        return await cursor.fetchone()


async def read_all(conn: AsyncConn, *, cap: int = COUNT_CAP) -> list[QueueRow]:
    """Return every queue, by name."""
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(SQL["queues_read_all"], {"cap": cap, "walk": WALK * cap})
        return [_row(row, cap) for row in await cursor.fetchall()]


async def names(conn: AsyncConn) -> list[str]:
    """The names of all queues."""
    return [name for (name,) in await (await conn.execute(SQL["queues_names"])).fetchall()]


async def pause(conn: AsyncConn, name: str, *, reason: str | None) -> bool:
    """Stops claims from a queue until it is resumed; False if there is no such queue."""
    return await (await conn.execute(SQL["queues_pause"], {"name": name, "reason": reason})).fetchone() is not None


async def resume(conn: AsyncConn, name: str) -> bool:
    """Lets a queue be claimed from again and wakes idle workers; False if there is no such queue."""
    return await (await conn.execute(SQL["queues_resume"], {"name": name})).fetchone() is not None


async def overrides(conn: AsyncConn, name: str) -> dict[str, Any] | None:
    """What operators have said of a queue's limits, locked for a change; None if there is no such queue."""
    row = await (await conn.execute(SQL["queues_overrides"], {"name": name})).fetchone()
    return None if row is None else row[0]


async def override(conn: AsyncConn, name: str, overrides: dict[str, Any] | None) -> None:
    """Sets what operators say of a queue's limits, all of it; None is nothing, and then code decides."""
    text = None if overrides is None else json.dumps(overrides)
    await conn.execute(SQL["queues_override"], {"name": name, "overrides": text})


async def limits(conn: AsyncConn, name: str) -> dict[str, Any]:
    """A queue's limits as they hold now."""
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(SQL["queues_limits"], {"name": name})
        return await cursor.fetchone() or {}


def _row(row: dict[str, Any], cap: int) -> QueueRow:
    counted, kept = row.pop("counted"), row.pop("kept")
    for name in ("ready", "delayed", "held", "waiting", "running"):
        state = "queued" if name == "ready" else name
        found = Capped(row[name], row.pop(f"{name}_capped")) if f"{name}_capped" in row else Capped.at(row[name], cap)
        row[name] = found.or_about(kept.get(state, 0) if state in counted else None)
    return QueueRow(**row)
