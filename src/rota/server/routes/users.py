"""`/api/admin/users`: accounts and their roles."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response
from pydantic import ConfigDict

from rota.control.accounts import AccountRole
from rota.control.plane import ControlPlane
from rota.server.fields import Body, Email, Who
from rota.server.guard import allow
from rota.server.paging import CursorText, Limit, Page, decode_cursor, encode_cursor
from rota.store.accounts import Account

router = APIRouter(prefix="/api/admin/users", tags=["users"])

Reader = Annotated[ControlPlane, Depends(allow("users.read"))]
Changer = Annotated[ControlPlane, Depends(allow("users.change"))]


class NewUser(Body):
    """An account that is to be made."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"email": "ada@example.org", "role": "operator"}]})

    email: Email
    role: AccountRole = "user"


class UserChange(Body):
    """What is to be another way with an account."""

    role: AccountRole


@router.get("")
async def list_users(control: Reader, cursor: CursorText = None, limit: Limit = 50) -> Page[Account]:
    """The accounts, by address."""
    place = decode_cursor("users", cursor, str)
    page = await control.list_users(after=place[0] if place else "", limit=limit)
    return Page(items=page.items, next=None if page.next is None else encode_cursor("users", page.next))


@router.post("", status_code=201)
async def create_user(control: Changer, body: NewUser, response: Response) -> Account:
    """Makes an account; 409 if the address has one."""
    made = await control.create_user(body.email, role=body.role)
    response.headers["location"] = f"/api/admin/users/{made.id}"
    return made


@router.get("/{who}")
async def get_user(control: Reader, who: Who) -> Account:
    """One account."""
    return await control.get_user(who)


@router.patch("/{who}")
async def change_user(control: Changer, who: Who, body: UserChange) -> Account:
    """Gives an account another role, which holds at once; 409 for the last admin."""
    return await control.set_role(who, body.role)


@router.post("/{who}/disable")
async def disable_user(control: Changer, who: Who) -> Account:
    """Ends all that an account has open, and lets it do nothing more; 409 for the last admin."""
    return await control.disable_user(who)


@router.post("/{who}/enable")
async def enable_user(control: Changer, who: Who) -> Account:
    """Lets an account sign in again; its tokens are good again too."""
    return await control.enable_user(who)
