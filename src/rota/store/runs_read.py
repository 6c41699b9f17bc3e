"""Runs as operators see them: finished attempts, and the open ones, which are the running jobs themselves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import sql
from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.filters import RunFilter, like
from rota.store.tasks_read import not_system

SQL = queries.load("runs_read")

FAILURES = ("failed", "lost")  # what has a fingerprint
SLACK = timedelta(minutes=10)  # by which the clocks of those who make ids may be off


class RunId(NamedTuple):
    """Which attempt at which job. Runs are listed in the order of it, the greatest first."""

    job_id: UUID
    attempt: int

    def __str__(self) -> str:
        return f"{self.job_id}/{self.attempt}"


NEWEST = RunId(UUID(int=2**128 - 1), 2**63 - 1)


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run as a line of a list; `duration` of one that still runs is up to now."""

    job_id: UUID
    attempt: int
    task: str
    queue: str
    status: str
    final: bool  # the job ended with it
    scheduled_for: datetime | None
    started_at: datetime | None  # None: it ended before it began
    finished_at: datetime | None
    duration: timedelta | None
    worker_id: UUID | None
    schedule_id: UUID | None
    triggered_by: dict[str, Any] | None
    created_at: datetime
    error_type: str | None
    error: str | None
    fingerprint: str | None
    run_at: datetime | None = None  # when it was due


@dataclass(frozen=True, slots=True)
class RunDetail:
    """A run with everything that is known about it."""

    job_id: UUID
    attempt: int
    task: str
    queue: str
    status: str
    final: bool
    scheduled_for: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    duration: timedelta | None
    worker_id: UUID | None
    schedule_id: UUID | None
    triggered_by: dict[str, Any] | None
    created_at: datetime
    fingerprint: str | None
    error: dict[str, Any] | None
    payload: dict[str, Any] | None  # None: its job's history is gone
    result: Any
    progress: Any
    run_at: datetime | None
    priority: int | None
    max_attempts: int | None
    timeout: timedelta | None
    key: str | None
    owner: str | None


@dataclass(frozen=True, slots=True)
class Step:
    """One bounded step through runs: how many were looked at, down to which, and those that match."""

    scanned: int
    reached: RunId | None
    found: list[RunId]


async def scan_open(conn: AsyncConn, filter: RunFilter, *, before: RunId | None, window: int, limit: int) -> Step:
    """Looks through at most `window` open attempts that come after `before`."""
    scan = [sql.SQL("true"), *_ours(filter)]
    match = [*_times(filter), *_matches(filter)]
    if filter.job is not None:
        match.append(sql.SQL("job_id = %(job)s"))
    if filter.task is not None:
        match.append(_task(filter))
    if filter.fingerprint is not None:
        match.append(sql.SQL("false"))
    return await _scan(conn, "runs_read_scan_open", filter, scan, match, before, window, limit)


async def scan(conn: AsyncConn, filter: RunFilter, *, before: RunId | None, window: int, limit: int) -> Step:
    """Looks through at most `window` finished attempts that come after `before`."""
    statuses = [status for status in filter.statuses if status != "running"]
    # What bounds the walk has an index; everything else is looked at row by row.
    match = [*_times(filter), *_matches(filter)]
    bounds = [*_ours(filter), *_range(filter)]
    task = [_task(filter)] if filter.task is not None else []
    if filter.job is not None:
        bounds.append(sql.SQL("job_id = %(job)s"))
        match += task
    elif filter.fingerprint is not None:
        bounds.append(sql.SQL("fingerprint = %(fingerprint)s"))
        match += task
    elif statuses and all(status in FAILURES for status in statuses):
        bounds.append(sql.SQL("fingerprint IS NOT NULL"))
        match += task
    elif filter.exact_task is not None:
        bounds += task
    else:
        match += task
    if filter.job is not None and filter.fingerprint is not None:
        match.append(sql.SQL("fingerprint = %(fingerprint)s"))
    if statuses:
        match.append(sql.SQL("outcome IN ({})").format(sql.SQL(", ").join(map(sql.Literal, statuses))))
    return await _scan(conn, "runs_read_scan", filter, bounds or [sql.SQL("true")], match, before, window, limit)


async def lines(conn: AsyncConn, ids: list[RunId]) -> list[RunLine]:
    """These runs, newest first; those that are gone are left out."""
    async with conn.cursor(row_factory=class_row(RunLine)) as cursor:
        wanted = {"ids": [id.job_id for id in ids], "attempts": [id.attempt for id in ids]}
        await cursor.execute(SQL["runs_read_lines"], wanted)
        return await cursor.fetchall()


async def last_attempt(conn: AsyncConn, job: UUID) -> int | None:
    """The number of the open attempt at a job, or else of the last one; None if it has none."""
    row = await (await conn.execute(SQL["runs_read_last_attempt"], {"id": job})).fetchone()
    assert row is not None
    return row[0]  # type: ignore[no-any-return]


async def get(conn: AsyncConn, id: RunId) -> RunDetail | None:
    """One run."""
    async with conn.cursor(row_factory=class_row(RunDetail)) as cursor:
        await cursor.execute(SQL["runs_read_get"], {"id": id.job_id, "attempt": id.attempt})
        return await cursor.fetchone()


async def find_schedule(conn: AsyncConn, name: str, id: UUID | None) -> tuple[UUID, str] | None:
    """The id and the task of the schedule with this name or id; of a recurring row `task/key`."""
    task, _, key = name.partition("/")
    row = await (await conn.execute(SQL["runs_read_schedule"], {"name": name, "id": id, "task": task, "key": key})).fetchone()
    return None if row is None else (row[0], row[1])


async def _scan(
    conn: AsyncConn,
    block: str,
    filter: RunFilter,
    scan: list[sql.Composable],
    match: list[sql.Composable],
    before: RunId | None,
    window: int,
    limit: int,
) -> Step:
    every = sql.SQL(" AND ")
    answer = sql.SQL(SQL["runs_read_answer"]).format(match=every.join(match or [sql.SQL("true")]))
    statement = sql.SQL(SQL[block]).format(scan=every.join(scan), answer=answer)
    before = before or NEWEST
    parameters = {
        "before": before.job_id,
        "before_attempt": before.attempt,
        "window": window if match else min(window, limit),
        "limit": limit,
        "task": filter.exact_task or like(filter.task or ""),
        "worker": filter.worker,
        "schedule": filter.schedule,
        "job": filter.job,
        "text": filter.text,
        "since": filter.since,
        "until": filter.until,
        "triggered_by": filter.triggered_by,
        "fingerprint": filter.fingerprint,
        "slack": SLACK,
    }
    row = await (await conn.execute(statement, parameters)).fetchone()
    assert row is not None
    scanned, job_id, attempt, ids, attempts = row
    return Step(scanned, None if job_id is None else RunId(job_id, attempt), list(map(RunId, ids, attempts)))


def _moment(name: str, value: datetime | timedelta) -> sql.Composable:
    at = sql.SQL("rota.now() - {}" if isinstance(value, timedelta) else "{}::timestamptz").format(sql.Placeholder(name))
    return sql.SQL("greatest({}, '1971-01-01')").format(at)


def _range(filter: RunFilter) -> list[sql.Composable]:
    """Ids carry their maker's clock, which may be off: they only bound the walk."""
    bounds: list[sql.Composable] = []
    if filter.since is not None:
        bounds.append(sql.SQL("job_id >= rota.uuid7_floor({} - %(slack)s::interval)").format(_moment("since", filter.since)))
    if filter.until is not None:
        bounds.append(sql.SQL("job_id < rota.uuid7_floor({} + %(slack)s::interval)").format(_moment("until", filter.until)))
    return bounds


def _times(filter: RunFilter) -> list[sql.Composable]:
    conditions: list[sql.Composable] = []
    if filter.since is not None:
        conditions.append(sql.SQL("created_at >= {}").format(_moment("since", filter.since)))
    if filter.until is not None:
        conditions.append(sql.SQL("created_at < {}").format(_moment("until", filter.until)))
    return conditions


def _task(filter: RunFilter) -> sql.Composable:
    return sql.SQL("task = %(task)s" if filter.exact_task else "task LIKE %(task)s")


def _ours(filter: RunFilter) -> list[sql.Composable]:
    """Leaves Rota's own runs out, unless something is asked for that they may be."""
    return [] if filter.includes_system else [not_system(sql.Identifier("task"))]


def _matches(filter: RunFilter) -> list[sql.Composable]:
    conditions: list[sql.Composable] = []
    if filter.worker is not None:
        conditions.append(sql.SQL("worker_id = %(worker)s"))
    if filter.schedule is not None:
        conditions.append(sql.SQL("schedule_id = %(schedule)s"))
    if filter.triggered_by is not None:
        conditions.append(sql.SQL("triggered_by ->> 'kind' = %(triggered_by)s"))
    if filter.text is not None:
        conditions.append(sql.SQL("position(lower(%(text)s) IN lower(concat(error ->> 'type', ': ', error ->> 'message'))) > 0"))
    return conditions
