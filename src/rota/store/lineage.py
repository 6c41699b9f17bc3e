"""The relatives of a job, page by page. One function per SQL block, connection first."""

from __future__ import annotations

from uuid import UUID

from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.store.jobs_read import Relative

SQL = queries.load("lineage")


async def parents(conn: AsyncConn, id: UUID, *, after: UUID, limit: int) -> list[Relative]:
    """What a job waits for or has waited for, the oldest first, beyond `after`."""
    return await _relatives(conn, "lineage_parents", id, after, limit)


async def children(conn: AsyncConn, id: UUID, *, after: UUID, limit: int) -> list[Relative]:
    """The jobs that wait or have waited for this one, the oldest first, beyond `after`."""
    return await _relatives(conn, "lineage_children", id, after, limit)


async def _relatives(conn: AsyncConn, block: str, id: UUID, after: UUID, limit: int) -> list[Relative]:
    async with conn.cursor(row_factory=class_row(Relative)) as cursor:
        await cursor.execute(SQL[block], {"id": id, "after": after, "limit": limit})
        return await cursor.fetchall()
