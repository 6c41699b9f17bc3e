"""`/api/admin/runs`: attempts at jobs."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query
from pydantic import Field

from rota.control.plane import ControlPlane
from rota.model.filters import RunFilter
from rota.server.etag import TaggedRoute
from rota.server.fields import MAX_INT, Body, Moment, Name, Text
from rota.server.guard import allow
from rota.server.paging import CursorText, Limit, Page, decode_cursor, encode_cursor
from rota.server.schemas import Fingerprint, problems
from rota.store.runs_read import RunDetail, RunId, RunLine

router = APIRouter(prefix="/api/admin/runs", tags=["runs"], route_class=TaggedRoute)

Reads = Annotated[ControlPlane, Depends(allow("runs.read"))]
Attempt = Annotated[int, Path(ge=1, le=MAX_INT)]


class RunQuery(Body):
    """Which runs are meant: everything that is given holds."""

    status: list[Literal["running", "completed", "failed", "canceled", "snoozed", "released", "lost"]] = Field(
        default=[], max_length=7, description="With one of these."
    )
    task: Text | None = Field(default=None, description="Of this task; a pattern with * and ?.")
    worker_id: UUID | None = Field(default=None, description="By this worker.")
    schedule: Name | None = Field(default=None, description="Of this schedule: its name or id, or task/key.")
    job_id: UUID | None = Field(default=None, description="Of this job.")
    text: Text | None = Field(default=None, description="With this in the error.")
    since: Moment | None = Field(default=None, description="Of jobs created then or later.")
    until: Moment | None = Field(default=None, description="Of jobs created before.")
    triggered_by: Text | None = Field(default=None, description="By this kind: scheduler, manual, hook.")
    error: Fingerprint | None = Field(default=None, description="Of this group of errors.")
    count: bool = Field(default=False, description="Whether to count them, too, as far as that is cheap.")
    cursor: CursorText = None
    limit: Limit = 50


@router.get("", operation_id="runs_list", summary="List runs", responses=problems(404))
async def list_runs(control: Reads, query: Annotated[RunQuery, Query()]) -> Page[RunLine]:
    """The newest attempts at jobs that match: of the newest jobs first, of each the last attempt first."""
    filter = RunFilter(
        statuses=tuple(query.status),
        task=query.task,
        worker=query.worker_id,
        job=query.job_id,
        text=query.text,
        since=query.since,
        until=query.until,
        triggered_by=query.triggered_by,
        fingerprint=query.error,
    )
    place = decode_cursor("runs", query.cursor, UUID, int)
    page = await control.list_runs(filter, schedule=query.schedule, before=RunId(*place) if place else None, limit=query.limit)
    count = await control.count_runs(filter) if query.count and query.schedule is None else None
    return Page(items=page.runs, next=encode_cursor("runs", *page.next) if page.next else None, count=count)


@router.get("/{job_id}", operation_id="runs_last", summary="Show the last run of a job", responses=problems(404))
async def last_run(control: Reads, job_id: UUID) -> RunDetail:
    """The open attempt at a job, or else the last one."""
    return await control.get_run(job_id)


@router.get("/{job_id}/{attempt}", operation_id="runs_get", summary="Show a run", responses=problems(404))
async def get_run(control: Reads, job_id: UUID, attempt: Attempt) -> RunDetail:
    """One attempt at a job with everything that is known about it."""
    return await control.get_run(job_id, attempt)
