"""What operators do to jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn

SQL = queries.load("jobs_change")


@dataclass(frozen=True, slots=True)
class Edit:
    """What a job's payload was, until somebody changed it after `attempt` attempts."""

    attempt: int
    payload: dict[str, Any]
    edited_at: datetime
    edited_by: dict[str, Any]


class StoredPayload(NamedTuple):
    """A job's payload as it is stored, with its secrets, and what it would be with some changes."""

    task: str
    owner: str | None
    schedule_id: UUID | None
    text: str
    changed: str


async def wait_briefly(conn: AsyncConn) -> None:
    """Lets the statements of this transaction give up on locks that somebody else holds."""
    await conn.execute(SQL["jobs_change_wait_briefly"])


async def wait_a_moment(conn: AsyncConn) -> None:
    """The same, somewhat later: for a change that nobody stands in line behind."""
    await conn.execute(SQL["jobs_change_wait_a_moment"])


async def look_briefly(conn: AsyncConn) -> None:
    """Lets the statements of this transaction go by index, whatever the statistics say, and give up rather than take for ever."""
    await conn.execute(SQL["jobs_change_look_briefly"])


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


async def check_payload(conn: AsyncConn, task: str, schema: str, payload: str) -> None:
    """Refuse a payload by the rules of the door for SQL: a secret in clear, above all."""
    await conn.execute(SQL["jobs_change_check_payload"], {"task": task, "schema": schema, "payload": payload})


async def is_new(conn: AsyncConn, id: UUID) -> bool:
    """Whether a job was created in the transaction that is open here."""
    return await (await conn.execute(SQL["jobs_change_is_new"], {"id": id})).fetchone() == (True,)


async def read_payload(conn: AsyncConn, id: UUID, *, changes: str) -> StoredPayload | None:
    """Return what a job was enqueued with as it is stored, and with these changes; None where there is no such job."""
    row = await (await conn.execute(SQL["jobs_change_read_payload"], {"id": id, "changes": changes})).fetchone()
    return None if row is None else StoredPayload(*row)


async def edit(conn: AsyncConn, id: UUID, *, payload: str, editor: str, expected: str | None) -> str | None:
    """Retries a job with another payload; gives the state it was in, as `retry` does, or that it is of a recurring row."""
    values = {"id": id, "payload": payload, "editor": editor, "expected": expected}
    row = await (await conn.execute(SQL["jobs_change_edit"], values)).fetchone()
    assert row is not None
    return row[0]  # type: ignore[no-any-return]


async def edits(conn: AsyncConn, id: UUID, *, limit: int) -> list[Edit]:
    """What was changed about a job, the newest first."""
    async with conn.cursor(row_factory=class_row(Edit)) as cursor:
        await cursor.execute(SQL["jobs_change_edits"], {"id": id, "limit": limit})
        return await cursor.fetchall()


async def lock(conn: AsyncConn, id: UUID) -> str | None:
    """The state of a live job, which is then locked; None where it is not live."""
    row = await (await conn.execute(SQL["jobs_change_lock"], {"id": id})).fetchone()
    return None if row is None else row[0]


async def reschedule(conn: AsyncConn, id: UUID, run_at: datetime) -> None:
    """Lets a job that is locked and does not run have another time."""
    await conn.execute(SQL["jobs_change_unhold"], {"id": id})
    await conn.execute(SQL["jobs_change_reschedule"], {"id": id, "run_at": run_at})
