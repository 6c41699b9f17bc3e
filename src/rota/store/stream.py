"""What the live stream looks at: small, cheap pieces of what there is. One function per SQL block, connection first."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from psycopg.rows import dict_row

from rota.db import queries
from rota.db.connection import AsyncConn

SQL = queries.load("stream")

Row = dict[str, Any]


async def jobs(conn: AsyncConn, *, limit: int) -> list[Row]:
    """The newest live jobs: id, task, queue, state, attempt."""
    return await _rows(conn, "jobs", limit=limit)


async def runs(conn: AsyncConn, *, limit: int) -> list[Row]:
    """The last attempts of the newest jobs, in the same form."""
    return await _rows(conn, "runs", limit=limit)


async def workers(conn: AsyncConn, *, limit: int) -> list[Row]:
    """The workers that have not stopped."""
    return await _rows(conn, "workers", limit=limit)


async def alerts(conn: AsyncConn, *, limit: int) -> list[Row]:
    """The alerts that are not over, the last seen first."""
    return await _rows(conn, "alerts", limit=limit)


async def schedules(conn: AsyncConn, *, limit: int) -> list[Row]:
    """The schedules that have names."""
    return await _rows(conn, "schedules", limit=limit)


async def tasks(conn: AsyncConn, *, limit: int) -> list[Row]:
    """The tasks, each with something that differs when it was changed."""
    return await _rows(conn, "tasks", limit=limit)


async def outcomes(conn: AsyncConn, *, since: datetime, until: datetime, limit: int) -> list[Row]:
    """How many runs of each task have ended how, as counted between two instants."""
    return await _rows(conn, "outcomes", since=since, until=until, limit=limit)


async def now(conn: AsyncConn) -> datetime:
    """The database's clock."""
    row = await (await conn.execute(SQL["stream_now"])).fetchone()
    assert row is not None
    at: datetime = row[0]
    return at


async def _rows(conn: AsyncConn, block: str, **parameters: Any) -> list[Row]:
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(SQL[f"stream_{block}"], parameters)
        return await cursor.fetchall()
