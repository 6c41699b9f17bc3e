"""`/api/admin/stats`: how tasks fare."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from rota.control.plane import ControlPlane
from rota.control.series import PeriodName, Series
from rota.control.stats import TaskStats
from rota.server.etag import TaggedRoute
from rota.server.fields import Body, Span, Text
from rota.server.guard import allow
from rota.server.paging import Page

router = APIRouter(prefix="/api/admin/stats", tags=["stats"], route_class=TaggedRoute)


class StatsQuery(Body):
    """Over which time, and of which tasks."""

    period: Span = Field(default=timedelta(days=1), description="Up to now: from 1m to 35d.")
    task: Text | None = Field(default=None, description="Of this task only.")
    system: bool = Field(default=False, description="With system tasks.")


@router.get("/tasks", operation_id="stats_tasks", summary="Show how tasks fare")
async def task_stats(
    control: Annotated[ControlPlane, Depends(allow("runs.read"))], query: Annotated[StatsQuery, Query()]
) -> Page[TaskStats]:
    """Every task that has run within the period: how many runs, how many failed, how long they took and waited."""
    found = await control.list_stats(period=query.period, task=query.task, system=query.system)
    return Page(items=found, next=None)


class SeriesQuery(Body):
    """Over which time, and of which tasks."""

    period: PeriodName = Field(default="24h", description="Up to now.")
    task: Text | None = Field(default=None, description="Of this task only.")
    queue: Text | None = Field(default=None, description="Of the tasks whose own queue this is.")
    system: bool = Field(default=False, description="With system tasks.")


@router.get("/series", operation_id="stats_series", summary="Show throughput and latency over time")
async def series(control: Annotated[ControlPlane, Depends(allow("runs.read"))], query: Annotated[SeriesQuery, Query()]) -> Series:
    """How many runs ended how in each slot of time, and how long they took and had waited, as columns for a chart.

    The slots are as wide as the period asks for: a minute of an hour, five of six hours, an hour of a day, two of a week, six of 30
    days. Where nothing ended there is a zero.
    """
    return await control.series(period=query.period, task=query.task, queue=query.queue, system=query.system)
