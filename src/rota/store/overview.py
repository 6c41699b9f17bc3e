"""What the overview looks at: how much there is, and what is not as it should be. One function per SQL block, connection first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from psycopg import sql
from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.store.tasks_read import not_system

SQL = queries.load("overview")

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Failed:
    """Jobs that failed for good within the last hour; `cut`: there may be more."""

    failed: int
    cut: bool


@dataclass(frozen=True, slots=True)
class QueueAge:
    """A queue, and for how long its oldest ready job has been due."""

    name: str
    paused_at: datetime | None
    pause_reason: str | None
    age: timedelta | None


@dataclass(frozen=True, slots=True)
class ScheduleTroubles:
    """How many schedules and recurring rows are late, and how many keep failing; each count goes one beyond its cap."""

    late: int
    recurring_late: int
    failing: int


async def failed(conn: AsyncConn, *, walk: int) -> Failed:
    """Jobs that failed for good within the last hour."""
    [found] = await _read(conn, Failed, "failed", walk=walk)
    return found


async def queues(conn: AsyncConn) -> list[QueueAge]:
    """How far behind each queue is."""
    return await _read(conn, QueueAge, "queues")


async def schedules(conn: AsyncConn, *, cap: int) -> ScheduleTroubles:
    """What is wrong with schedules."""
    [found] = await _read(conn, ScheduleTroubles, "schedules", cap=cap)
    return found


async def alerts(conn: AsyncConn, *, cap: int) -> dict[str, int]:
    """How many alerts are open, by severity."""
    return dict(await (await conn.execute(SQL["overview_alerts"], {"cap": cap})).fetchall())


async def has_run(conn: AsyncConn, *, walk: int) -> bool:
    """Whether anything but Rota's own has ever run, as far as its history goes."""
    row = await (await conn.execute(_statement("ever"), {"walk": walk})).fetchone()
    return row == (True,)


def _statement(block: str) -> sql.Composed:
    return sql.SQL(SQL[f"overview_{block}"]).format(ours=not_system(sql.Identifier("task")))


async def _read(conn: AsyncConn, kind: type[Record], block: str, **parameters: Any) -> list[Record]:
    async with conn.cursor(row_factory=class_row(kind)) as cursor:
        await cursor.execute(_statement(block), parameters)
        return await cursor.fetchall()
