"""`/api/admin/errors`: failures in groups of the same kind."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi import Body as FromBody
from pydantic import Field

from rota.control.error_groups import ErrorDetail, ErrorGroup
from rota.control.plane import ControlPlane
from rota.server.etag import TaggedRoute
from rota.server.fields import Body, Moment, Text
from rota.server.guard import allow
from rota.server.paging import CursorText, Limit, Page, decode_cursor, decode_id, encode_cursor
from rota.server.routes.jobs import WITHIN_S, BulkAnswer, bulk_answer
from rota.server.schemas import Fingerprint, problems

router = APIRouter(prefix="/api/admin/errors", tags=["errors"], route_class=TaggedRoute)

Reads = Annotated[ControlPlane, Depends(allow("runs.read"))]


class ErrorQuery(Body):
    """Which groups are meant."""

    task: Text | None = Field(default=None, description="Of this task; a pattern with * and ?.")
    since: Moment | None = Field(default=None, description="Seen then or later.")
    cursor: CursorText = None
    limit: Limit = 50


class RetryGroupBody(Body):
    """Which jobs of a group are retried."""

    task: Text | None = Field(default=None, description="Of this task only.")
    cursor: CursorText = Field(default=None, description="`next` of the answer before, to go on from there.")


@router.get("", operation_id="errors_list", summary="List groups of errors")
async def list_errors(control: Reads, query: Annotated[ErrorQuery, Query()]) -> Page[ErrorGroup]:
    """Failures in groups of the same kind, those seen last first."""
    place = decode_cursor("errors", query.cursor, datetime, str)
    before = (place[0], place[1]) if place else None
    groups = await control.list_errors(task=query.task, since=query.since, before=before, limit=query.limit + 1)
    items = list(groups[: query.limit])
    more = len(groups) > query.limit
    return Page(items=items, next=encode_cursor("errors", items[-1].last_seen, items[-1].fingerprint) if more else None)


@router.get("/{fingerprint}", operation_id="errors_get", summary="Show a group of errors", responses=problems(404))
async def get_error(control: Reads, fingerprint: Fingerprint) -> ErrorDetail:
    """One group, by its fingerprint or the beginning of it, with the error of its last failure."""
    return await control.get_error(fingerprint)


@router.post("/{fingerprint}/retry", operation_id="errors_retry", summary="Retry a group of errors", responses=problems(404, 409))
async def retry(
    control: Annotated[ControlPlane, Depends(allow("jobs.change"))],
    fingerprint: Fingerprint,
    body: Annotated[RetryGroupBody | None, FromBody()] = None,
) -> BulkAnswer:
    """Retries the jobs that have failed for good with one kind of error. As with `jobs_bulk`, `next` says how to go on."""
    given = body or RetryGroupBody()
    before = decode_id("bulk", given.cursor)
    return bulk_answer("retry", await control.retry_error(fingerprint, task=given.task, before=before, within_s=WITHIN_S))
