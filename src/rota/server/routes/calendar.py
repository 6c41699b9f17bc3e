"""`/api/admin/calendar`, `/upcoming` and `/firings`: what will run by itself, and what became of what was to run."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from rota.control.calendar import Calendar, HourDetail, NextRun
from rota.control.firings import ScheduleFirings
from rota.control.plane import ControlPlane
from rota.errors import UsageError
from rota.server.etag import TaggedRoute
from rota.server.fields import Body, Day, Text, Time
from rota.server.guard import allow
from rota.server.paging import Page

router = APIRouter(prefix="/api/admin", tags=["calendar"], route_class=TaggedRoute)

Reads = Annotated[ControlPlane, Depends(allow("schedules.read"))]


class Chosen(Body):
    """What is counted."""

    task: Text | None = Field(default=None, description="Of this task only; a pattern with * and ?.")
    system: bool = Field(default=False, description="With those of system tasks.")


class CalendarQuery(Chosen):
    """Which days, on which clocks."""

    first: Day | None = Field(default=None, alias="from", description="The first day; none: today.")
    days: int = Field(default=7, ge=1, le=31)
    tz: Text = Field(default="UTC", description="Whose clocks: an IANA name.", examples=["Europe/Berlin"])


class HourQuery(Chosen):
    """From when to when: `begin` and `end` of an hour of the calendar, or up to two days."""

    begin: Time
    end: Time


@router.get("/upcoming", operation_id="calendar_upcoming", summary="List what runs next")
async def upcoming(
    control: Reads,
    limit: Annotated[int, Query(ge=1, le=100, description="At most so many.")] = 10,
    system: Annotated[bool, Query(description="With those of system tasks.")] = False,
) -> Page[NextRun]:
    """The schedules and recurring rows that run next, each once, by its next time."""
    return Page(items=list(await control.upcoming(system=system, limit=limit)), next=None)


@router.get("/calendar", operation_id="calendar_get", summary="Show what will run by hour and day")
async def calendar(control: Reads, query: Annotated[CalendarQuery, Query()]) -> Calendar:
    """How much will run in each hour of some days: schedules, recurring rows (their next run only), and jobs that are enqueued.

    What is past is not counted. Hours are as clocks in the zone show them: one that they jump over is not there, one that they show
    twice is longer. However many there are, one answer looks at some only: `caps` says what was left out.
    """
    try:
        return await control.calendar(first=query.first, days=query.days, tz=query.tz, task=query.task, system=query.system)
    except UsageError as error:
        name = str(error).partition("=")[0]
        error.field = name if name in ("tz", "from") else None
        raise


@router.get("/calendar/hour", operation_id="calendar_hour", summary="Show what is behind an hour")
async def calendar_hour(control: Reads, query: Annotated[HourQuery, Query()]) -> HourDetail:
    """The schedules that will run then, by their first time; recurring rows and jobs by task."""
    return await control.calendar_hour(query.begin, query.end, task=query.task, system=query.system)


@router.get("/firings", operation_id="calendar_firings", summary="List the last firings of schedules")
async def list_firings(
    control: Reads,
    id: Annotated[list[UUID], Query(min_length=1, max_length=100, description="Of these schedules.")],
    limit: Annotated[int, Query(ge=1, le=30, description="At most so many of each.")] = 30,
) -> Page[ScheduleFirings]:
    """What became of the last instants of each schedule, the oldest first. Those that are not there are left out; recurring rows
    keep no record of theirs."""
    return Page(items=list(await control.list_firings(id, limit=limit)), next=None)
