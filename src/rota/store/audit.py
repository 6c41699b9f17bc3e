"""Who has changed what. One function per SQL block, connection first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import sql
from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn

SQL = queries.load("audit")


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One change: who made it, how they had signed in, what it was, and of what."""

    id: int
    at: datetime
    account_id: UUID | None
    actor: str
    role: str
    via: str | None
    operation: str
    target: str
    detail: dict[str, Any]


async def record(conn: AsyncConn, rows: str) -> None:
    """Write rows, given as a JSON array."""
    await conn.execute(SQL["audit_record"], {"rows": rows})


async def read_all(
    conn: AsyncConn, *, actor: str | None, operation: str | None, target: str | None, before: int | None, limit: int
) -> list[AuditRecord]:
    """The newest changes for which everything that is given holds."""
    given = {"actor": actor, "operation": operation, "target": target}
    conditions = [sql.SQL("{} = {}").format(sql.Identifier(name), value) for name, value in given.items() if value is not None]
    if before is not None:
        conditions.append(sql.SQL("id < {}").format(before))
    statement = sql.SQL(
        "SELECT id, at, account_id, actor, role, via, operation, target, detail FROM rota.audit {} ORDER BY id DESC LIMIT {}"
    ).format(sql.SQL("WHERE ") + sql.SQL(" AND ").join(conditions) if conditions else sql.SQL(""), limit)
    async with conn.cursor(row_factory=class_row(AuditRecord)) as cursor:
        await cursor.execute(statement)
        return await cursor.fetchall()


async def prune(conn: AsyncConn, *, days: int, limit: int) -> int:
    """Removes some of what is so many days old; how many."""
    return (await conn.execute(SQL["audit_prune"], {"days": days, "limit": limit})).rowcount
