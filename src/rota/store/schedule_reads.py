"""Schedules as operators see them: in lists, and what became of their instants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import sql
from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.filters import like
from rota.model.schedule_record import ScheduleRecord
from rota.store.tasks_read import not_system

SQL = queries.load("schedule_reads")


@dataclass(frozen=True, slots=True)
class ScheduleLine:
    """A schedule, what was decided about its last instant, and the state of the job that is live or was fired last."""

    record: ScheduleRecord
    outcome: str | None  # fired or skipped
    reason: str | None  # for skipping
    job_state: str | None  # None: there is none, or its history is gone
    words: str = ""  # when it fires, for who shows it


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One instant of a schedule, or a row of them that were passed over, and what became of it."""

    instant: datetime
    until: datetime | None
    instants: int | None  # from instant to until; None there: not counted
    outcome: str
    reason: str | None
    job_id: UUID | None
    decided_at: datetime
    missed: list[str]  # deadlines: start, finish
    state: str | None  # of the job; None: there is none, or its history is gone
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None


async def named(
    conn: AsyncConn, *, task: str | None, system: bool, enabled: bool | None, after: str, limit: int
) -> list[ScheduleLine]:
    """Cron, interval and init schedules whose name comes after `after`; those of system tasks only if they are asked for."""
    hidden = () if system or task is not None else (not_system(sql.Identifier("s", "name")),)
    return await _lines(conn, "schedule_reads_named", task, enabled, *hidden, after_name=after, limit=limit)


async def recurring(
    conn: AsyncConn, *, task: str | None, enabled: bool | None, after: tuple[str, str], limit: int
) -> list[ScheduleLine]:
    """Recurring rows whose task and key come after `after`."""
    last = {"after_task": after[0], "after_key": after[1]}
    return await _lines(conn, "schedule_reads_recurring", task, enabled, **last, limit=limit)


async def failing(
    conn: AsyncConn, *, task: str | None, enabled: bool | None, after: tuple[datetime, UUID], limit: int
) -> list[ScheduleLine]:
    """Rows whose failures have made them rest as long as they may, the longest failing first, after one with this time and id."""
    return await _lines(conn, "schedule_reads_failing", task, enabled, after_since=after[0], after_id=after[1], limit=limit)


async def ledger(conn: AsyncConn, id: UUID, *, limit: int) -> list[LedgerLine]:
    """What became of the last instants of a schedule, the newest first."""
    async with conn.cursor(row_factory=class_row(LedgerLine)) as cursor:
        await cursor.execute(SQL["schedule_reads_ledger"], {"id": id, "limit": limit})
        return await cursor.fetchall()


async def now(conn: AsyncConn) -> datetime:
    """The database's time."""
    row = await (await conn.execute(SQL["schedule_reads_now"])).fetchone()
    assert row is not None
    time: datetime = row[0]
    return time


async def payload_schema(conn: AsyncConn, task: str) -> dict[str, Any] | None:
    """What a worker has told about a task's payload; None for a task that is not known."""
    row = await (await conn.execute(SQL["schedule_reads_task"], {"name": task})).fetchone()
    return None if row is None else row[0]


async def task_names(conn: AsyncConn, *, limit: int = 1000) -> list[str]:
    """The tasks that workers have made known, without Rota's own."""
    return [name for (name,) in await (await conn.execute(SQL["schedule_reads_task_names"], {"limit": limit})).fetchall()]


async def label_of(conn: AsyncConn, id: UUID) -> str | None:
    """What the schedule with this id is called: its name, or task and key; None if there is none."""
    row = await (await conn.execute(SQL["schedule_reads_label"], {"id": id})).fetchone()
    return None if row is None else row[0]


async def _lines(
    conn: AsyncConn,
    block: str,
    task: str | None,
    enabled: bool | None,
    *conditions: sql.Composable,
    **parameters: str | int | datetime | UUID,
) -> list[ScheduleLine]:
    match = list(conditions)
    if task is not None:
        is_pattern = "*" in task or "?" in task
        match.append(sql.SQL("s.task LIKE %(task)s" if is_pattern else "s.task = %(task)s"))
        parameters["task"] = like(task) if is_pattern else task
    if enabled is not None:
        match.append(sql.SQL("s.enabled" if enabled else "NOT s.enabled"))
    every = sql.SQL(" AND ").join(match or [sql.SQL("true")])
    statement = sql.SQL(SQL[block]).format(columns=sql.SQL(SQL["schedule_reads_columns"]), match=every)
    rows = await (await conn.execute(statement, parameters)).fetchall()
    return [ScheduleLine(ScheduleRecord.from_json(text), *rest) for text, *rest in rows]
