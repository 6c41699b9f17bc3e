"""Schedules: made, changed, switched on and off, fired by hand, and when they fire next."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

from rota.control.access import RUN
from rota.control.plane_base import Plane
from rota.control.versions import check_version
from rota.errors import Conflict
from rota.lazy import Lazy
from rota.model.filters import check_text
from rota.store import schedule_changes, schedule_reads, tasks_read

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rota.control import enqueue, schedule_views, schedules
    from rota.control.schedule_views import Preview, ScheduleDetail, SchedulePage
    from rota.db.connection import AsyncConn
    from rota.model.cron import Upcoming
    from rota.model.duration import Duration
    from rota.model.schedule import Timing
    from rota.model.schedule_record import ScheduleRecord
    from rota.model.task import TaskSpec
else:  # each is loaded by the first who asks for it: a command needs one noun of many
    enqueue = Lazy("rota.control.enqueue")
    schedule_views = Lazy("rota.control.schedule_views")
    schedules = Lazy("rota.control.schedules")


class SchedulePlane(Plane):
    """What operators see and do of schedules. Each is named by its name or id, a recurring row also by `task/key`."""

    async def list_schedules(self, **filter: Any) -> SchedulePage:
        """The schedules by name."""
        async with self._for("schedules.read") as conn:
            return await schedule_views.list_schedules(conn, **filter)

    async def get_schedule(self, name: str) -> ScheduleDetail:
        """One schedule, its next times, and what became of its last instants."""
        async with self._for("schedules.read") as conn:
            return await schedule_views.show_schedule(conn, await _label(conn, name))

    async def next_times(self, name: str, count: int) -> list[Upcoming]:
        """The next times of a schedule; none if it is disabled or has ended."""
        async with self._for("schedules.read") as conn:
            return await schedule_views.next_times(conn, await _label(conn, name), count)

    async def preview_schedule(
        self, *, cron: str | None = None, every: Duration | None = None, tz: str | None = None, count: int = 5
    ) -> Preview:
        """When a schedule would fire that nobody has made yet, and the cron expression in words."""
        async with self._for("schedules.read") as conn:
            return await schedule_views.preview(conn, cron=cron, every=every, tz=tz, count=count)

    async def create_schedule(self, name: str, task: str, timing: Timing, **options: Any) -> ScheduleRecord:
        """Makes a schedule; Conflict if there is one of that name."""
        async with self._changing(RUN) as conn:
            await self._check_foreign(conn, task, options.get("payload"))
            record = await self._carry_out(conn, schedules.create(name, task, timing, tasks=self._code_of(task), **options))
            await self._record(conn, "schedules.create", name, task=task, when=timing.describe())
            return record

    async def update_schedule(
        self, name: str, *, clear: Collection[str] = (), expect: str | None = None, **changes: Any
    ) -> ScheduleRecord:
        """Changes some of a schedule: cron, every, tz, payload, enabled and what else a schedule has; `clear` names what is taken
        away. A task's own schedule has its name, and is created if it has none.

        Another task, payload or timing needs the right to run the task.
        """
        if _decides_what_runs({name for name, value in changes.items() if value is not None} | set(clear)):
            self.require(RUN)
        async with self._changing("schedules.change") as conn:
            label = await _label(conn, name)
            if expect is None and "/" not in label and await self._carry_out(conn, schedule_changes.get_for_change(label)) is None:
                record = await self._carry_out(conn, schedules.update(label, tasks=self._code_of(label), **changes))
                await self._check_foreign(conn, record.task, changes.get("payload"))
                await self._record(conn, "schedules.create", label, task=record.task, when=record.timing.describe())
                return record
            before = await self._expect_schedule(conn, label, expect)
            if before.key is not None:
                raise Conflict(f"{label} is a recurring row, which its code changes: it can be enabled, disabled and run")
            task, payload = changes.get("task") or before.task, changes.get("payload")
            if task != before.task or payload is not None:
                await self._check_foreign(conn, task, before.payload if payload is None else payload)
            record = await self._carry_out(conn, schedules.update(label, tasks=self._code_of(task), clear=clear, **changes))
            await self._record(conn, "schedules.update", label, changed=sorted({*changes, *clear}))
            return record

    async def enable_schedule(self, name: str, *, expect: str | None = None) -> ScheduleRecord:
        """Lets a schedule fire again, from now on."""
        return await self._set_enabled(name, True, expect)

    async def disable_schedule(self, name: str, *, expect: str | None = None) -> ScheduleRecord:
        """Lets a schedule fire no more; its history stays."""
        return await self._set_enabled(name, False, expect)

    async def delete_schedule(self, name: str, *, expect: str | None = None) -> None:
        """Remove a schedule and the record of its instants; jobs that it has enqueued stay. One from code stays deleted."""
        async with self._changing("schedules.change") as conn:
            label = await _label(conn, name)
            if (await self._expect_schedule(conn, label, expect)).key is not None:
                raise Conflict(f"{label} is a recurring row, which its code makes: disable it, and it runs no more")
            await self._carry_out(conn, schedules.delete(label))
            await self._record(conn, "schedules.delete", label)

    async def restore_schedule(self, name: str) -> ScheduleRecord:
        """Create a deleted schedule again, as code defines it."""
        async with self._changing("schedules.change") as conn:
            check_text("schedule", name)
            record = await self._carry_out(conn, schedules.restore(name))
            await self._record(conn, "schedules.restore", name)
            return record

    async def run_schedule(self, name: str) -> UUID | None:
        """Enqueues a job of a schedule now, beside its times; of a recurring row, which then is due, there is no job yet: None."""
        async with self._changing(RUN) as conn:
            label = await _label(conn, name)
            job = None
            if "/" in label:
                await self._carry_out(conn, schedules.run_recurring(label))
            else:
                job = await self._carry_out(conn, schedules.run(label, user=self.actor.name))
            await self._record(conn, "schedules.run", label, job=None if job is None else str(job))
            return job

    async def _set_enabled(self, name: str, enabled: bool, expect: str | None) -> ScheduleRecord:
        async with self._changing("schedules.change") as conn:
            label = await _label(conn, name)
            if expect is not None:
                await self._expect_schedule(conn, label, expect)
            record = await self._carry_out(conn, schedules.set_enabled(label, enabled))
            await self._record(conn, "schedules.enable" if enabled else "schedules.disable", label)
            return record

    async def _expect_schedule(self, conn: AsyncConn, label: str, expect: str | None) -> ScheduleRecord:
        """The schedule, locked, and compared with what the caller has seen."""
        if "/" not in label:
            await self._carry_out(conn, schedule_changes.get_for_change(label))
        else:
            await self._carry_out(conn, schedule_changes.lock_key(*label.split("/", 1)))
        record = await schedule_views.get_schedule(conn, label)
        check_version(record, expect, f"schedule {label!r}")
        return record

    def _code_of(self, task: str) -> Mapping[str, TaskSpec] | None:
        """The tasks of the code at hand, if this is one of them."""
        return self._app.tasks if task in self._app.tasks else None

    async def _check_foreign(self, conn: AsyncConn, task: str, payload: Mapping[str, Any] | None) -> None:
        """Refuses what jobs of another application's task could not run with: its default payload, with this over it."""
        if task not in self._app.tasks:
            default = json.loads(await tasks_read.stored_default(conn, task))
            await enqueue.check_task(conn, task, {**default, **(payload or {})})


def _decides_what_runs(changes: Collection[str]) -> bool:
    """Whether changing these settings of a schedule decides what runs, with which payload or when."""
    from rota.model.schedule import Timing

    return not {"task", "payload", *Timing.__slots__}.isdisjoint(changes)


async def _label(conn: AsyncConn, name: str) -> str:
    """What a schedule is called that is named by its id; other names are what they are."""
    check_text("schedule", name)
    try:
        id = UUID(name)
    except ValueError:
        return name
    return await schedule_reads.label_of(conn, id) or name
