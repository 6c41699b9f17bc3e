"""What became of tasks' runs, added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import orjson
from psycopg import sql
from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.store.tasks_read import not_system

SQL = queries.load("stats")

OUTCOMES = ("completed", "failed", "canceled", "snoozed", "released", "lost")


@dataclass(slots=True)
class Addition:
    """What one worker has counted of one task."""

    task: str
    outcomes: Counter[str] = field(default_factory=Counter)
    durations: Counter[int] = field(default_factory=Counter)
    waits: Counter[int] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Sum:
    """A task's runs over some time: how many by outcome, and their times by bucket."""

    task: str
    completed: int
    failed: int
    canceled: int
    snoozed: int
    released: int
    lost: int
    durations: dict[str, int] | None
    waits: dict[str, int] | None


async def add(conn: AsyncConn, additions: Sequence[Addition]) -> None:
    """Appends what a worker has counted."""
    rows = [
        {
            "task": each.task,
            **{outcome: each.outcomes[outcome] for outcome in OUTCOMES},
            "duration_buckets": list(each.durations),
            "duration_counts": list(each.durations.values()),
            "wait_buckets": list(each.waits),
            "wait_counts": list(each.waits.values()),
        }
        for each in additions
    ]
    await conn.execute(SQL["stats_add"], {"rows": orjson.dumps(rows).decode()})


async def merge(conn: AsyncConn, *, grain: str, into: str, older_than: timedelta, limit: int) -> int:
    """Makes one row of those of a task within a minute or an hour; how many rows that were."""
    parameters = {"grain": grain, "into": into, "older_than": older_than, "limit": limit}
    row = await (await conn.execute(SQL["stats_merge"], parameters)).fetchone()
    assert row is not None
    return int(row[0])


async def forget(conn: AsyncConn, *, older_than: timedelta, limit: int) -> int:
    """Removes what is too old to be asked for; how many rows that were."""
    return (await conn.execute(SQL["stats_forget"], {"older_than": older_than, "limit": limit})).rowcount


async def sums(conn: AsyncConn, *, task: str | None, since: timedelta, system: bool, limit: int) -> list[Sum]:
    """The runs of one task, or of each, that ended within this time, by the names of the tasks."""
    if task is not None:
        chosen: sql.Composable = sql.SQL("task = %(task)s")
    else:
        # Each grain by name: there is an index for that.
        chosen = sql.SQL("grain IN ('flush', 'minute', 'hour')")
        if not system:
            chosen += sql.SQL(" AND ") + not_system(sql.Identifier("task"))
    statement = sql.SQL(SQL["stats_sums"]).format(chosen=chosen)
    async with conn.cursor(row_factory=class_row(Sum)) as cursor:
        await cursor.execute(statement, {"task": task, "since": since, "limit": limit})
        return await cursor.fetchall()
