"""Tasks as operators see them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from psycopg import sql

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.capped import COUNT_CAP, Capped
from rota.model.definition import TaskRecord
from rota.model.schedule_record import ScheduleRecord
from rota.model.task import SYSTEM_PREFIX

SQL = queries.load("tasks_read")


def not_system(column: sql.Composable) -> sql.Composable:
    """A condition that leaves system tasks out of a list. Rota's own are known by their names, also before any worker has come."""
    return sql.SQL("NOT starts_with({0}, {1}) AND {0} <> ALL (ARRAY(SELECT name FROM rota.task WHERE system))").format(
        column, SYSTEM_PREFIX
    )


class TaskLine(NamedTuple):
    """A task, and how many of its jobs are held because it is disabled; None: it is not."""

    record: TaskRecord
    held: Capped | None


async def read_all(
    conn: AsyncConn, *, system: bool, tag: str | None, fields: Iterable[tuple[str, str]], after: str, limit: int
) -> list[TaskLine]:
    """Tasks whose name comes after `after`, by name; Rota's own only if they are asked for."""
    match: list[sql.Composable] = [sql.SQL("true")]
    if not system:
        match.append(not_system(sql.Identifier("t", "name")))
    if tag is not None:
        match.append(sql.SQL("%(tag)s = ANY (t.tags)"))
    match += [sql.SQL("t.fields ->> {} = {}").format(name, value) for name, value in fields]
    statement = sql.SQL(SQL["tasks_read_list"]).format(match=sql.SQL(" AND ").join(match))
    parameters = {"after": after, "tag": tag, "limit": limit, "cap": COUNT_CAP + 1}
    return [_line(*row) for row in await (await conn.execute(statement, parameters)).fetchall()]


async def get(conn: AsyncConn, name: str) -> TaskLine | None:
    """The task of that name."""
    row = await (await conn.execute(SQL["tasks_read_get"], {"name": name, "cap": COUNT_CAP + 1})).fetchone()
    return None if row is None else _line(*row)


async def stored_default(conn: AsyncConn, name: str) -> str:
    """The default payload of a task as JSON text, with its secrets as they are stored; `{}` if there is no such task."""
    row = await (await conn.execute(SQL["tasks_read_default"], {"name": name})).fetchone()
    return "{}" if row is None else str(row[0])


async def names(conn: AsyncConn, *, limit: int = 1000) -> list[str]:
    """The names of all tasks."""
    return [name for (name,) in await (await conn.execute(SQL["tasks_read_names"], {"limit": limit})).fetchall()]


async def schedules(conn: AsyncConn, names: Iterable[str]) -> dict[str, ScheduleRecord]:
    """The schedules that these tasks have from their code."""
    rows = await (await conn.execute(SQL["tasks_read_schedules"], {"names": list(names)})).fetchall()
    records = [ScheduleRecord.from_json(text) for (text,) in rows]
    return {record.task: record for record in records if record.name == record.task}


async def live_payloads(conn: AsyncConn, *, after: UUID, limit: int) -> list[tuple[UUID, str, str, str]]:
    """Some live jobs, the oldest first: (id, task, label, payload)."""
    return await (await conn.execute(SQL["tasks_read_live"], {"after": after, "limit": limit})).fetchall()


async def schedule_payloads(conn: AsyncConn, *, after: UUID, limit: int) -> list[tuple[UUID, str, str, str]]:
    """Some schedules, the oldest first: (id, task, label, payload)."""
    return await (await conn.execute(SQL["tasks_read_rows"], {"after": after, "limit": limit})).fetchall()


def _line(text: str, held: int | None) -> TaskLine:
    return TaskLine(TaskRecord.from_json(text), None if held is None else Capped.at(held))
