"""Workers: their registration, signs of life and wishes to be woken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from uuid import UUID

from rota.db import queries
from rota.db.connection import AsyncConn, Conn

SQL = queries.load("workers")


def register(
    conn: Conn,
    *,
    id: UUID,
    host: str,
    pid: int,
    version: str,
    app: str,
    queues: Sequence[str],
    versions: Mapping[str, str],
    slots: int,
) -> None:
    """Makes a worker known; again is harmless."""
    parameters: dict[str, Any] = {"id": id, "host": host, "pid": pid, "version": version, "app": app, "slots": slots}
    conn.execute(
        SQL["workers_register"], {**parameters, "queues": list(queues), "tasks": list(versions), "schemas": list(versions.values())}
    )


def beat(conn: Conn, *, id: UUID, pooled: bool) -> Literal["alive", "called dead"] | None:
    """Says that the worker lives, in this session, and what was thought of it so far; None if it is not registered."""
    row = conn.execute(SQL["workers_beat"], {"id": id, "pooled": pooled}).fetchone()
    return None if row is None else "called dead" if row[0] else "alive"


def stop(conn: Conn, *, id: UUID, reason: str) -> None:
    """Writes down that a worker has ended."""
    conn.execute(SQL["workers_stop"], {"id": id, "reason": reason})


async def want_wake(conn: AsyncConn, *, id: UUID, wants_wake: bool) -> None:
    """Says whether an enqueue should NOTIFY for this worker's sake."""
    await conn.execute(SQL["workers_want_wake"], {"id": id, "wants_wake": wants_wake})


async def missing(conn: AsyncConn, *, restart_grace_s: float) -> set[tuple[UUID, str]]:
    """Live workers whose session is gone, with that session."""
    rows = await (await conn.execute(SQL["workers_missing"], {"restart_grace_s": restart_grace_s})).fetchall()
    return {(id, session) for id, session in rows}


async def stopped_holding(conn: AsyncConn) -> list[UUID]:
    """Workers that have ended and still hold jobs."""
    return [row[0] for row in await (await conn.execute(SQL["workers_stopped_holding"])).fetchall()]


async def stop_dead(conn: AsyncConn, *, id: UUID) -> bool:
    """Marks a worker as dead, once its jobs are rescued, and tells of it; False if it was marked already."""
    return (await conn.execute(SQL["workers_stop_dead"], {"id": id})).rowcount == 1


async def live_apps(conn: AsyncConn) -> list[str]:
    """The applications that have a live worker."""
    return [app for (app,) in await (await conn.execute(SQL["workers_live_apps"])).fetchall()]


async def forget(conn: AsyncConn) -> None:
    """Removes workers that ended more than a day ago."""
    await conn.execute(SQL["workers_forget"])
