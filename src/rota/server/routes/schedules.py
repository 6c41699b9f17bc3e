"""`/api/admin/schedules`: when tasks run by themselves. A schedule is named by its name or id, a recurring row also by task/key."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import BaseModel, Field

from rota.control.access import RUN
from rota.control.plane import ControlPlane
from rota.control.schedule_views import Preview, ScheduleDetail
from rota.errors import UsageError
from rota.model.cron import Upcoming
from rota.model.schedule_record import ScheduleRecord
from rota.server.etag import TaggedRoute, expected_version, tag
from rota.server.fields import Body, Name, Span, Text
from rota.server.guard import allow
from rota.server.paging import CursorText, Limit, Page, decode_cursor, encode_cursor
from rota.server.schemas import PreviewBody, ScheduleBody, ScheduleChange, TimingBody, problems
from rota.store.schedule_reads import ScheduleLine

router = APIRouter(prefix="/api/admin/schedules", tags=["schedules"], route_class=TaggedRoute)

Reads = Annotated[ControlPlane, Depends(allow("schedules.read"))]
Changes = Annotated[ControlPlane, Depends(allow("schedules.change"))]
Runs = Annotated[ControlPlane, Depends(allow(RUN))]
Which = Annotated[Name, Path(description="Its name or id; of a recurring row also task/key.", examples=["nightly"])]
Expected = Annotated[str | None, Depends(expected_version)]


class ScheduleQuery(Body):
    """Which schedules are meant."""

    task: Text | None = Field(default=None, description="Of this task; a pattern with * and ?. Its recurring rows come too.")
    enabled: bool | None = Field(default=None, description="Those that are, or are not.")
    recurring: bool = Field(default=False, description="Recurring rows alone.")
    failing: bool = Field(default=False, description="Those that keep failing, the longest failing first.")
    system: bool = Field(default=False, description="With those of system tasks.")
    cursor: CursorText = None
    limit: Limit = 50


class PreviewQuery(TimingBody):
    """A timing to look at before it is used."""

    every: Annotated[Span, Field(description="Or an interval: 30s, 5m, 1h30m.")] | None = None
    count: int = Field(default=5, ge=1, le=100)


class FiredJob(BaseModel):
    """The job that was enqueued; of a recurring row, which is due now, none yet."""

    job_id: UUID | None


@router.get("", operation_id="schedules_list", summary="List schedules")
async def list_schedules(control: Reads, query: Annotated[ScheduleQuery, Query()]) -> Page[ScheduleLine]:
    """Schedules by name, each with what became of its last instant."""
    filter = query.model_dump(exclude={"cursor", "limit"})
    kind = "schedules.failing" if query.failing else "schedules"
    if query.failing:
        place = decode_cursor(kind, query.cursor, datetime, UUID)
        page = await control.list_schedules(**filter, beyond=place, limit=query.limit)
    else:
        place = decode_cursor(kind, query.cursor, str)
        page = await control.list_schedules(**filter, after=place[0] if place else None, limit=query.limit)
    next = None
    if page.next is not None:
        last = page.schedules[-1].record
        next = encode_cursor(kind, last.failing_since, last.id) if last.failing_since and query.failing else None
        next = next or encode_cursor(kind, page.next)
    return Page(items=page.schedules, next=next)


@router.post("", operation_id="schedules_create", summary="Create a schedule", status_code=201, responses=problems(409))
async def create(control: Runs, body: ScheduleBody, response: Response) -> ScheduleRecord:
    """Makes a schedule for a task that is known, with a cron expression or an interval."""
    try:
        timing = body.timing()
    except UsageError as error:
        raise with_field(error) from None
    record = await control.create_schedule(body.name, body.task, timing, **body.options())
    tag(response, record)
    return record


@router.get("/preview", operation_id="schedules_preview", summary="Preview a timing")
async def preview(control: Reads, query: Annotated[PreviewQuery, Query()]) -> Preview:
    """When a schedule with this timing would fire, with what the clocks do to it, and the cron expression in words."""
    return await _preview(control, query, query.count)


@router.post("/preview", operation_id="schedules_preview_body", summary="Preview a timing given as a body")
async def preview_body(control: Reads, body: PreviewBody) -> Preview:
    """The same as with GET, which changes nothing either."""
    return await _preview(control, body, body.count)


@router.get("/{name:path}/times", operation_id="schedules_times", summary="List the next times", responses=problems(404))
async def next_times(control: Reads, name: Which, count: Annotated[int, Query(ge=1, le=1000)] = 5) -> Page[Upcoming]:
    """When a schedule fires next; never, if it is disabled or has ended."""
    return Page(items=await control.next_times(name, count), next=None)


@router.get("/{name:path}", operation_id="schedules_get", summary="Show a schedule", responses=problems(404))
async def get_schedule(control: Reads, name: Which, response: Response) -> ScheduleDetail:
    """One schedule, its next times, and what became of its last instants."""
    detail = await control.get_schedule(name)
    tag(response, detail.record)
    return detail


@router.put("/{name:path}", operation_id="schedules_update", summary="Update a schedule", responses=problems(404, 409, 412))
@router.patch("/{name:path}", operation_id="schedules_patch", summary="Update a schedule", responses=problems(404, 409, 412))
async def update(control: Changes, name: Which, body: ScheduleChange, expect: Expected, response: Response) -> ScheduleRecord:
    """Changes what is named, and nothing else; null takes a setting away. PUT and PATCH do the same.

    A task without a schedule gets one: name the task, and give `cron` or `every`.

    Changing the task, payload or timing needs `tasks.trigger` too.

    Another timing, or enabling it, plans the next time anew from now. With `If-Match` the change is refused (412) if somebody else
    has changed the schedule since.
    """
    changes, clear = body.changes()
    try:
        record = await control.update_schedule(name, clear=clear, expect=expect, **changes)
    except UsageError as error:
        raise with_field(error) from None
    tag(response, record)
    return record


@router.delete(
    "/{name:path}", operation_id="schedules_delete", summary="Delete a schedule", status_code=204, responses=problems(404, 409, 412)
)
async def delete(control: Changes, name: Which, expect: Expected) -> None:
    """Remove a schedule and the record of its instants; jobs that it has enqueued stay. One that code defines stays deleted over
    deploys until it is restored."""
    await control.delete_schedule(name, expect=expect)


@router.post(
    "/{name:path}/restore", operation_id="schedules_restore", summary="Restore a deleted schedule", responses=problems(404, 409)
)
async def restore(control: Changes, name: Which, response: Response) -> ScheduleRecord:
    """Create a deleted schedule again, as code defines it."""
    record = await control.restore_schedule(name)
    tag(response, record)
    return record


@router.post("/{name:path}/enable", operation_id="schedules_enable", summary="Enable a schedule", responses=problems(404, 412))
async def enable(control: Changes, name: Which, expect: Expected, response: Response) -> ScheduleRecord:
    """Lets a schedule fire again, from now on; a recurring row at the time it had, or at once if that has passed."""
    record = await control.enable_schedule(name, expect=expect)
    tag(response, record)
    return record


@router.post("/{name:path}/disable", operation_id="schedules_disable", summary="Disable a schedule", responses=problems(404, 412))
async def disable(control: Changes, name: Which, expect: Expected, response: Response) -> ScheduleRecord:
    """Lets a schedule fire no more; its history stays."""
    record = await control.disable_schedule(name, expect=expect)
    tag(response, record)
    return record


@router.post("/{name:path}/run", operation_id="schedules_run", summary="Run a schedule now", responses=problems(404, 409))
async def run(control: Runs, name: Which) -> FiredJob:
    """Enqueues a job of a schedule now, beside its times."""
    return FiredJob(job_id=await control.run_schedule(name))


def with_field(error: UsageError) -> UsageError:
    """The error with the field that it speaks of: its message begins with the name and what was given."""
    name = str(error).partition("=")[0]
    known = {*ScheduleBody.model_fields}
    error.field = name if name in known else "cron" if error.code == "invalid_schedule" else None
    return error


async def _preview(control: ControlPlane, timing: TimingBody, count: int) -> Preview:
    try:
        return await control.preview_schedule(cron=timing.cron, every=timing.every, tz=timing.tz, count=count)
    except UsageError as error:
        raise with_field(error) from None
