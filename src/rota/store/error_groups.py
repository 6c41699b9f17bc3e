"""Failures, grouped by what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import sql
from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.filters import like
from rota.store.tasks_read import not_system

SQL = queries.load("error_groups")


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """The failures of one task with one fingerprint; `count` is one more than the cap when there are more."""

    fingerprint: str
    task: str
    first_seen: datetime
    last_seen: datetime
    count: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt, with its error."""

    fingerprint: str
    task: str
    job_id: UUID
    attempt: int
    finished_at: datetime
    error: dict[str, Any] | None


async def read(
    conn: AsyncConn,
    *,
    fingerprint: str | None = None,
    task: str | None = None,
    since: datetime | timedelta | None = None,
    limit: int,
    cap: int,
) -> list[TaskGroup]:
    """The groups that have been seen since, those seen last first; Rota's own tasks only if asked for."""
    which = sql.SQL("true") if fingerprint is None else sql.SQL("r.fingerprint = %(fingerprint)s")
    if task is not None:
        is_pattern = "*" in task or "?" in task
        match: sql.Composable = sql.SQL("task LIKE %(task)s" if is_pattern else "task = %(task)s")
        task = like(task) if is_pattern else task
    elif fingerprint is None:
        match = not_system(sql.Identifier("task"))
    else:
        match = sql.SQL("true")
    match_since = {
        type(None): sql.SQL("'-infinity'::timestamptz"),
        timedelta: sql.SQL("(rota.now() - %(since)s::interval)"),
    }.get(type(since), sql.SQL("%(since)s::timestamptz"))
    statement = sql.SQL(SQL["error_groups_read"]).format(which=which, match=match, since=match_since)
    parameters = {"fingerprint": fingerprint, "task": task, "since": since, "limit": limit, "cap": cap}
    async with conn.cursor(row_factory=class_row(TaskGroup)) as cursor:
        await cursor.execute(statement, parameters)
        return await cursor.fetchall()


async def latest(conn: AsyncConn, groups: Sequence[TaskGroup], *, limit: int) -> list[Failure]:
    """The last failures of each of these groups, the newest first."""
    parameters = {"fingerprints": [each.fingerprint for each in groups], "tasks": [each.task for each in groups], "limit": limit}
    async with conn.cursor(row_factory=class_row(Failure)) as cursor:
        await cursor.execute(SQL["error_groups_latest"], parameters)
        return await cursor.fetchall()


async def beginning_with(conn: AsyncConn, prefix: str) -> list[str]:
    """Some of the fingerprints that begin so."""
    bounds = {"low": prefix, "high": prefix + "g"}  # they are hexadecimal
    return [name for (name,) in await (await conn.execute(SQL["error_groups_beginning_with"], bounds)).fetchall()]
