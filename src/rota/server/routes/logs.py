"""`/api/admin/logs`: what handlers have said."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from rota.control.plane import ControlPlane
from rota.model.log_filter import LogFilter
from rota.server.etag import TaggedRoute
from rota.server.fields import Body, Moment, Number, Text, Time
from rota.server.guard import allow
from rota.server.paging import CursorText, Limit, Page, decode_cursor, encode_cursor
from rota.store.logs_read import LogLine, Place

router = APIRouter(prefix="/api/admin/logs", tags=["logs"], route_class=TaggedRoute)

Reads = Annotated[ControlPlane, Depends(allow("logs.read"))]


class LogQuery(Body):
    """Which lines are meant: everything that is given holds."""

    text: Text | None = Field(default=None, description='Words; "a phrase" in quotes, -word for without it.')
    task: Text | None = None
    level: Literal["debug", "info", "warning", "error", "critical"] | None = Field(default=None, description="This one or worse.")
    job_id: UUID | None = None
    attempt: Number | None = Field(default=None, description="Of the job that is named.")
    since: Moment | None = None
    until: Time | None = None
    cursor: CursorText = None
    limit: Limit = 100

    def filter(self) -> LogFilter:
        """The filter that is meant."""
        return LogFilter(**{name: getattr(self, name) for name in LogFilter.__slots__})


@router.get("", operation_id="logs_list", summary="List and search lines")
async def list_logs(control: Reads, query: Annotated[LogQuery, Query()]) -> Page[LogLine]:
    """The newest lines that match, the newest first; of a job in the order of its attempts and lines."""
    place = decode_cursor("logs", query.cursor, datetime, UUID, int, int)
    page = await control.list_logs(query.filter(), before=Place(*place) if place else None, limit=query.limit)
    return Page(items=page.lines, next=encode_cursor("logs", *page.next) if page.next else None)


@router.get("/follow", operation_id="logs_follow", summary="Follow lines as they come")
async def follow(control: Reads, query: Annotated[LogQuery, Query()]) -> Page[LogLine]:
    """The last lines that match, in their order, and with `next` as the `cursor` of the next request those that came since.

    Lines come a few seconds late, so each answer goes back 30 seconds: `job_id`, `attempt` and `sequence` tell which ones have been
    seen. `next` is never null.
    """
    place = decode_cursor("logs.follow", query.cursor, datetime)
    found = await control.new_logs(query.filter(), since=place[0] if place else None, limit=query.limit)
    return Page(items=found.lines, next=encode_cursor("logs.follow", found.next))
