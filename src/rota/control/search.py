"""Finds jobs by a filter, in bounded steps, however many jobs there are and however few of them match."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic
from uuid import UUID

from rota.db.connection import AsyncConn
from rota.model.filters import FINISHED_STATES, LIVE_STATES, JobFilter
from rota.store import jobs_read
from rota.store.jobs_read import Scan

SCAN_WINDOW = 20_000  # jobs looked through by one statement: tens of milliseconds
SCAN_BUDGET = 100_000  # jobs looked through for one answer; beyond it the answer says how far it got
PAYLOAD_WINDOW = 200  # at first, of jobs whose payloads are looked into: one may be as long as a megabyte
PAYLOAD_STEP_S = 0.05  # what a statement that looks into payloads is to take; the next one looks at so many as fit
PATIENCE_S = 0.15  # for payloads; after so long the answer says how far it got


async def find(conn: AsyncConn, filter: JobFilter, *, before: UUID | None, limit: int) -> tuple[list[UUID], UUID | None]:
    """The first `limit` ids that match, newest first, and the id below which there may be more, if there may be."""
    found: set[UUID] = set()
    floors = []
    # Live ones first: a job that finishes in between is then found twice rather than not at all.
    for scan, states in ((jobs_read.scan_live, LIVE_STATES), (jobs_read.scan_finished, FINISHED_STATES)):
        if not filter.states or any(state in states for state in filter.states):
            ids, floor = await _walk(scan, conn, filter, before, limit)
            found.update(ids)
            floors.append(floor)
    # Below the highest floor one of the two walks has not been.
    reached = max((floor for floor in floors if floor is not None), default=None)
    ids = sorted((id for id in found if reached is None or id >= reached), reverse=True)
    return (ids[:limit], ids[limit - 1]) if len(ids) > limit else (ids, reached)


async def _walk(
    scan: Callable[..., Awaitable[Scan]], conn: AsyncConn, filter: JobFilter, before: UUID | None, limit: int
) -> tuple[list[UUID], UUID | None]:
    ids: list[UUID] = []
    window, left, end = (PAYLOAD_WINDOW if filter.payload else SCAN_WINDOW), SCAN_BUDGET, monotonic() + PATIENCE_S
    while left > 0:
        wanted, begun = limit - len(ids), monotonic()
        step = await scan(conn, filter, before=before, window=window, limit=wanted)
        ids += step.ids
        if len(step.ids) == wanted:
            return ids, ids[-1]
        if step.scanned < window:
            return ids, None
        before, left = step.reached, left - step.scanned
        if filter.payload:
            if monotonic() > end:
                break
            fits = PAYLOAD_STEP_S / max(monotonic() - begun, 0.001)
            window = min(max(int(window * min(fits, 10)), 20), SCAN_WINDOW)
    return ids, before
