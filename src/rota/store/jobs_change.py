"""What operators do to jobs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rota.db import queries
from rota.db.connection import AsyncConn

SQL = queries.load("jobs_change")


async def wait_briefly(conn: AsyncConn) -> None:
    """Lets the statements of this transaction give up on locks that somebody else holds."""
    await conn.execute(SQL["jobs_change_wait_briefly"])


async def retry(conn: AsyncConn, ids: list[UUID]) -> dict[UUID, str | None]:
    """Puts failed and canceled jobs back in the queue; gives the state each was in, None where there is no such job.

    Where it is superseded nothing was done: its recurring row has another job by now, or is disabled.
    """
    return dict(await (await conn.execute(SQL["jobs_change_retry"], {"ids": ids})).fetchall())


async def superseded_by(conn: AsyncConn, id: UUID) -> tuple[str, bool, UUID | None] | None:
    """The row that a finished job belongs to: its name, whether it is enabled, and the job that it has now."""
    return await (await conn.execute(SQL["jobs_change_superseded_by"], {"id": id})).fetchone()


async def cancel(conn: AsyncConn, ids: list[UUID], *, reason: str | None) -> dict[UUID, str | None]:
    """Ends jobs that do not run, asks running ones to stop; gives the state each was in, None where it is not live."""
    cursor = await conn.execute(SQL["jobs_change_cancel"], {"ids": ids, "reason": reason})
    return dict(await cursor.fetchall())


async def enqueue(conn: AsyncConn, **values: Any) -> UUID:
    """Stores a job through the door for SQL, which knows the tasks of every worker; gives the job that then has its key."""
    row = await (await conn.execute(SQL["jobs_change_enqueue"], values)).fetchone()
    assert row is not None
    return row[0]  # type: ignore[no-any-return]


async def is_new(conn: AsyncConn, id: UUID) -> bool:
    """Whether a job was created in the transaction that is open here."""
    return await (await conn.execute(SQL["jobs_change_is_new"], {"id": id})).fetchone() == (True,)
