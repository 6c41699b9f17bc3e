"""Lines as people look for them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

from psycopg import sql
from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.log_filter import LEVEL_NAMES, LogFilter

SQL = queries.load("logs_read")

_WORDS: LiteralString = "rota.log_words(message, fields) @@ websearch_to_tsquery('pg_catalog.simple', %(text)s)"


class Place(NamedTuple):
    """Where in the order of all lines one is."""

    at: datetime
    job_id: UUID
    attempt: int
    sequence: int


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that a handler has said."""

    at: datetime
    task: str
    job_id: UUID
    attempt: int
    sequence: int
    level: int
    message: str
    fields: dict[str, Any] | None

    @property
    def place(self) -> Place:
        """Where it is among all lines."""
        return Place(self.at, self.job_id, self.attempt, self.sequence)

    @property
    def level_name(self) -> str:
        """The level as people call it."""
        return LEVEL_NAMES.get(self.level, str(self.level))


@dataclass(frozen=True, slots=True)
class Scan:
    """What a walk over some lines has found, how many it saw, and the oldest of them."""

    lines: list[LogLine]
    scanned: int
    reached: Place | None


async def scan(conn: AsyncConn, filter: LogFilter, *, before: Place, window: int, limit: int) -> Scan:
    """Looks through the newest `window` lines before a place."""
    statement = sql.SQL(SQL["logs_read_scan"]).format(scan=_conditions(filter), match=_match(filter))
    values = {**_values(filter), **_before(before), "window": window, "limit": limit}
    rows = await (await conn.execute(statement, values)).fetchall()
    if not rows:
        return Scan([], 0, None)
    *found, (scanned, at, _, job_id, attempt, sequence, *_) = rows
    return Scan([LogLine(*row[1:]) for row in found], scanned, Place(at, job_id, attempt, sequence))


async def find(conn: AsyncConn, filter: LogFilter, *, before: Place, limit: int) -> list[LogLine]:
    """The newest lines before a place that have the words of the filter, by the index of words."""
    async with conn.transaction():
        await conn.execute(SQL["logs_read_prefer_words"])
        return await _lines(conn, "logs_read_find", filter, {**_before(before), "limit": limit})


def _before(place: Place) -> dict[str, Any]:
    return {f"before_{name}": value for name, value in place._asdict().items()}


async def of_run(conn: AsyncConn, filter: LogFilter, *, after: tuple[int, int], limit: int) -> list[LogLine]:
    """The lines of a job or run in their order, after an attempt's sequence."""
    values = {"after_attempt": after[0], "after_sequence": after[1], "limit": limit}
    return await _lines(conn, "logs_read_run", filter, values)


async def last_of_run(conn: AsyncConn, filter: LogFilter, *, before: tuple[int, int], limit: int) -> list[LogLine]:
    """The last lines of a job or run before an attempt's sequence, the newest first."""
    values = {"before_attempt": before[0], "before_sequence": before[1], "limit": limit}
    return await _lines(conn, "logs_read_run_last", filter, values)


async def now(conn: AsyncConn) -> datetime:
    """The database's time."""
    row = await (await conn.execute(SQL["logs_read_now"])).fetchone()
    assert row is not None
    time: datetime = row[0]
    return time


async def days(conn: AsyncConn) -> list[datetime]:
    """When the days begin that have a partition of their own, the newest first."""
    row = await (await conn.execute(SQL["logs_read_days"])).fetchone()
    assert row is not None
    return [datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC) for day in row[0]]


async def _lines(conn: AsyncConn, block: str, filter: LogFilter, values: dict[str, Any]) -> list[LogLine]:
    statement = sql.SQL(SQL[block]).format(scan=_conditions(filter), match=_match(filter))
    async with conn.cursor(row_factory=class_row(LogLine)) as cursor:
        await cursor.execute(statement, {**_values(filter), **values})
        return await cursor.fetchall()


def _match(filter: LogFilter) -> sql.SQL:
    return sql.SQL(_WORDS if filter.text else "true")


def _conditions(filter: LogFilter) -> sql.Composable:
    parts: list[LiteralString] = ["true"]
    if filter.task is not None:
        parts.append("task = %(task)s")
    if filter.least:
        parts.append("level >= %(level)s")
    if filter.least >= 30:
        parts.append("level >= 30")  # so that a plan for any value may still go by the index of the worse ones
    if filter.attempt is not None:
        parts.append("attempt = %(attempt)s")
    if isinstance(filter.since, datetime):
        parts.append("at >= %(since)s")
    elif filter.since is not None:
        parts.append("at >= rota.now() - %(since)s")
    if filter.until is not None:
        parts.append("at < %(until)s")
    return sql.SQL(" AND ").join(sql.SQL(part) for part in parts)


def _values(filter: LogFilter) -> dict[str, Any]:
    return {**dataclasses.asdict(filter), "level": filter.least}
