"""Requests that may be repeated, and what they were answered. One function per SQL block, connection first."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta

from rota.db import queries
from rota.db.connection import AsyncConn

SQL = queries.load("requests")


@dataclass(frozen=True, slots=True)
class RequestKey:
    """By what a repetition is known: who asks, for what, and the key that they gave."""

    owner: str
    operation: str
    key: str


async def begin(conn: AsyncConn, request: RequestKey, *, body_hash: bytes, kept_for: timedelta) -> bool:
    """Takes a key, for as long as the transaction lasts and then so long; False if it was taken before."""
    parameters = {**asdict(request), "body_hash": body_hash, "kept_for": kept_for}
    return await (await conn.execute(SQL["requests_begin"], parameters)).fetchone() is not None


async def get(conn: AsyncConn, request: RequestKey) -> tuple[bytes, str] | None:
    """The hash of the body that a key was used with, and the answer."""
    return await (await conn.execute(SQL["requests_get"], asdict(request))).fetchone()


async def answer(conn: AsyncConn, request: RequestKey, text: str) -> None:
    """Keeps the answer to a request that has been begun."""
    await conn.execute(SQL["requests_answer"], {**asdict(request), "answer": text})
