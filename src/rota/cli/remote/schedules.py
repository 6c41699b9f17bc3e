"""Schedules, over the API."""

from __future__ import annotations

import dataclasses
from typing import Any
from uuid import UUID

from rota.cli.remote.base import Remote, given, read
from rota.control.schedule_views import LONG_AGO, ScheduleDetail, SchedulePage
from rota.model.cron import Upcoming
from rota.model.schedule import Timing
from rota.model.schedule_record import ScheduleRecord
from rota.model.zone import load_zone
from rota.server.paging import encode_cursor
from rota.store.schedule_reads import ScheduleLine


class RemoteSchedules(Remote):
    """What operators see and do of schedules."""

    async def list_schedules(
        self, *, task: str | None, recurring: bool, failing: bool, after: str | None, limit: int
    ) -> SchedulePage:
        """The schedules by name, or those that keep failing."""
        cursor = None
        if after is not None and failing:
            last = (await self.get_schedule(after)).record
            cursor = encode_cursor("schedules.failing", last.failing_since or LONG_AGO, last.id)
        elif after is not None:
            cursor = encode_cursor("schedules", after)
        query = {"task": task, "recurring": recurring, "failing": failing, "cursor": cursor, "limit": limit}
        lines, next = self._page(ScheduleLine, "schedules", query=query)
        return SchedulePage(lines, None if next is None else lines[-1].record.label)

    async def get_schedule(self, name: str) -> ScheduleDetail:
        """One schedule, its next times, and what became of its last instants."""
        detail = self._get(ScheduleDetail, "schedules", name)
        return dataclasses.replace(detail, upcoming=_in_zone(detail.upcoming, detail.record.timing.tz))

    async def next_times(self, name: str, count: int) -> list[Upcoming]:
        """The next times of a schedule; none if it is disabled or has ended."""
        zone = (await self.get_schedule(name)).record.timing.tz
        return _in_zone(self._page(Upcoming, "schedules", name, "times", query={"count": count})[0], zone)

    async def create_schedule(self, name: str, task: str, timing: Timing, **options: Any) -> ScheduleRecord:
        """Makes a schedule; Conflict if there is one of that name."""
        when = {field.name: getattr(timing, field.name) for field in dataclasses.fields(timing) if field.name != "strategy"}
        if timing.cron is None:
            del when["tz"]  # intervals are the same everywhere
        return self._post(ScheduleRecord, "schedules", body={"name": name, "task": task, **given(**when, **options)})

    async def update_schedule(self, name: str, **changes: Any) -> ScheduleRecord:
        """Changes some of a schedule."""
        return self._patch(ScheduleRecord, "schedules", name, body=given(**changes))

    async def enable_schedule(self, name: str) -> ScheduleRecord:
        """Lets a schedule fire again, from now on."""
        return self._post(ScheduleRecord, "schedules", name, "enable")

    async def disable_schedule(self, name: str) -> ScheduleRecord:
        """Lets a schedule fire no more; its history stays."""
        return self._post(ScheduleRecord, "schedules", name, "disable")

    async def delete_schedule(self, name: str) -> None:
        """Removes a schedule and the story of its instants."""
        self._delete(Any, "schedules", name)

    async def restore_schedule(self, name: str) -> ScheduleRecord:
        """Create a deleted schedule again, as code defines it."""
        return self._post(ScheduleRecord, "schedules", name, "restore")

    async def run_schedule(self, name: str) -> UUID | None:
        """Enqueues a job of a schedule now; of a recurring row, which then is due, there is no job yet."""
        return read(UUID | None, self._post(dict[str, Any], "schedules", name, "run").get("job_id"))  # type: ignore[arg-type]


def _in_zone(times: list[Upcoming], tz: str) -> list[Upcoming]:
    """JSON has the offset of a time, and not the zone by which people know it."""
    zone = load_zone(tz)
    return [dataclasses.replace(each, local=each.at_utc.astimezone(zone)) for each in times]
