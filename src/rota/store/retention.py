"""Old history and its removal. One function per SQL block, connection first; each is one short transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import sql

from rota.db import queries
from rota.db.connection import AsyncConn

SQL = queries.load("retention")

NO_ID = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Rule:
    """What a task says about its own history; None is what holds for all."""

    days: int | None = None
    count: int | None = None


class Partition(NamedTuple):
    """A week of runs, or a day of logs, whose time is over."""

    name: str
    low: datetime
    high: datetime
    attached: bool


class Step(NamedTuple):
    """A piece of work done: where to go on, None at the end, and how much was removed."""

    reached: UUID | None
    pruned: int


async def rules(conn: AsyncConn) -> dict[str, Rule]:
    """The tasks that say otherwise."""
    rows = await (await conn.execute(SQL["retention_rules"])).fetchall()
    return {name: Rule(days, count) for name, days, count in rows}


async def take_lock(conn: AsyncConn, *, owner: str, hold_s: float) -> bool:
    """Takes or keeps the lock of the one who prunes; False if another has it."""
    row = await (await conn.execute(SQL["retention_lock"], {"owner": owner, "hold_s": hold_s})).fetchone()
    return bool(row and row[0])


async def give_lock(conn: AsyncConn, *, owner: str) -> None:
    """Gives the lock back."""
    await conn.execute(SQL["retention_unlock"], {"owner": owner})


async def run_tasks(conn: AsyncConn) -> list[str]:
    """The tasks that have runs."""
    return [name for (name,) in await (await conn.execute(SQL["retention_run_tasks"])).fetchall()]


async def log_tasks(conn: AsyncConn) -> list[str]:
    """The tasks that have lines in the log."""
    return [name for (name,) in await (await conn.execute(SQL["retention_log_tasks"])).fetchall()]


async def prune_runs(conn: AsyncConn, *, task: str, after: UUID, days: int, with_logs: bool, batch: int) -> Step:
    """Removes runs of a task that ended so many days ago, looking at some jobs after `after`."""
    return await _step(conn, "prune_runs", task=task, after=after, days=days, with_logs=with_logs, batch=batch)


async def surplus(conn: AsyncConn, *, task: str, count: int) -> UUID | None:
    """The newest job of a task that is one more than `count`; None if there are not so many."""
    row = await (await conn.execute(SQL["retention_surplus"], {"task": task, "count": count})).fetchone()
    return row[0] if row else None


async def prune_surplus(conn: AsyncConn, *, task: str, after: UUID, upto: UUID, batch: int) -> Step:
    """Removes runs of a task's jobs up to that one, looking at some after `after`."""
    return await _step(conn, "prune_surplus", task=task, after=after, upto=upto, batch=batch)


async def prune_orphans(conn: AsyncConn, *, after: UUID, batch: int) -> Step:
    """Removes lines of jobs of which nothing else is left, looking at some jobs after `after`."""
    return await _step(conn, "prune_orphans", after=after, batch=batch)


async def partitions(conn: AsyncConn, *, table: str, days: int) -> list[Partition]:
    """The partitions that ended so many days ago, the oldest first."""
    rows = await (await conn.execute(SQL["retention_partitions"], {"table": table, "days": days})).fetchall()
    return [Partition(*row) for row in rows]


async def look_through(
    conn: AsyncConn, partition: Partition, *, after: tuple[UUID, int], days: int, batch: int
) -> tuple[bool, tuple[UUID, int] | None]:
    """Whether some of a week's next runs ended less than so many days ago, and where to go on, None at the end."""
    parameters = {"job": after[0], "attempt": after[1], "high": partition.high, "days": days, "batch": batch}
    row = await (await conn.execute(SQL["retention_look_through"], parameters)).fetchone()
    assert row is not None
    is_young, count, job, attempt = row
    return is_young, None if count < batch else (job, attempt)


async def detach_runs(conn: AsyncConn, partition: Partition) -> bool:
    """Takes a week out of the history; False when something in it is still needed."""
    return await _said(conn, "detach", name=partition.name, low=partition.low, high=partition.high)


async def drop_detached(conn: AsyncConn, partition: Partition, *, days: int) -> None:
    """Drops a week that has been taken out; what came into it in the last moment, and is young, goes back."""
    table = sql.Identifier("rota", partition.name)
    async with conn.transaction():
        await conn.execute(
            sql.SQL(
                "INSERT INTO rota.run SELECT * FROM {} WHERE finished_at >= rota.now() - make_interval(days => %s) "
                "ON CONFLICT DO NOTHING"
            ).format(table),
            [days],
        )
        await conn.execute(sql.SQL("DROP TABLE {}").format(table))


async def drop_logs(conn: AsyncConn, partition: Partition) -> bool:
    """Drops a day of logs; False when a live job has lines in it."""
    return await _said(conn, "drop_logs", name=partition.name, high=partition.high)


async def prune_lines(conn: AsyncConn, *, task: str, days: int, batch: int) -> int:
    """Removes some lines of a task's logs that are so many days old; how many."""
    row = await (await conn.execute(SQL["retention_prune_lines"], {"task": task, "days": days, "batch": batch})).fetchone()
    assert row is not None
    count: int = row[0]
    return count


async def prune_edges(conn: AsyncConn, *, days: int, batch: int) -> int:
    """Removes some edges of parents that are gone; how many."""
    return (await conn.execute(SQL["retention_prune_edges"], {"days": days, "batch": batch})).rowcount


async def make_partitions(conn: AsyncConn) -> int:
    """Makes the partitions of the next weeks and days; how many were missing."""
    row = await (await conn.execute(SQL["retention_partitions_ahead"])).fetchone()
    assert row is not None
    count: int = row[0]
    return count


async def _step(conn: AsyncConn, block: str, **parameters: Any) -> Step:
    row = await (await conn.execute(SQL[f"retention_{block}"], parameters)).fetchone()
    assert row is not None
    return Step(*row)


async def _said(conn: AsyncConn, block: str, **parameters: Any) -> bool:
    row = await (await conn.execute(SQL[f"retention_{block}"], parameters)).fetchone()
    return bool(row and row[0])
