"""How it goes, and what will run by itself, over all nouns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.control.plane_base import Plane
from rota.lazy import Lazy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime
    from uuid import UUID

    from rota.control import calendar, firings, overview
    from rota.control.calendar import Calendar, HourDetail, NextRun
    from rota.control.firings import ScheduleFirings
    from rota.control.overview import Overview
else:  # each is loaded by the first who asks for it: a command needs one noun of many
    calendar = Lazy("rota.control.calendar")
    firings = Lazy("rota.control.firings")
    overview = Lazy("rota.control.overview")


class OverviewPlane(Plane):
    """What operators see of everything together."""

    async def overview(self) -> Overview:
        """How it goes in a sentence, what is wrong, and how much there is; of what the actor may see."""
        async with self._for("jobs.read") as conn:
            return await overview.overview(conn, self.may)

    async def upcoming(self, *, system: bool = False, limit: int = 10) -> Sequence[NextRun]:
        """The schedules and recurring rows that run next, each once."""
        async with self._for("schedules.read") as conn:
            return await calendar.upcoming(conn, system=system, limit=limit)

    async def calendar(
        self, *, first: date | None = None, days: int = 7, tz: str = "UTC", task: str | None = None, system: bool = False
    ) -> Calendar:
        """What will run in each hour of some days, as clocks in a zone show them."""
        async with self._for("schedules.read") as conn:
            jobs = self.may("jobs.read")
            return await calendar.calendar(conn, first=first, days=days, tz=tz, task=task, system=system, jobs=jobs)

    async def calendar_hour(self, begin: datetime, end: datetime, *, task: str | None = None, system: bool = False) -> HourDetail:
        """What is behind an hour of the calendar."""
        async with self._for("schedules.read") as conn:
            return await calendar.calendar_hour(conn, begin, end, task=task, system=system, jobs=self.may("jobs.read"))

    async def list_firings(self, ids: Sequence[UUID], *, limit: int = 30) -> Sequence[ScheduleFirings]:
        """What became of the last instants of these schedules."""
        async with self._for("schedules.read") as conn:
            return await firings.list_firings(conn, ids, limit=limit)
