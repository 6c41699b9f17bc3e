"""Workers as operators see them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn

SQL = queries.load("workers_read")


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """One boot of one worker process, and the first of the jobs it holds."""

    id: UUID
    state: str  # live, silent, stopped or dead
    host: str
    pid: int
    version: str
    app: str
    queues: list[str]
    tasks: list[str]
    slots: int
    holds: int
    jobs: list[dict[str, Any]]  # id, task, claimed_at, lease_until
    started_at: datetime
    seen_at: datetime
    seen_ago: timedelta
    stopped_at: datetime | None
    stop_reason: str | None


async def read_all(conn: AsyncConn, *, id: UUID | None = None, jobs: int = 20, limit: int = 1000) -> list[WorkerRecord]:
    """The workers of the last day, or the one with this id: those that run first, then the newest first."""
    async with conn.cursor(row_factory=class_row(WorkerRecord)) as cursor:
        await cursor.execute(SQL["workers_read_all"], {"id": id, "jobs": jobs, "limit": limit})
        return await cursor.fetchall()
