"""`/api/admin/alerts`: what somebody should look at."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query
from fastapi import Body as FromBody
from pydantic import Field

from rota.control.plane import ControlPlane
from rota.server.etag import TaggedRoute
from rota.server.fields import MAX_INT, Body, Text
from rota.server.guard import allow
from rota.server.paging import CursorText, Limit, Page, decode_cursor, encode_cursor
from rota.server.schemas import NoteBody, problems
from rota.store.alerts import AlertRecord

router = APIRouter(prefix="/api/admin/alerts", tags=["alerts"], route_class=TaggedRoute)

Reads = Annotated[ControlPlane, Depends(allow("alerts.read"))]
Which = Annotated[int, Path(ge=1, le=MAX_INT, description="Its number.")]


class AlertQuery(Body):
    """Which alerts are meant."""

    all: bool = Field(default=False, description="Not only the open ones.")
    kind: Text | None = Field(default=None, description="Of this kind.", examples=["job_failed"])
    cursor: CursorText = None
    limit: Limit = 100


@router.get("", operation_id="alerts_list", summary="List alerts")
async def list_alerts(control: Reads, query: Annotated[AlertQuery, Query()]) -> Page[AlertRecord]:
    """The open alerts, or all of them, those seen last first."""
    place = decode_cursor("alerts", query.cursor, datetime, int)
    before = (place[0], place[1]) if place else None
    found = await control.list_alerts(all=query.all, kind=query.kind, before=before, limit=query.limit)
    items, full = list(found), len(found) == query.limit
    return Page(items=items, next=encode_cursor("alerts", items[-1].last_seen_at, items[-1].id) if full else None)


@router.get("/{id}", operation_id="alerts_get", summary="Show an alert", responses=problems(404))
async def get_alert(control: Reads, id: Which) -> AlertRecord:
    """One alert."""
    return await control.get_alert(id)


@router.post("/{id}/acknowledge", operation_id="alerts_acknowledge", summary="Acknowledge an alert", responses=problems(404, 409))
async def acknowledge(
    control: Annotated[ControlPlane, Depends(allow("alerts.change"))],
    id: Which,
    body: Annotated[NoteBody | None, FromBody()] = None,
) -> AlertRecord:
    """Says that somebody knows of it: it is listed no more, and still counted. When it is over and comes back, it opens again."""
    return await control.acknowledge_alert(id, note=body.note if body else None)
