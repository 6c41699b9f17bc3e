"""`/api/admin/jobs`: find jobs, look into them, run them again, stop them, put them off; one and many."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Query, Response
from pydantic import BaseModel, Field

from rota.control.access import RUN
from rota.control.explain import Explanation
from rota.control.facets import JobFacets
from rota.control.job_stats import JobStats
from rota.control.lineage import Lineage, Origin, RelativePage
from rota.control.plane import ControlPlane
from rota.control.service import Bulk, JobDetail
from rota.errors import UsageError
from rota.model.capped import Capped
from rota.model.filters import RunFilter
from rota.server.etag import TaggedRoute
from rota.server.fields import Text
from rota.server.guard import allow
from rota.server.paging import CursorText, Limit, Page, decode_cursor, decode_id, encode_cursor, next_cursor
from rota.server.schemas import BulkBody, EditBody, EnqueueBody, JobMatch, JobQuery, ReasonBody, RescheduleBody, problems
from rota.store.jobs_change import Edit
from rota.store.jobs_read import EditedJob, JobSummary, Relative
from rota.store.runs_read import RunId, RunLine

WITHIN_S = 1.5  # that one request works on many jobs; then it says how to go on

router = APIRouter(prefix="/api/admin/jobs", tags=["jobs"], route_class=TaggedRoute)

Reads = Annotated[ControlPlane, Depends(allow("jobs.read"))]
Changes = Annotated[ControlPlane, Depends(allow("jobs.change"))]


class EnqueuedJob(BaseModel):
    """A job that was stored; or that was there already, under the same key."""

    id: UUID
    created: bool


class BulkAnswer(BaseModel):
    """What was done to many jobs; with `next`, not all of them yet."""

    action: Literal["retry", "cancel"]
    dry_run: bool
    matched: Capped | None = Field(description="How many match, of a dry run.")
    changed: int = Field(description="Jobs that were retried or canceled.")
    skipped: int = Field(description="Jobs that were locked, or had moved on meanwhile.")
    next: str | None = Field(description="The time of this request was over: send it again with this as `cursor` to go on.")


class LineageAnswer(BaseModel):
    """Who or what made a job, the first of its parents and children, and what its payload was before it was edited."""

    job_id: UUID
    origin: Origin
    parents: Page[Relative]
    children: Page[Relative]
    edits: list[Edit]


@router.get("", operation_id="jobs_list", summary="List jobs")
async def list_jobs(control: Reads, query: Annotated[JobQuery, Query()]) -> Page[JobSummary]:
    """The newest jobs that match. Rota's own are left out unless their task is asked for.

    However many jobs there are, one answer looks at some of them only: where few match, a page may be short and have a `next`.
    """
    filter = query.filter()
    if query.cursor is not None and query.offset:
        raise UsageError(f"offset={query.offset} and cursor both say where the page begins: give only one of them")
    before = decode_id("jobs", query.cursor)
    page = await control.list_jobs(filter, before=before, offset=query.offset, limit=query.limit)
    count = await control.count_jobs(filter) if query.count else None
    return Page(items=page.jobs, next=next_cursor("jobs", page.next), count=count)


@router.get("/stats", operation_id="jobs_stats", summary="Count jobs by state")
async def job_stats(control: Reads) -> JobStats:
    """How many jobs are in each state, and how long the oldest one that is due has waited.

    Counts of more than 10,000 are `estimated`; they are `capped` as long as no worker or server has counted further.
    """
    return await control.job_stats()


@router.get("/count", operation_id="jobs_count", summary="Count jobs")
async def count_jobs(control: Reads, query: Annotated[JobMatch, Query()]) -> Capped:
    """How many jobs match. A search counts to 10,000, and is then `capped`; by state alone, more than that are `estimated`."""
    return await control.count_jobs(query.filter())


@router.get("/facets", operation_id="jobs_facets", summary="Count jobs by state, task and queue")
async def job_facets(control: Reads, query: Annotated[JobMatch, Query()]) -> JobFacets:
    """How many jobs match by state (whatever state is asked for), and by task and queue, the most first.

    Where there are too many to look at all, the newest of each kind are counted, and the counts say so.
    """
    return await control.job_facets(query.filter())


@router.get("/values", operation_id="jobs_values", summary="List names to search by")
async def list_values(
    control: Reads,
    of: Annotated[Literal["task", "queue"], Query(description="Names of what.")],
    text: Annotated[Text | None, Query(description="With this in them; those that begin with it come first.")] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="At most so many.")] = 20,
) -> Page[str]:
    """The tasks or queues that there are, to complete what somebody types."""
    return Page(items=await control.list_values(of, text=text or "", limit=limit), next=None)


@router.post("", operation_id="jobs_enqueue", summary="Enqueue a job", status_code=201, responses={
    200: {"description": "There is a job with this key already: this one.", "model": EnqueuedJob}, **problems(409),
})  # fmt: skip
async def enqueue(control: Annotated[ControlPlane, Depends(allow(RUN))], body: EnqueueBody, response: Response) -> EnqueuedJob:
    """Stores a job of a task that some worker has made known. The payload must fit the task's schema."""
    id, created = await control.enqueue(body.task, body.payload, **body.options())
    if not created:
        response.status_code = 200
    return EnqueuedJob(id=id, created=created)


@router.post("/bulk", operation_id="jobs_bulk", summary="Retry or cancel many jobs", responses=problems(409))
async def change_many(control: Changes, body: BulkBody) -> BulkAnswer:
    """Retries or cancels every job that matches, in small transactions. `dry_run` counts them only.

    One request works for about a second and a half. Then it answers what it did, with a `next` to go on from. To send one again
    does no harm: a job that was retried has not failed any more.
    """
    filter = body.filter.filter()
    before = decode_id("bulk", body.cursor)
    matched, done = None, Bulk(0, 0)
    if body.dry_run:
        matched = await (control.count_to_retry(filter) if body.action == "retry" else control.count_to_cancel(filter))
    elif body.action == "retry":
        done = await control.retry_many(filter, before=before, within_s=WITHIN_S)
    else:
        done = await control.cancel_many(filter, reason=body.reason, before=before, within_s=WITHIN_S)
    return bulk_answer(body.action, done, body.dry_run, matched)


def bulk_answer(action: Literal["retry", "cancel"], done: Bulk, dry_run: bool = False, matched: Capped | None = None) -> BulkAnswer:
    """What was done, for who asked over HTTP."""
    next = next_cursor("bulk", done.next)
    return BulkAnswer(action=action, dry_run=dry_run, matched=matched, changed=done.changed, skipped=done.skipped, next=next)


@router.get("/{id}", operation_id="jobs_get", summary="Show a job", responses=problems(404))
async def get_job(control: Reads, id: UUID) -> JobDetail:
    """One job with its payload, its attempts (for those who may see runs), its parents and children, and edits of its payload."""
    return await control.get_job(id)


@router.get("/{id}/runs", operation_id="jobs_runs", summary="List the attempts at a job")
async def list_runs(
    control: Annotated[ControlPlane, Depends(allow("runs.read"))], id: UUID, cursor: CursorText = None, limit: Limit = 50
) -> Page[RunLine]:
    """The attempts at a job, the newest first. The open one of a worker that died is among them, without an end."""
    place = decode_cursor("runs", cursor, UUID, int)
    page = await control.list_runs(RunFilter(job=id), before=RunId(*place) if place else None, limit=limit)
    return Page(items=page.runs, next=encode_cursor("runs", *page.next) if page.next else None)


@router.get("/{id}/why", operation_id="jobs_why", summary="Say why a job has not run", responses=problems(404))
async def why(control: Reads, id: UUID) -> Explanation:
    """Everything that keeps a job from running, in words, what counts most first."""
    return await control.why(id)


@router.get("/{id}/lineage", operation_id="jobs_lineage", summary="Show where a job comes from", responses=problems(404))
async def lineage(control: Reads, id: UUID) -> LineageAnswer:
    """Who or what made a job, in words; the first of its parents and children; and what its payload was before it was edited."""
    found: Lineage = await control.lineage(id)
    parents, children = _relatives("parents", found.parents), _relatives("children", found.children)
    return LineageAnswer(job_id=id, origin=found.origin, parents=parents, children=children, edits=found.edits)


@router.get("/{id}/parents", operation_id="jobs_parents", summary="List the parents of a job")
async def list_parents(control: Reads, id: UUID, cursor: CursorText = None, limit: Limit = 50) -> Page[Relative]:
    """What a job waits for or has waited for, the oldest first. Those whose history has been pruned have neither task nor state."""
    return _relatives("parents", await control.relatives(id, "parents", after=decode_id("parents", cursor), limit=limit))


@router.get("/{id}/children", operation_id="jobs_children", summary="List the children of a job")
async def list_children(control: Reads, id: UUID, cursor: CursorText = None, limit: Limit = 50) -> Page[Relative]:
    """The jobs that wait or have waited for this one, the oldest first."""
    return _relatives("children", await control.relatives(id, "children", after=decode_id("children", cursor), limit=limit))


def _relatives(kind: str, page: RelativePage) -> Page[Relative]:
    return Page(items=page.items, next=next_cursor(kind, page.next))


@router.post("/{id}/retry", operation_id="jobs_retry", summary="Retry a job", responses=problems(404, 409))
async def retry(control: Changes, id: UUID) -> JobSummary:
    """Puts a failed or canceled job back in the queue, with its history; one that waits for its time runs at once."""
    return await control.retry(id)


@router.post("/{id}/cancel", operation_id="jobs_cancel", summary="Cancel a job", responses=problems(404, 409))
async def cancel(control: Changes, id: UUID, body: Annotated[ReasonBody | None, Body()] = None) -> JobSummary:
    """Ends a job that does not run; one that does is asked to stop, and stays running until it has."""
    return await control.cancel(id, reason=body.reason if body else None)


@router.post("/{id}/edit", operation_id="jobs_edit", summary="Edit and retry a job", responses=problems(404, 409))
async def edit(control: Annotated[ControlPlane, Depends(allow(RUN))], id: UUID, body: EditBody) -> EditedJob:
    """Retries a job with another payload, which must fit its task. What it was, and who changed it, are kept."""
    return await control.edit_and_retry(id, body.payload, changes=body.changes)


@router.post("/{id}/reschedule", operation_id="jobs_reschedule", summary="Reschedule a job", responses=problems(404, 409))
async def reschedule(control: Changes, id: UUID, body: RescheduleBody) -> JobSummary:
    """Lets a job that has not begun run at another time, earlier or later."""
    return await control.reschedule(id, body.run_at)
