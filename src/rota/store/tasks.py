"""Tasks as workers see them: made known at their start, and what operators have changed since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
        yield from task_sync.declare_queues(queues, limits)

    carry_out(PsycopgCarrier(conn), atomically(steps(), autocommits=True))


async def read_overrides(conn: AsyncConn) -> dict[str, Overrides]:
    """What operators have changed, by task."""
    return dict(await (await conn.execute(SQL["tasks_overridden"])).fetchall())


async def hold_disabled(conn: AsyncConn, *, queue: str) -> int:
    """Takes jobs of disabled tasks out of the way of claims, some at a time; how many."""
    row = await (await conn.execute(SQL["tasks_hold_disabled"], {"queue": queue})).fetchone()
    assert row is not None
    count: int = row[0]
    return count
