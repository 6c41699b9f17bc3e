"""Runs: listed, filtered and looked into, in bounded steps however many there are and however few match."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic
from typing import Protocol
from uuid import UUID

from rota.db.connection import AsyncConn
from rota.errors import NotFound, UsageError
from rota.model.capped import COUNT_CAP, Capped
from rota.model.filters import RunFilter
from rota.store import runs_read
from rota.store.runs_read import RunDetail, RunId, RunLine, Step

MAX_LIMIT = 1000
FIRST_WINDOW = 1_000  # runs looked through by the first statement; each one after it takes four times as many
LAST_WINDOW = 8_000  # about ten milliseconds
BUDGET = 100_000  # runs looked through for one answer; beyond it, or
PATIENCE_S = 0.08  # after so long, the answer says how far it got


@dataclass(frozen=True, slots=True)
class RunPage:
    """Some runs, newest first; `next` is where the following page begins, None when there is none.

    A page can be short, even empty, and still have a next one: the search for rare runs ends after so many others.
    """

    runs: list[RunLine]
    next: RunId | None


class Scan(Protocol):
    """A bounded step through runs of one kind."""

    async def __call__(self, conn: AsyncConn, filter: RunFilter, *, before: RunId | None, window: int, limit: int) -> Step:
        """Looks through at most `window` of them."""
        ...


async def list_runs(conn: AsyncConn, filter: RunFilter | None = None, *, before: RunId | None = None, limit: int = 50) -> RunPage:
    """The newest runs that match, or those that come after `before`: of the newest jobs first, of each the last attempt first."""
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"limit={limit!r} is out of range: from 1 to {MAX_LIMIT}")
    filter = filter or RunFilter()
    ids, reached = await _find(conn, filter, before, limit + 1, PATIENCE_S)
    if len(ids) > limit:
        ids, reached = ids[:limit], ids[limit - 1]
    runs = await runs_read.lines(conn, ids)
    # An open one may have ended between the search and the look.
    return RunPage([run for run in runs if not filter.statuses or run.status in filter.statuses], reached)


async def count_runs(conn: AsyncConn, filter: RunFilter, *, cap: int = COUNT_CAP) -> Capped:
    """How many runs match, as far as that can be known cheaply."""
    ids, reached = await _find(conn, filter, None, cap + 1, PATIENCE_S)
    return Capped(min(len(ids), cap), capped=reached is not None)


async def get_run(conn: AsyncConn, job: UUID, attempt: int | None = None) -> RunDetail:
    """One attempt at a job, by default the open or last one."""
    if attempt is None:
        attempt = await runs_read.last_attempt(conn, job)
    run = None if attempt is None else await runs_read.get(conn, RunId(job, attempt))
    if run is None:
        which = f"no run of job {job}" if attempt is None else f"no run {job}/{attempt}"
        raise NotFound(f"there is {which}: `rota runs list --job {job}` shows those there are; old history may have been pruned")
    return run


async def of_schedule(conn: AsyncConn, filter: RunFilter, schedule: str) -> RunFilter:
    """The filter narrowed to the runs of a schedule, which is named by its name or id, or `task/key` for a recurring row."""
    try:
        id: UUID | None = UUID(schedule)
    except ValueError:
        id = None
    found = await runs_read.find_schedule(conn, schedule, id)
    if found is None:
        raise NotFound(f"there is no schedule {schedule!r}: `rota schedules list` shows them")
    # The task bounds the search, unless one is asked for already.
    return replace(filter, schedule=found[0], task=filter.task or found[1])


async def _find(
    conn: AsyncConn, filter: RunFilter, before: RunId | None, limit: int, patience_s: float
) -> tuple[list[RunId], RunId | None]:
    found: set[RunId] = set()
    floors: list[RunId | None] = []
    deadline = monotonic() + patience_s
    # Open ones first: a run that ends in between is then found twice rather than not at all.
    kinds: list[tuple[Scan, bool]] = [
        (runs_read.scan_open, not filter.statuses or "running" in filter.statuses),
        (runs_read.scan, not filter.statuses or any(status != "running" for status in filter.statuses)),
    ]
    for scan, wanted in kinds:
        if wanted:
            ids, floor = await _walk(scan, conn, filter, before, limit, deadline)
            found.update(ids)
            floors.append(floor)
    # Below the highest floor one of the two walks has not been.
    reached = max((floor for floor in floors if floor is not None), default=None)
    ids = sorted((id for id in found if reached is None or id >= reached), reverse=True)
    return (ids[:limit], ids[limit - 1]) if len(ids) > limit else (ids, reached)


async def _walk(
    scan: Scan, conn: AsyncConn, filter: RunFilter, before: RunId | None, limit: int, deadline: float
) -> tuple[list[RunId], RunId | None]:
    ids: list[RunId] = []
    window, left = max(FIRST_WINDOW, limit), BUDGET
    while True:
        wanted = limit - len(ids)
        step = await scan(conn, filter, before=before, window=window, limit=wanted)
        ids += step.found
        if len(step.found) == wanted:
            return ids, ids[-1]
        if step.scanned < window:
            return ids, None
        before, left = step.reached, left - step.scanned
        if left <= 0 or monotonic() > deadline:
            return ids, before
        window = min(4 * window, LAST_WINDOW, max(left, FIRST_WINDOW))
