"""What will run by itself, and what became of what was to run. One function per SQL block, connection first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import sql
from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.filters import like
from rota.model.schedule import Strategy, Timing
from rota.model.schedule_record import ScheduleRecord
from rota.store.tasks_read import not_system

SQL = queries.load("calendar")


class Next(NamedTuple):
    """A schedule or recurring row with a next time; `resting`: its task is disabled or gone; `late`: nobody has fired it."""

    record: ScheduleRecord
    resting: bool
    late: bool


@dataclass(frozen=True, slots=True)
class Planned:
    """A schedule, as far as its times go."""

    id: UUID
    name: str
    task: str
    strategy: Strategy
    cron: str | None
    every: timedelta | None
    tz: str
    starts_at: datetime | None
    ends_at: datetime | None
    next_run_at: datetime | None

    @property
    def timing(self) -> Timing:
        """When it fires."""
        return Timing(self.strategy, cron=self.cron, every=self.every, tz=self.tz, starts_at=self.starts_at, ends_at=self.ends_at)


class Pile(NamedTuple):
    """What of one task is due in one quarter of an hour: how many are meant, and how many were looked at, up to when."""

    quarter: int  # of hours since 1970
    task: str
    meant: int
    walked: int
    last: datetime


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One instant of a schedule, or a row of them that were passed over; all but the id is None for one that has had none."""

    id: UUID
    instant: datetime | None
    until: datetime | None
    instants: int | None
    outcome: str | None
    reason: str | None
    job_id: UUID | None
    missed: list[str] | None
    state: str | None
    last_run_at: datetime | None
    finished_at: datetime | None


async def upcoming(conn: AsyncConn, *, system: bool, limit: int) -> list[Next]:
    """The schedules and recurring rows that are due first, each once."""
    statement = sql.SQL(SQL["calendar_upcoming"]).format(ours=_ours(system, "s", "task"))
    rows = await (await conn.execute(statement, {"limit": limit})).fetchall()
    return [Next(ScheduleRecord.from_json(text), resting, late) for text, resting, late in rows]


async def schedules(conn: AsyncConn, *, task: str | None, system: bool, limit: int) -> list[Planned]:
    """The schedules that fire by themselves, by name."""
    statement = sql.SQL(SQL["calendar_schedules"]).format(match=_match(task, system, "s"))
    async with conn.cursor(row_factory=class_row(Planned)) as cursor:
        await cursor.execute(statement, {**_pattern(task), "limit": limit})
        return await cursor.fetchall()


async def recurring(
    conn: AsyncConn, *, task: str | None, system: bool, begin: datetime, end: datetime, now: datetime, walk: int
) -> list[Pile]:
    """The recurring rows whose next run is then, of tasks that do not rest; no more than `walk` are looked at."""
    resting = sql.SQL("w.task <> ALL (ARRAY({}))").format(sql.SQL(SQL["calendar_resting"]))
    return await _piles(conn, "calendar_recurring", [_match(task, system, "w"), resting], task, begin, end, now, walk)


async def jobs(
    conn: AsyncConn, *, task: str | None, system: bool, begin: datetime, end: datetime, now: datetime, walk: int
) -> list[Pile]:
    """The jobs that are due then; no more than `walk` are looked at."""
    return await _piles(conn, "calendar_jobs", [_match(task, system, "w")], task, begin, end, now, walk)


async def firings(conn: AsyncConn, ids: Sequence[UUID], *, limit: int) -> list[Occurrence]:
    """What became of the last instants of each of these schedules, the oldest first; of unknown ones nothing."""
    async with conn.cursor(row_factory=class_row(Occurrence)) as cursor:
        await cursor.execute(SQL["calendar_firings"], {"ids": list(ids), "limit": limit})
        return await cursor.fetchall()


async def _piles(
    conn: AsyncConn,
    block: str,
    match: list[sql.Composable],
    task: str | None,
    begin: datetime,
    end: datetime,
    now: datetime,
    walk: int,
) -> list[Pile]:
    statement = sql.SQL(SQL[block]).format(match=sql.SQL(" AND ").join(match))
    parameters = {**_pattern(task), "begin": begin, "end": end, "now": now, "walk": walk}
    return [Pile(*row) for row in await (await conn.execute(statement, parameters)).fetchall()]


def _match(task: str | None, system: bool, table: str) -> sql.Composable:
    if task is None:
        return _ours(system, table, "task")
    name = sql.Identifier(table, "task")
    return sql.SQL("{} LIKE %(task)s" if _is_pattern(task) else "{} = %(task)s").format(name)


def _ours(system: bool, *column: str) -> sql.Composable:
    return sql.SQL("true") if system else not_system(sql.Identifier(*column))


def _pattern(task: str | None) -> dict[str, Any]:
    return {} if task is None else {"task": like(task) if _is_pattern(task) else task}


def _is_pattern(task: str) -> bool:
    return "*" in task or "?" in task
