"""Another time for a job that has not begun."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from rota.control.service import change_one, get_job, no_job
from rota.db.connection import AsyncConn
from rota.errors import InvalidTransition, UsageError
from rota.store import jobs_change, jobs_read
from rota.store.jobs_read import JobSummary

EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


async def reschedule_job(conn: AsyncConn, id: UUID, run_at: datetime) -> JobSummary:
    """Lets a job that waits in a queue, or for its parents, run at another time, earlier or later."""
    if run_at.tzinfo is None:
        raise UsageError(f"run_at={run_at.isoformat()} has no time zone: give an aware datetime, e.g. in UTC")
    if not EARLIEST <= run_at <= LATEST:
        raise UsageError(f"run_at={run_at.isoformat()} is out of range: in the years {EARLIEST.year} to {LATEST.year - 1}")

    async def move(conn: AsyncConn, ids: list[UUID]) -> dict[UUID, str | None]:
        states = {id: await jobs_change.lock(conn, id) for id in ids}
        for id, state in states.items():
            if state not in (None, "running"):
                await jobs_change.reschedule(conn, id, run_at)
        return states

    match await change_one(conn, id, move):
        case None:
            ended = (await get_job(conn, id)).job  # NotFound if there is none at all
            raise InvalidTransition(f"job {id} is {ended.state} and has no time to come: `rota jobs retry {id}` runs it again")
        case "running":
            raise InvalidTransition(f"job {id} is running: its time has come; wait for its end, or `rota jobs cancel {id}` first")
    for job in await jobs_read.summaries(conn, [id]):
        return job
    raise no_job(id)
