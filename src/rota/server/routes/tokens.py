"""`/api/admin/tokens` for tokens of everybody, and `/auth/tokens` for one's own."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import ConfigDict, Field

from rota.control.api_tokens import MAX_DAYS, MAX_NAME, SCOPES, NewToken, TokenPage
from rota.control.plane import ControlPlane
from rota.server.fields import Body, Number, Text, Who
from rota.server.guard import Principal, allow, signed_in
from rota.server.paging import CursorText, Limit, Page, decode_cursor, encode_cursor
from rota.server.state import state_of
from rota.store.api_tokens import TokenRecord

router = APIRouter(tags=["tokens"])

Me = Annotated[Principal, Depends(signed_in())]
Reader = Annotated[ControlPlane, Depends(allow("users.read"))]
Changer = Annotated[ControlPlane, Depends(allow("tokens.change"))]
Scopes = Annotated[
    list[Text], Field(min_length=1, max_length=len(SCOPES), description=f"What it is for: some of {', '.join(SCOPES)}.")
]
Days = Annotated[
    int, Field(ge=1, le=MAX_DAYS, strict=True, description="How long it is good for; without it, until it is revoked.")
]


class OwnToken(Body):
    """A token that is to be made."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "laptop", "scopes": ["own.read"], "days": 30}]})

    name: Annotated[Text, Field(max_length=MAX_NAME)]
    scopes: Scopes | None = None
    days: Days | None = None


class TokenFor(OwnToken):
    """A token that is to be made of an account."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"owner": "ada@example.org", "name": "deploy", "scopes": ["jobs.read"]}]}
    )

    owner: Who


@router.get("/auth/tokens")
async def list_own_tokens(request: Request, who: Me, cursor: CursorText = None, limit: Limit = 50) -> Page[TokenRecord]:
    """The newest tokens of who asks, those that are over too."""
    return _page(await _control(request, who).list_own_tokens(before=_before(cursor), limit=limit))


@router.post("/auth/tokens", status_code=201)
async def create_own_token(request: Request, who: Me, body: OwnToken) -> NewToken:
    """Creates a token of the caller's account. The token is shown only in this answer.

    Created with a token, it can do no more than that token, and expires and is revoked with it.
    """
    return await _control(request, who).create_own_token(body.name, scopes=body.scopes, days=body.days)


@router.delete("/auth/tokens/{id}")
async def revoke_own_token(request: Request, who: Me, id: Number) -> TokenRecord:
    """Revokes a token of the caller's account, and all that were created with it; another account's is not found."""
    return await _control(request, who).revoke_own_token(id)


@router.get("/api/admin/tokens")
async def list_tokens(control: Reader, owner: Who | None = None, cursor: CursorText = None, limit: Limit = 50) -> Page[TokenRecord]:
    """The newest tokens, of one account or of all; those that are over too."""
    return _page(await control.list_tokens(owner=owner, before=_before(cursor), limit=limit))


@router.post("/api/admin/tokens", status_code=201)
async def create_token(control: Changer, body: TokenFor) -> NewToken:
    """Creates a token of an account. The token is shown only in this answer. A caller who uses a token names its own account."""
    return await control.create_token(body.owner, body.name, scopes=body.scopes, days=body.days)


@router.delete("/api/admin/tokens/{id}")
async def revoke_token(control: Changer, id: Number) -> TokenRecord:
    """Revokes a token, and all that were created with it."""
    return await control.revoke_token(id)


def _control(request: Request, who: Principal) -> ControlPlane:
    return state_of(request).control.acting_as(who.actor)


def _before(cursor: str | None) -> int | None:
    place = decode_cursor("tokens", cursor, int)
    return place[0] if place else None


def _page(page: TokenPage) -> Page[TokenRecord]:
    return Page(items=page.items, next=None if page.next is None else encode_cursor("tokens", page.next))
