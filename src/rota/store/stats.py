"""What became of tasks' runs, added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import orjson
from psycopg import sql
from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.store.tasks_read import not_system

SQL = queries.load("stats")

GRAINS = ("flush", "minute", "hour")
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


@dataclass(frozen=True, slots=True)
class Slot:
    """What ended in a slot of time, by number since 1970; `hourly`: the slot is an hour, and wider than was asked for."""

    hourly: bool
    slot: int
    completed: int
    failed: int  # with those that were lost
    canceled: int
    looked: int  # rows that this was made of


@dataclass(frozen=True, slots=True)
class SlotTimes:
    """How long runs of a slot took, or had waited, by bucket."""

    hourly: bool
    slot: int
    waited: bool
    buckets: list[int]
    counts: list[int]


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


async def series(
    conn: AsyncConn, *, since: datetime, width: int, task: str | None, queue: str | None, system: bool, limit: int
) -> list[Slot]:
    """How many runs have ended how since then, by slots of so many seconds; `limit` rows of each grain are looked at."""
    parameters = {"since": since, "width": width, "task": task, "queue": queue, "limit": limit}
    async with conn.cursor(row_factory=class_row(Slot)) as cursor:
        await cursor.execute(_series("stats_series", task, queue, system), parameters)
        return await cursor.fetchall()


async def series_times(
    conn: AsyncConn, *, since: datetime, width: int, task: str | None, queue: str | None, system: bool, limit: int, most: int
) -> list[SlotTimes]:
    """How long the same runs took and had waited, of the `most` rows that stand for the most runs."""
    parameters = {"since": since, "width": width, "task": task, "queue": queue, "limit": limit, "most": most}
    async with conn.cursor(row_factory=class_row(SlotTimes)) as cursor:
        await cursor.execute(_series("stats_series_times", task, queue, system), parameters)
        return await cursor.fetchall()


def _series(block: str, task: str | None, queue: str | None, system: bool) -> sql.Composed:
    match: sql.Composable = sql.SQL("true")
    if queue is not None:
        match = sql.SQL("task = ANY (ARRAY(SELECT t.name FROM rota.task t WHERE t.queue = %(queue)s))")
    elif task is None and not system:
        match = not_system(sql.Identifier("task"))
    # Each grain by name, for its index; of one task there are few rows of any.
    which = [sql.SQL("task = %(task)s")] if task is not None else [sql.SQL("grain = {}").format(each) for each in GRAINS]
    rows = sql.SQL("\nUNION ALL\n").join(sql.SQL(SQL["stats_series_rows"]).format(which=each, match=match) for each in which)
    return sql.SQL(SQL[block]).format(rows=rows)
