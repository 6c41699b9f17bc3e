"""Jobs as their owners see them, HTTP jobs above all. One function per SQL block, connection first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.http_call import TASK

SQL = queries.load("http_jobs")


@dataclass(frozen=True, slots=True)
class OwnJobLine:
    """A job as it is stored; without its payload but for what an HTTP job may show: no query, no header's value, no body."""

    id: UUID
    task: str
    state: str
    url: str | None
    method: str | None
    timeout_s: Any
    headers: list[str]
    run_at: datetime
    attempt: int
    max_attempts: int
    key: str | None
    cancel_requested: bool
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    last_status: Any
    last_error: str | None
    triggered_by: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class AttemptLine:
    """One attempt as it is stored; the open one has no end."""

    attempt: int
    outcome: str
    started_at: datetime | None
    finished_at: datetime | None
    error: Any
    result: Any


async def lines(conn: AsyncConn, ids: list[UUID], *, owner: str) -> list[OwnJobLine]:
    """Those of these jobs that are this owner's, newest first."""
    async with conn.cursor(row_factory=class_row(OwnJobLine)) as cursor:
        await cursor.execute(SQL["http_jobs_lines"], {"ids": ids, "owner": owner, "task": TASK})
        return await cursor.fetchall()


async def attempts(conn: AsyncConn, id: UUID, *, before: int, limit: int) -> list[AttemptLine]:
    """The last attempts at a job that are earlier than `before`, the newest first, with the open one."""
    async with conn.cursor(row_factory=class_row(AttemptLine)) as cursor:
        await cursor.execute(SQL["http_jobs_attempts"], {"id": id, "before": before, "limit": limit})
        return await cursor.fetchall()
