"""Schedules of a test: made and changed as an operator would, ticked as a scheduler would, and looked at in the database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg.rows import namedtuple_row

from rota.control import schedules as control
from rota.db.carriers import PsycopgCarrier
from rota.db.connection import AsyncConn, connect_async
from rota.db.steps import Steps, atomically, carry_out
from rota.engine.scheduler import Scheduler
from rota.events import Event, Events
from rota.model.schedule import Timing
from rota.model.schedule_record import ScheduleRecord

E = TypeVar("E", bound=Event)
R = TypeVar("R")


class Line(NamedTuple):
    """A line of a schedule's ledger."""

    instant: datetime
    until: datetime | None
    instants: int | None
    what: str  # fired, or why not


class Scheduling:
    """The schedules in one database."""

    def __init__(self, dsn: str, conn: psycopg.Connection[Any]) -> None:
        self.dsn = dsn
        self.conn = conn
        self.events: list[Event] = []

    def create(self, name: str, timing: Timing, task: str = "work", **options: Any) -> ScheduleRecord:
        """Make a schedule."""
        return self._do(control.create(name, task, timing, **options))

    def update(self, name: str, **changes: Any) -> ScheduleRecord:
        """Change one."""
        return self._do(control.update(name, **changes))

    def set_enabled(self, name: str, enabled: bool) -> ScheduleRecord:
        """Switch one on or off."""
        return self._do(control.set_enabled(name, enabled))

    def delete(self, name: str) -> None:
        """Remove one."""
        self._do(control.delete(name))

    def restore(self, name: str) -> ScheduleRecord:
        """Create a deleted one again."""
        return self._do(control.restore(name))

    def run(self, name: str, **options: Any) -> Any:
        """Enqueue a job of one now."""
        return self._do(control.run(name, **options))

    def get(self, name: str) -> ScheduleRecord:
        """Read one."""
        return self._do(control.get(name))

    def _do(self, steps: Steps[R]) -> R:
        return carry_out(PsycopgCarrier(self.conn), atomically(steps, autocommits=True))

    def scheduler(self, **options: Any) -> Scheduler:
        """Make a scheduler whose events are written down."""
        events = Events()
        events.subscribe(Event, self.events.append)
        return Scheduler(events, **options)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConn]:
        """Open a connection like that of a scheduler."""
        async with await connect_async(self.dsn, "scheduler") as conn:
            yield conn

    async def tick(self) -> int:
        """Let a scheduler do all there is to do; how many jobs that made."""
        async with self.connection() as conn:
            return await self.scheduler().tick(conn)

    def seen(self, kind: type[E]) -> list[E]:
        """What was said of this kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def row(self, name: str) -> Any:
        """Read a schedule as it is stored."""
        cursor = self.conn.cursor(row_factory=namedtuple_row)
        return cursor.execute("SELECT * FROM rota.schedule WHERE name = %s", [name]).fetchone()

    def next(self, name: str) -> datetime | None:
        """Tell when a schedule fires next."""
        at: datetime | None = self.row(name).next_run_at
        return at and at.astimezone(UTC)

    def ledger(self, name: str) -> list[Line]:
        """Tell what became of a schedule's instants."""
        lines = self.conn.execute(
            """SELECT o.instant, o.until, o.instants, coalesce(o.reason, o.outcome)
               FROM rota.occurrence o JOIN rota.schedule s ON s.id = o.schedule_id WHERE s.name = %s ORDER BY o.instant""",
            [name],
        ).fetchall()
        return [Line(_utc(instant), until and _utc(until), instants, what) for instant, until, instants, what in lines]

    def jobs(self, name: str) -> list[Any]:
        """Read the live jobs of a schedule as they are stored, in the order of their instants."""
        cursor = self.conn.cursor(row_factory=namedtuple_row)
        statement = (
            "SELECT j.* FROM rota.job j JOIN rota.schedule s ON s.id = j.schedule_id WHERE s.name = %s ORDER BY scheduled_for"
        )
        return cursor.execute(statement, [name]).fetchall()

    def fired(self, name: str) -> list[datetime]:
        """Tell the instants of which there are jobs, live or finished."""
        statement = """SELECT j.scheduled_for FROM rota.jobs j JOIN rota.schedule s ON s.id = j.schedule_id
                       WHERE s.name = %s AND j.scheduled_for IS NOT NULL ORDER BY 1"""
        return [_utc(at) for (at,) in self.conn.execute(statement, [name]).fetchall()]


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC)
