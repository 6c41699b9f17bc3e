"""What became of the last instants of schedules: the strip that a list of them shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from rota.db.connection import AsyncConn
from rota.errors import UsageError
from rota.store import calendar as store
from rota.store.calendar import Occurrence

MAX_FIRINGS = 30
MAX_SCHEDULES = 100
MISSED = ("outage", "misfire")


@dataclass(frozen=True, slots=True)
class FiringLine:
    """What became of an instant of a schedule, or of a row of them that were passed over."""

    at: datetime
    until: datetime | None
    instants: int  # from `at` to `until`
    outcome: str  # completed, failed, canceled, running, queued, waiting, skipped, missed; unknown: its history is gone
    reason: str | None  # of what was skipped or missed
    late: list[str]  # deadlines that were missed: start, finish
    job_id: UUID | None
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class ScheduleFirings:
    """The last firings of a schedule, the oldest first; recurring rows keep no record of theirs."""

    id: UUID
    firings: list[FiringLine]


async def list_firings(conn: AsyncConn, ids: Sequence[UUID], *, limit: int = MAX_FIRINGS) -> list[ScheduleFirings]:
    """What became of the last instants of these schedules; those that are not there are left out."""
    if not 1 <= limit <= MAX_FIRINGS:
        raise UsageError(f"limit={limit!r} is out of range: from 1 to {MAX_FIRINGS}")
    if len(ids) > MAX_SCHEDULES:
        raise UsageError(f"{len(ids)} schedules are asked for: at most {MAX_SCHEDULES} at a time")
    made: dict[UUID, list[FiringLine]] = {}
    for each in await store.firings(conn, list(dict.fromkeys(ids)), limit=limit):
        found = made.setdefault(each.id, [])
        if each.instant is not None:
            found.append(_line(each, each.instant))
    return [ScheduleFirings(id, found) for id, found in made.items()]


def _line(each: Occurrence, at: datetime) -> FiringLine:
    outcome = each.state or "unknown"
    if each.outcome == "skipped":
        outcome = "missed" if each.reason in MISSED else "skipped"
    instants = each.instants or (1 if each.until is None else 2)  # not counted: at least its two ends
    return FiringLine(
        at, each.until, instants, outcome, each.reason, each.missed or [], each.job_id, each.last_run_at, each.finished_at
    )
