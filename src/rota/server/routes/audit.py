"""`/api/admin/audit`: who has changed what."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from rota.control.plane import ControlPlane
from rota.server.fields import Text
from rota.server.guard import allow
from rota.server.paging import CursorText, Limit, Page, decode_cursor, encode_cursor
from rota.store.audit import AuditRecord

router = APIRouter(prefix="/api/admin/audit", tags=["audit"])


@router.get("")
async def list_audit(
    control: Annotated[ControlPlane, Depends(allow("audit.read"))],
    actor: Annotated[Text | None, Query(description="Only what this one did, by address.")] = None,
    operation: Annotated[Text | None, Query(description="Only this, as `users.create`.")] = None,
    target: Annotated[Text | None, Query(description="Only what was done to this.")] = None,
    cursor: CursorText = None,
    limit: Limit = 50,
) -> Page[AuditRecord]:
    """The newest changes for which everything that is given holds."""
    place = decode_cursor("audit", cursor, int)
    page = await control.list_audit(
        actor=actor, operation=operation, target=target, before=place[0] if place else None, limit=limit
    )
    return Page(items=page.items, next=None if page.next is None else encode_cursor("audit", page.next))
