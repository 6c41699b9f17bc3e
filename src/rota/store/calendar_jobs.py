"""Jobs that synchronise calendars. One function per SQL block, connection first."""

from __future__ import annotations

import json
from typing import Any

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.calendar_job import QUEUE, TASK

SQL = queries.load("calendar_jobs")


async def declare(conn: AsyncConn) -> None:
    """Makes their queue known."""
    await conn.execute(SQL["calendar_jobs_declare"], {"queue": QUEUE})


async def insert(conn: AsyncConn, rows: list[dict[str, Any]], *, owner: str, triggered_by: dict[str, Any]) -> None:
    """Stores jobs, each with an id of its own, a payload, a priority, its retries and perhaps a time."""
    parameters = {
        "jobs": json.dumps(rows, ensure_ascii=False),
        "task": TASK,
        "queue": QUEUE,
        "owner": owner,
        "triggered_by": json.dumps(triggered_by, ensure_ascii=False),
    }
    await conn.execute(SQL["calendar_jobs_insert"], parameters)
