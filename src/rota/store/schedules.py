"""Schedules as a scheduler sees them: what is due, and firing it. One function per SQL block, connection first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.firing import Firing
from rota.model.ids import new_id
from rota.model.schedule import Timing

SQL = queries.load("schedules")

ID_TIME = len("01a1e0ca-1f89-7")  # of an id, its time and version


class Due(NamedTuple):
    """A schedule whose next instant has come."""

    id: UUID
    due: datetime
    now: datetime
    timing: Timing


class Fired(NamedTuple):
    """How many schedules were handled, how many jobs that made, and how many lines about instants that were passed over."""

    schedules: int
    jobs: int
    skipped: int


class MissedDeadline(NamedTuple):
    """A job of a schedule that did not begin, or end, in time."""

    schedule_id: UUID
    name: str
    task: str
    instant: datetime
    job_id: UUID
    deadline: str  # start or finish
    due: datetime


async def due(conn: AsyncConn, *, apps: Sequence[str], limit: int) -> list[Due]:
    """Lock due cron, interval and init schedules of these applications: the highest priority first, then the longest wait."""
    rows = await (await conn.execute(SQL["schedules_due"], {"apps": apps, "limit": limit})).fetchall()
    return [
        Due(
            id, _utc(due), _utc(now),
            Timing(strategy, cron, every, tz, misfire=misfire, catch_up=catch_up, starts_at=_utc(starts_at), ends_at=_utc(ends_at)),
        )
        for id, due, now, strategy, cron, every, tz, misfire, catch_up, starts_at, ends_at in rows
    ]  # fmt: skip


async def fire(conn: AsyncConn, firings: Iterable[tuple[Due, Firing]]) -> Fired:
    """Enqueues what is to be fired, writes the ledger and moves the next times; all of a schedule or nothing."""
    plans = [
        {"id": due.id, "due": due.due, "fire": firing.fire, "skip": firing.skip, "next": firing.next} for due, firing in firings
    ]
    row = await (await conn.execute(SQL["schedules_fire"], {"firings": orjson.dumps(plans).decode()})).fetchone()
    assert row is not None
    return Fired(*row)


async def fire_recurring(conn: AsyncConn, *, apps: Sequence[str], limit: int) -> tuple[int, int]:
    """Enqueue the jobs of due recurring rows of these applications, up to `limit` a task: how many rows were due, and how many jobs
    that made."""
    parameters = {"apps": apps, "limit": limit, "id_time": str(new_id())[:ID_TIME]}
    row = await (await conn.execute(SQL["schedules_fire_recurring"], parameters)).fetchone()
    assert row is not None
    return row[0], row[1]


async def next_s(conn: AsyncConn, *, apps: Sequence[str]) -> float | None:
    """In how many seconds something of these applications is due, None if nothing is."""
    row = await (await conn.execute(SQL["schedules_next"], {"apps": apps})).fetchone()
    assert row is not None
    seconds: float | None = row[0]
    return seconds


async def unplanned(conn: AsyncConn, *, after: UUID, limit: int) -> list[tuple[UUID, datetime, Timing]]:
    """Locks some schedules after `after` whose next time is to be computed: (id, from when on, timing)."""
    rows = await (await conn.execute(SQL["schedules_unplanned"], {"after": after, "limit": limit})).fetchall()
    return [
        (id, _utc(since), Timing(strategy, cron, every, tz, starts_at=_utc(starts_at), ends_at=_utc(ends_at)))
        for id, since, strategy, cron, every, tz, starts_at, ends_at in rows
    ]


async def plan(conn: AsyncConn, *, id: UUID, next: datetime) -> None:
    """Sets a schedule's next time."""
    await conn.execute(SQL["schedules_plan"], {"id": id, "next": next})


async def refuse(conn: AsyncConn, *, id: UUID, why: str) -> str:
    """Switches a schedule off that cannot be understood; its name."""
    row = await (await conn.execute(SQL["schedules_refuse"], {"id": id, "why": why})).fetchone()
    return str(row[0]) if row else str(id)


async def heal(conn: AsyncConn, *, after: UUID, limit: int) -> tuple[UUID | None, int]:
    """Frees rows whose job is gone, looking at some after `after`: where to go on, and how many there were."""
    row = await (await conn.execute(SQL["schedules_heal"], {"after": after, "limit": limit})).fetchone()
    assert row is not None
    return row[0], row[1]


async def missed_deadlines(conn: AsyncConn) -> Sequence[MissedDeadline]:
    """Deadlines that have passed unmet since the last look; each is told once."""
    return [MissedDeadline(*row) for row in await (await conn.execute(SQL["schedules_deadlines"])).fetchall()]


async def newly_failing(conn: AsyncConn) -> list[tuple[str, str, int, str | None]]:
    """Rows whose backoff has reached its cap since the last look: (name, task, failures in a row, last error)."""
    return await (await conn.execute(SQL["schedules_failing"])).fetchall()


async def prune(conn: AsyncConn, *, days: int, limit: int) -> int:
    """Removes old lines of the ledger; how many."""
    return (await conn.execute(SQL["schedules_prune"], {"days": days, "limit": limit})).rowcount


async def take_lock(conn: AsyncConn, *, owner: str, hold_s: float) -> bool:
    """Takes or keeps the one scheduler's lock; False if another scheduler has it."""
    parameters: dict[str, Any] = {"owner": owner, "hold_s": hold_s}
    row = await (await conn.execute(SQL["schedules_lock"], parameters)).fetchone()
    return bool(row and row[0])


def _utc(at: Any) -> Any:
    """In UTC: times in the zone of the session, where clocks change, cannot be added to."""
    return at and at.astimezone(UTC)
