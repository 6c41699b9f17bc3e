"""Schedules as an application sees them: made and changed at run time, in the caller's own transaction if wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack
from uuid import UUID

from rota.control import schedules as control
from rota.model.schedule import Timing
from rota.model.schedule_record import ScheduleRecord
from rota.model.task import TaskSpec
from rota.store.intake import Intake


class ScheduleOptions(TypedDict, total=False):
    """What else can be said of a new schedule; queue, priority and max_attempts are else the task's own."""

    payload: Mapping[str, Any] | None
    enabled: bool
    queue: str | None
    priority: int | None
    max_attempts: int | None


class Schedules:
    """The named schedules in the database."""

    def __init__(self, intake: Intake, tasks: Mapping[str, TaskSpec]) -> None:
        self._intake = intake
        self._tasks = tasks

    def create(
        self, name: str, task: str, timing: Timing, *, conn: Any = None, **options: Unpack[ScheduleOptions]
    ) -> ScheduleRecord:
        """Makes a schedule; Conflict if there is one of that name."""
        return self._intake.transact(
            control.create(name, task, timing, tasks=self._tasks, **options), conn, call="schedules.create"
        )

    async def acreate(
        self, name: str, task: str, timing: Timing, *, conn: Any = None, **options: Unpack[ScheduleOptions]
    ) -> ScheduleRecord:
        """Like `create`, from an event loop."""
        return await self._intake.atransact(control.create(name, task, timing, tasks=self._tasks, **options), conn)

    def update(self, name: str, *, conn: Any = None, **changes: Any) -> ScheduleRecord:
        """Changes some of a schedule: cron, every, tz, misfire and what else `cron()` takes, payload, enabled, queue, priority,
        max_attempts."""
        return self._intake.transact(control.update(name, tasks=self._tasks, **changes), conn, call="schedules.update")

    async def aupdate(self, name: str, *, conn: Any = None, **changes: Any) -> ScheduleRecord:
        """Like `update`, from an event loop."""
        return await self._intake.atransact(control.update(name, tasks=self._tasks, **changes), conn)

    def enable(self, name: str, *, conn: Any = None) -> ScheduleRecord:
        """Lets a schedule fire again, from now on."""
        return self._intake.transact(control.set_enabled(name, True), conn, call="schedules.enable")

    async def aenable(self, name: str, *, conn: Any = None) -> ScheduleRecord:
        """Like `enable`, from an event loop."""
        return await self._intake.atransact(control.set_enabled(name, True), conn)

    def disable(self, name: str, *, conn: Any = None) -> ScheduleRecord:
        """Lets a schedule fire no more; its history stays."""
        return self._intake.transact(control.set_enabled(name, False), conn, call="schedules.disable")

    async def adisable(self, name: str, *, conn: Any = None) -> ScheduleRecord:
        """Like `disable`, from an event loop."""
        return await self._intake.atransact(control.set_enabled(name, False), conn)

    def delete(self, name: str, *, conn: Any = None) -> None:
        """Remove a schedule; the jobs it has enqueued stay. One that code defines stays deleted until it is restored."""
        self._intake.transact(control.delete(name), conn, call="schedules.delete")

    async def adelete(self, name: str, *, conn: Any = None) -> None:
        """Like `delete`, from an event loop."""
        await self._intake.atransact(control.delete(name), conn)

    def restore(self, name: str, *, conn: Any = None) -> ScheduleRecord:
        """Create a deleted schedule again, as code defines it; NotFound if no code does, Conflict if it exists."""
        return self._intake.transact(control.restore(name), conn, call="schedules.restore")

    async def arestore(self, name: str, *, conn: Any = None) -> ScheduleRecord:
        """Like `restore`, from an event loop."""
        return await self._intake.atransact(control.restore(name), conn)

    def run(self, name: str, *, conn: Any = None) -> UUID:
        """Enqueues a job of a schedule now, beside its times; the job's id."""
        return self._intake.transact(control.run(name), conn, call="schedules.run")

    async def arun(self, name: str, *, conn: Any = None) -> UUID:
        """Like `run`, from an event loop."""
        return await self._intake.atransact(control.run(name), conn)

    def get(self, name: str, *, conn: Any = None) -> ScheduleRecord:
        """A schedule by its name, or a recurring row by `task/key`."""
        return self._intake.transact(control.get(name), conn, call="schedules.get")

    async def aget(self, name: str, *, conn: Any = None) -> ScheduleRecord:
        """Like `get`, from an event loop."""
        return await self._intake.atransact(control.get(name), conn)
