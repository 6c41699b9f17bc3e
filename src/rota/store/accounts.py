"""Accounts, links and sessions. One function per SQL block, connection first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn

SQL = queries.load("accounts")

Purpose = Literal["sign_in", "bootstrap"]


@dataclass(frozen=True, slots=True)
class Account:
    """Somebody who may sign in."""

    id: UUID
    email: str
    role: str
    created_at: datetime
    signed_in_at: datetime | None
    disabled_at: datetime | None


@dataclass(frozen=True, slots=True)
class Holder:
    """Whom a credential stands for: the session or token, and the account behind it."""

    credential: UUID | int
    id: UUID
    email: str
    role: str
    scopes: list[str] | None


async def create(conn: AsyncConn, *, email: str, role: str) -> Account | None:
    """Makes an account; None if the address has one."""
    return await _account(conn, "create", {"email": email, "role": role})


async def get(conn: AsyncConn, id: UUID) -> Account | None:
    """One account."""
    return await _account(conn, "get", {"id": id})


async def find(conn: AsyncConn, *, email: str) -> Account | None:
    """The account of an address."""
    return await _account(conn, "find", {"email": email})


async def read_all(conn: AsyncConn, *, after: str, limit: int) -> list[Account]:
    """Accounts by address, from the one after `after` on."""
    async with conn.cursor(row_factory=class_row(Account)) as cursor:
        await cursor.execute(SQL["accounts_list"], {"after": after, "limit": limit})
        return await cursor.fetchall()


async def lock_admins(conn: AsyncConn) -> list[UUID]:
    """The admins, held until the transaction ends."""
    return [id for (id,) in await (await conn.execute(SQL["accounts_lock_admins"])).fetchall()]


async def first_admin(conn: AsyncConn) -> Account | None:
    """The admin who has been there longest."""
    return await _account(conn, "first_admin", {})


async def set_role(conn: AsyncConn, id: UUID, *, role: str) -> Account | None:
    """Gives an account another role; None if there is no such account."""
    return await _account(conn, "set_role", {"id": id, "role": role})


async def set_disabled(conn: AsyncConn, id: UUID, *, disabled: bool) -> Account | None:
    """Disables an account or lets it be used again; None if there is no such account."""
    return await _account(conn, "set_disabled", {"id": id, "disabled": disabled})


async def end_sessions(conn: AsyncConn, id: UUID) -> int:
    """Ends all that an account has open; how many."""
    return (await conn.execute(SQL["accounts_end_sessions"], {"id": id})).rowcount


async def request_link(
    conn: AsyncConn, *, email: str, peer: str, hash: bytes, minutes: int, per_hour: int, may_sign_up: bool
) -> bool:
    """Stores a link that an address asks for; whether it is to be mailed."""
    parameters = {
        "email": email,
        "peer": peer,
        "hash": hash,
        "minutes": minutes,
        "per_hour": per_hour,
        "may_sign_up": may_sign_up,
    }
    row = await (await conn.execute(SQL["accounts_request_link"], parameters)).fetchone()
    return bool(row and row[0])


async def add_link(conn: AsyncConn, *, hash: bytes, email: str, purpose: Purpose, minutes: int) -> bool:
    """Stores a link without limits; False for a bootstrap when there is an admin."""
    parameters = {"hash": hash, "email": email, "purpose": purpose, "minutes": minutes}
    return (await conn.execute(SQL["accounts_add_link"], parameters)).rowcount == 1


async def claim_link(conn: AsyncConn, *, hash: bytes) -> Account | None:
    """Uses a link; the account that it signs in, None if it is good for none any more."""
    return await _account(conn, "claim_link", {"hash": hash})


async def open_session(conn: AsyncConn, *, id: UUID, hash: bytes | None, account: UUID, hours: int) -> tuple[datetime, datetime]:
    """Stores that somebody is signed in; from when to when."""
    parameters = {"id": id, "hash": hash, "account": account, "hours": hours}
    row = await (await conn.execute(SQL["accounts_open_session"], parameters)).fetchone()
    assert row is not None
    return row[0], row[1]


async def note_source(conn: AsyncConn, account: UUID, *, source: str, kept: int) -> None:
    """Remember that an account has signed in from a network; forget all but the last ones."""
    await conn.execute(SQL["accounts_note_source"], {"account": account, "source": source, "kept": kept})


async def by_cookies(conn: AsyncConn, hashes: Sequence[bytes]) -> dict[bytes, Holder]:
    """Whose sessions these are."""
    return await _holders(conn, SQL["accounts_by_cookies"], {"hashes": list(hashes)})


async def by_jwts(conn: AsyncConn, ids: Sequence[UUID]) -> dict[UUID, Holder]:
    """Whose JWTs these are."""
    return await _holders(conn, SQL["accounts_by_jwts"], {"ids": list(ids)})


async def end_session(conn: AsyncConn, id: UUID) -> None:
    """Ends a session, or what a JWT stands for."""
    await conn.execute(SQL["accounts_end_session"], {"id": id})


async def _account(conn: AsyncConn, block: str, parameters: Mapping[str, Any]) -> Account | None:
    async with conn.cursor(row_factory=class_row(Account)) as cursor:
        await cursor.execute(SQL[f"accounts_{block}"], parameters)
        return await cursor.fetchone()


async def _holders(conn: AsyncConn, statement: Any, parameters: Mapping[str, Any]) -> dict[Any, Holder]:
    """Whom credentials stand for, by what each was looked up by: a statement's first column."""
    found = await (await conn.execute(statement, parameters)).fetchall()
    return {asked: Holder(*rest) for asked, *rest in found}
