"""`/api/admin/tasks`: what code defines, and what operators have set over it."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Response
from fastapi import Body as FromBody
from pydantic import BaseModel, Field

from rota.control.access import RUN
from rota.control.plane import ControlPlane
from rota.control.stats import TaskStats
from rota.control.sync import Plan
from rota.control.tasks import PayloadForm, TaskView
from rota.server.etag import TaggedRoute, expected_version, tag
from rota.server.fields import Body, Text
from rota.server.guard import allow
from rota.server.paging import CursorText, Limit, Page, decode_cursor, next_cursor
from rota.server.schemas import ReasonBody, SyncBody, TaskSettings, TriggerBody, problems
from rota.store.task_sync import Synced

router = APIRouter(prefix="/api/admin", tags=["tasks"], route_class=TaggedRoute)

Reads = Annotated[ControlPlane, Depends(allow("tasks.read"))]
Changes = Annotated[ControlPlane, Depends(allow("tasks.change"))]
Which = Annotated[Text, Path(description="Its name.", examples=["send_invoice"])]
Expected = Annotated[str | None, Depends(expected_version)]


class TaskQuery(Body):
    """Which tasks are meant."""

    system: bool = Field(default=False, description="With system tasks, Rota's own among them.")
    tag: Text | None = Field(default=None, description="With this tag.")
    field: list[Text] = Field(default=[], max_length=20, description="With all of these fields, each written `team=billing`.")
    cursor: CursorText = None
    limit: Limit = 100


class TriggeredJob(BaseModel):
    """The job that was enqueued, or that was there already under the same key."""

    id: UUID


@router.get("/tasks", operation_id="tasks_list", summary="List tasks")
async def list_tasks(control: Reads, query: Annotated[TaskQuery, Query()]) -> Page[TaskView]:
    """Tasks by name, with what holds of them now, and how many live workers have each in their code."""
    place = decode_cursor("tasks", query.cursor, str)
    page = await control.list(
        system=query.system, tag=query.tag, fields=query.field, after=place[0] if place else "", limit=query.limit
    )
    return Page(items=page.tasks, next=next_cursor("tasks", page.next))


@router.get("/plan", operation_id="tasks_plan", summary="Show what a sync would change")
async def plan(
    control: Reads,
    scan: Annotated[int, Query(ge=0, le=20_000, description="So many live jobs, and schedules, are looked at.")] = 20_000,
) -> Plan:
    """How the database differs from the code of this server: tasks that are new, changed or gone, what operators have set
    otherwise, and live jobs that the code could not run. Without looking at jobs (`scan=0`) it is quick."""
    return await control.plan(scan=scan)


@router.post("/sync", operation_id="tasks_sync", summary="Write the code's tasks to the database")
async def sync(control: Changes, body: Annotated[SyncBody | None, FromBody()] = None) -> Synced:
    """Makes the tasks known that the code of this server defines. Operators' changes stay, but for the tasks in `force`."""
    return await control.sync_definitions(force=body.force if body is not None else False)


@router.get("/forms/{name}", operation_id="tasks_form", summary="Show what a payload looks like", responses=problems(404))
async def payload_form(control: Annotated[ControlPlane, Depends(allow(RUN))], name: Which) -> PayloadForm:
    """The JSON Schema of a task's payload and its default, for a form: for callers who may run the task."""
    return await control.payload_form(name)


@router.get("/tasks/{name}", operation_id="tasks_get", summary="Show a task", responses=problems(404))
async def get_task(control: Reads, name: Which, response: Response) -> TaskView:
    """One task: the schema of its payload, its settings, what code says (`definition`), what operators have changed (`overrides`),
    and how many live workers know it."""
    view = await control.get(name)
    tag(response, view.record)
    return view


@router.post("/tasks/{name}/enable", operation_id="tasks_enable", summary="Enable a task", responses=problems(404, 412))
async def enable(control: Changes, name: Which, expect: Expected, response: Response) -> TaskView:
    """Lets a task's schedules fire and its jobs run again."""
    view = await control.enable(name, expect=expect)
    tag(response, view.record)
    return view


@router.post("/tasks/{name}/disable", operation_id="tasks_disable", summary="Disable a task", responses=problems(404, 412))
async def disable(
    control: Changes, name: Which, expect: Expected, response: Response, body: Annotated[ReasonBody | None, FromBody()] = None
) -> TaskView:
    """Lets a task's schedules fire no more and its jobs wait; what runs already goes on."""
    view = await control.disable(name, reason=body.reason if body else None, expect=expect)
    tag(response, view.record)
    return view


@router.put("/tasks/{name}/settings", operation_id="tasks_update", summary="Set a task otherwise", responses=problems(404, 412))
async def update(control: Changes, name: Which, body: TaskSettings, expect: Expected, response: Response) -> TaskView:
    """Overrules what code says of a task; what is not named stays, and deploys leave it so."""
    view = await control.update(name, expect=expect, **body.settings())
    tag(response, view.record)
    return view


@router.delete("/tasks/{name}/settings", operation_id="tasks_reset", summary="Let code decide again", responses=problems(404, 412))
async def reset(
    control: Changes,
    name: Which,
    expect: Expected,
    response: Response,
    setting: Annotated[list[Text], Query(max_length=50, description="These; none named: all.")] = [],  # noqa: B006
) -> TaskView:
    """Lets code say again what some settings of a task are, or all of them."""
    view = await control.reset(name, *setting, expect=expect)
    tag(response, view.record)
    return view


@router.post(
    "/tasks/{name}/trigger", operation_id="tasks_trigger", summary="Run a task", status_code=201, responses=problems(404, 409)
)
async def trigger(
    control: Annotated[ControlPlane, Depends(allow(RUN))],
    name: Which,
    body: Annotated[TriggerBody | None, FromBody()] = None,
) -> TriggeredJob:
    """Enqueues a job of a task by hand: its default payload, with what is given over it, which must fit its schema."""
    given = body or TriggerBody()
    return TriggeredJob(id=await control.trigger(name, given.payload, **given.options()))


@router.get("/tasks/{name}/stats", operation_id="tasks_stats", summary="Show how a task fares", responses=problems(404))
async def task_stats(control: Annotated[ControlPlane, Depends(allow("runs.read"))], name: Which) -> dict[str, TaskStats]:
    """Its runs over the last hour, day and week: how many, how many failed, how long they took and waited."""
    return await control.task_stats(name)
