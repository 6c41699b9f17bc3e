"""Tasks as workers see them: made known at their start, and what operators have changed since."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rota.db import queries
from rota.db.carriers import PsycopgCarrier
from rota.db.connection import AsyncConn, Conn
from rota.db.steps import Steps, atomically, carry_out
from rota.model.definition import Overrides
from rota.model.limits import NO_LIMITS, QueueLimits
from rota.model.task import DEFAULT_APP, TaskSpec
from rota.store import task_sync

SQL = queries.load("tasks")


def sync(
    conn: Conn,
    *,
    tasks: Iterable[TaskSpec],
    queues: Sequence[str],
    limits: Mapping[str, QueueLimits] = NO_LIMITS,
    app: str = DEFAULT_APP,
) -> None:
    """Makes tasks and queues known to the database."""

    def steps() -> Steps[None]:
        yield from task_sync.sync(tasks, app=app)
        yield from task_sync.declare_queues(queues, limits, app=app)

    carry_out(PsycopgCarrier(conn), atomically(steps(), autocommits=True))


async def read_overrides(conn: AsyncConn) -> dict[str, Overrides]:
    """What operators have changed, by task."""
    return dict(await (await conn.execute(SQL["tasks_overridden"])).fetchall())


async def set_aside(conn: AsyncConn, *, queue: str, known: str) -> int:
    """Move jobs of disabled and of unknown tasks out of the way of claims, some at a time; return how many.

    `known`, the tasks that the worker knows, is an array as PostgreSQL writes it; so are `known` and `queues` below.
    """
    return await _count(conn, "tasks_set_aside", {"queue": queue, "known": known})


async def take_back(conn: AsyncConn, *, queues: str, known: str, versions: str, free: int) -> int:
    """Put jobs that were set aside back in line, some at a time; return how many. `versions` are those of the known tasks. Of jobs
    that another version has refused, put back up to `free`."""
    return await _count(conn, "tasks_take_back", {"queues": queues, "known": known, "schemas": versions, "free": free})


async def overdue(conn: AsyncConn, *, app: str, patience_s: float) -> list[tuple[str, str, list[str], datetime]]:
    """Note that an application has a live worker; return (queue, task, refused_by, until) of jobs that have waited too long."""
    return await (await conn.execute(SQL["tasks_overdue"], {"app": app, "patience_s": patience_s})).fetchall()


async def names(conn: AsyncConn) -> list[str]:
    """The users' tasks that some code has."""
    return [name for (name,) in await (await conn.execute(SQL["tasks_names"])).fetchall()]


async def fail_unknown(
    conn: AsyncConn, *, queue: str, task: str, refused_by: list[str], until: datetime, error: Mapping[str, Any]
) -> int:
    """Fail jobs of an unknown task that were set aside until then, some at a time; return how many."""
    parameters = {"queue": queue, "task": task, "refused_by": refused_by, "until": until, "error": json.dumps(error)}
    return await _count(conn, "tasks_fail_unknown", parameters)


async def _count(conn: AsyncConn, statement: str, parameters: dict[str, Any]) -> int:
    row = await (await conn.execute(SQL[statement], parameters)).fetchone()
    assert row is not None
    count: int = row[0]
    return count
