"""Running servers. One function per SQL block, connection first."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from uuid import UUID

from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn

SQL = queries.load("servers")


@dataclass(frozen=True, slots=True)
class RunningServer:
    """Where a server is reached, on which port it listens, and its app.env."""

    url: str
    port: int
    env: str


async def beat(conn: AsyncConn, id: UUID, machine: str, server: RunningServer) -> None:
    """Record that a server is running."""
    await conn.execute(SQL["servers_beat"], {"id": id, "machine": machine, **asdict(server)})


async def remove(conn: AsyncConn, id: UUID) -> None:
    """Remove the record of a server that stops."""
    await conn.execute(SQL["servers_remove"], {"id": id})


async def running_on(conn: AsyncConn, machine: str, *, silent: timedelta) -> list[RunningServer]:
    """Return the servers of a machine that were seen within `silent`, the newest first."""
    async with conn.cursor(row_factory=class_row(RunningServer)) as cursor:
        return await (await cursor.execute(SQL["servers_on"], {"machine": machine, "silent": silent})).fetchall()
