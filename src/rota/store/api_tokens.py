"""Tokens of programs. One function per SQL block, connection first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.store.accounts import Holder

SQL = queries.load("api_tokens")


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token as it is shown: without the token."""

    id: int
    name: str
    hint: str
    account_id: UUID
    email: str
    parent_id: int | None  # the token that created this one, which ends with it
    scopes: list[str] | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class Parent:
    """A valid token that is about to create another one."""

    account_id: UUID
    scopes: list[str] | None
    expires_at: datetime | None
    outlived: bool  # by a token that is good for as long as the caller wants


async def add(
    conn: AsyncConn,
    *,
    hash: bytes,
    hint: str,
    account: UUID,
    parent: int | None,
    name: str,
    scopes: Sequence[str] | None,
    created_by: str,
    good_for: timedelta | None,
) -> int | None:
    """Stores a token; its number, None if there is no such account."""
    parameters = {
        "hash": hash,
        "hint": hint,
        "account": account,
        "parent": parent,
        "name": name,
        "scopes": None if scopes is None else list(scopes),
        "created_by": created_by,
        "good_for": good_for,
    }
    row = await (await conn.execute(SQL["api_tokens_add"], parameters)).fetchone()
    return row[0] if row else None


async def read_all(conn: AsyncConn, *, account: UUID | None, before: int | None, limit: int) -> list[TokenRecord]:
    """The newest tokens, of one account or of all."""
    async with conn.cursor(row_factory=class_row(TokenRecord)) as cursor:
        await cursor.execute(SQL["api_tokens_list"], {"account": account, "before": before, "limit": limit})
        return await cursor.fetchall()


async def get(conn: AsyncConn, id: int, *, account: UUID | None = None) -> TokenRecord | None:
    """One token, if it is that account's."""
    async with conn.cursor(row_factory=class_row(TokenRecord)) as cursor:
        await cursor.execute(SQL["api_tokens_get"], {"id": id, "account": account})
        return await cursor.fetchone()


async def lock_family(conn: AsyncConn, id: int, *, account: UUID | None = None) -> bool:
    """Lock a token and those created with it; return whether it exists and is that account's."""
    return (await conn.execute(SQL["api_tokens_lock_family"], {"id": id, "account": account})).rowcount == 1


async def get_parent(conn: AsyncConn, id: int, *, good_for: timedelta | None) -> Parent | None:
    """Return a token as a parent, None if it is not valid any more."""
    async with conn.cursor(row_factory=class_row(Parent)) as cursor:
        await cursor.execute(SQL["api_tokens_parent"], {"id": id, "good_for": good_for})
        return await cursor.fetchone()


async def revoke(conn: AsyncConn, id: int, *, account: UUID | None = None) -> list[int]:
    """Revoke a token and those created with it; return which were valid until now."""
    found = await (await conn.execute(SQL["api_tokens_revoke"], {"id": id, "account": account})).fetchall()
    return sorted(each for (each,) in found)


async def use_all(conn: AsyncConn, hashes: Sequence[bytes]) -> dict[bytes, Holder]:
    """Whom tokens stand for, and that they were used."""
    found = await (await conn.execute(SQL["api_tokens_find"], {"hashes": list(hashes)})).fetchall()
    if unnoticed := [credential for _, credential, *_, long_ago in found if long_ago]:
        await conn.execute(SQL["api_tokens_use"], {"ids": unnoticed})
    return {hash: Holder(*rest) for hash, *rest, _ in found}
