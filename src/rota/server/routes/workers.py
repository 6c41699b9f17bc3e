"""`/api/admin/workers`: the processes that run jobs."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query

from rota.control.plane import ControlPlane
from rota.server.etag import TaggedRoute
from rota.server.guard import allow
from rota.server.paging import Page
from rota.server.schemas import problems
from rota.store.workers_read import WorkerRecord

router = APIRouter(prefix="/api/admin/workers", tags=["workers"], route_class=TaggedRoute)

Reads = Annotated[ControlPlane, Depends(allow("workers.read"))]


@router.get("", operation_id="workers_list", summary="List workers")
async def list_workers(
    control: Reads,
    state: Annotated[list[Literal["live", "silent", "stopped", "dead"]], Query(max_length=4)] = [],  # noqa: B006
) -> Page[WorkerRecord]:
    """The workers of the last day, those that run first, each with the first of the jobs that it holds."""
    workers = await control.list_workers()
    return Page(items=[worker for worker in workers if not state or worker.state in state], next=None)


@router.get("/{id}", operation_id="workers_get", summary="Show a worker", responses=problems(404))
async def get_worker(control: Reads, id: UUID) -> WorkerRecord:
    """One worker of the last day, with the jobs that it holds."""
    return await control.get_worker(id)
