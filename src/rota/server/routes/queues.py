"""`/api/admin/queues`: how full they are, and whether and how fast they are worked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response
from fastapi import Body as FromBody
from pydantic import BaseModel

from rota.control.plane import ControlPlane
from rota.control.service import Queue
from rota.errors import NotFound, UnknownQueue
from rota.server.etag import TaggedRoute, expected_version, tag
from rota.server.fields import Text
from rota.server.guard import allow
from rota.server.paging import Page
from rota.server.schemas import QueueLimits, ReasonBody, problems

router = APIRouter(prefix="/api/admin/queues", tags=["queues"], route_class=TaggedRoute)

Reads = Annotated[ControlPlane, Depends(allow("queues.read"))]
Changes = Annotated[ControlPlane, Depends(allow("queues.change"))]
Which = Annotated[Text, Path(description="Its name.", examples=["default"])]
Expected = Annotated[str | None, Depends(expected_version)]


@contextmanager
def _in_path() -> Iterator[None]:
    """A queue that is named by the path and is not there is 404; one that is named in a body would be 422."""
    try:
        yield
    except UnknownQueue as error:
        raise NotFound(str(error)) from None


class HeldLimits(BaseModel):
    """The limits that hold now; null: none."""

    max_concurrency: int | None
    rate: str | None


@router.get("", operation_id="queues_list", summary="List queues")
async def list_queues(control: Reads) -> Page[Queue]:
    """Every queue: how full it is, how far behind, and who works it."""
    return Page(items=list(await control.list_queues()), next=None)


@router.get("/{name}", operation_id="queues_get", summary="Show a queue", responses=problems(404))
async def get_queue(control: Reads, name: Which, response: Response) -> Queue:
    """One queue."""
    with _in_path():
        queue = await control.get_queue(name)
    tag(response, queue)
    return queue


@router.post("/{name}/pause", operation_id="queues_pause", summary="Pause a queue", responses=problems(404, 412))
async def pause(
    control: Changes, name: Which, expect: Expected, response: Response, body: Annotated[ReasonBody | None, FromBody()] = None
) -> Queue:
    """Stops claims from a queue, over restarts too, until it is resumed; what runs already goes on."""
    with _in_path():
        queue = await control.pause_queue(name, reason=body.reason if body else None, expect=expect)
    tag(response, queue)
    return queue


@router.post("/{name}/resume", operation_id="queues_resume", summary="Resume a queue", responses=problems(404, 412))
async def resume(control: Changes, name: Which, expect: Expected, response: Response) -> Queue:
    """Lets a queue be claimed from again."""
    with _in_path():
        queue = await control.resume_queue(name, expect=expect)
    tag(response, queue)
    return queue


@router.put("/{name}/limits", operation_id="queues_limit", summary="Limit a queue", responses=problems(404, 412))
async def limit(control: Changes, name: Which, body: QueueLimits, expect: Expected) -> HeldLimits:
    """Overrules what code says of a queue's limits, at once and over deploys."""
    given = {each: getattr(body, each) for each in body.model_fields_set}
    with _in_path():
        return HeldLimits(**await control.limit_queue(name, expect=expect, **given))


@router.delete("/{name}/limits", operation_id="queues_unlimit", summary="Let code limit a queue", responses=problems(404, 412))
async def unlimit(control: Changes, name: Which, expect: Expected) -> HeldLimits:
    """Lets code say again what a queue's limits are."""
    with _in_path():
        return HeldLimits(**await control.unlimit_queue(name, expect=expect))
