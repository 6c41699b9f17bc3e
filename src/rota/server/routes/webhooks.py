"""`/api/admin/webhooks`: who is told of alerts, and what became of the messages."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import BaseModel, Field

from rota.control.plane import ControlPlane
from rota.control.webhooks import Added
from rota.server.etag import TaggedRoute, expected_version, tag
from rota.server.fields import MAX_INT, Body, Number
from rota.server.guard import allow
from rota.server.paging import CursorText, Limit, Page, decode_id, encode_cursor
from rota.server.schemas import WebhookBody, problems
from rota.store.webhooks import DeliveryRecord, WebhookRecord

router = APIRouter(prefix="/api/admin/webhooks", tags=["webhooks"], route_class=TaggedRoute)

Reads = Annotated[ControlPlane, Depends(allow("webhooks.read"))]
Changes = Annotated[ControlPlane, Depends(allow("webhooks.change"))]
Which = Annotated[int, Path(ge=1, le=MAX_INT, description="Its number.")]
Expected = Annotated[str | None, Depends(expected_version)]


class DeliveryQuery(Body):
    """Which messages are meant."""

    webhook: Number | None = Field(default=None, description="To this webhook.")
    cursor: CursorText = None
    limit: Limit = 50


class SentTest(BaseModel):
    """A message that is on its way."""

    delivery_id: UUID


@router.get("", operation_id="webhooks_list", summary="List webhooks")
async def list_webhooks(control: Reads) -> Page[WebhookRecord]:
    """Who is told of alerts. Of each URL the server only is shown: with many services the rest of it is a secret, too."""
    return Page(items=list(await control.list_webhooks()), next=None)


@router.post("", operation_id="webhooks_add", summary="Add a webhook", status_code=201)
async def add(control: Changes, body: WebhookBody) -> Added:
    """Makes a webhook for alerts of some kinds, or of all. Its secret, with which messages are signed, is shown this once."""
    return await control.add_webhook(body.url, kinds=body.kinds)


@router.get("/deliveries", operation_id="webhooks_deliveries", summary="List messages to webhooks")
async def list_deliveries(control: Reads, query: Annotated[DeliveryQuery, Query()]) -> Page[DeliveryRecord]:
    """The newest messages to webhooks, and what became of the last try of each."""
    before = decode_id("deliveries", query.cursor)
    found = await control.list_deliveries(webhook=query.webhook, before=before, limit=query.limit)
    items, full = list(found), len(found) == query.limit
    return Page(items=items, next=encode_cursor("deliveries", items[-1].id) if full else None)


@router.get("/{id}", operation_id="webhooks_get", summary="Show a webhook", responses=problems(404))
async def get_webhook(control: Reads, id: Which, response: Response) -> WebhookRecord:
    """One webhook, and what became of the last message to it."""
    webhook = await control.get_webhook(id)
    tag(response, webhook)
    return webhook


@router.post("/{id}/enable", operation_id="webhooks_enable", summary="Enable a webhook", responses=problems(404, 412))
async def enable(control: Changes, id: Which, expect: Expected, response: Response) -> WebhookRecord:
    """Lets it be told again."""
    webhook = await control.set_webhook_enabled(id, True, expect=expect)
    tag(response, webhook)
    return webhook


@router.post("/{id}/disable", operation_id="webhooks_disable", summary="Disable a webhook", responses=problems(404, 412))
async def disable(control: Changes, id: Which, expect: Expected, response: Response) -> WebhookRecord:
    """Lets it be told no more; what waits to be sent waits no longer."""
    webhook = await control.set_webhook_enabled(id, False, expect=expect)
    tag(response, webhook)
    return webhook


@router.post("/{id}/test", operation_id="webhooks_test", summary="Test a webhook", status_code=202, responses=problems(404))
async def test(control: Changes, id: Which) -> SentTest:
    """Enqueues a message that says nothing, to see whether it arrives: `webhooks_deliveries` tells."""
    return SentTest(delivery_id=await control.test_webhook(id))


@router.delete("/{id}", operation_id="webhooks_remove", summary="Remove a webhook", status_code=204, responses=problems(404, 412))
async def remove(control: Changes, id: Which, expect: Expected) -> None:
    """Removes a webhook, with the record of what was sent to it."""
    await control.remove_webhook(id, expect=expect)
