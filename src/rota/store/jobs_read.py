"""Jobs as operators see them: live and finished ones alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import sql
from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.filters import FINISHED_STATES, LIVE_STATES, JobFilter
from rota.store import job_conditions as conditions

SQL = queries.load("jobs_read")

NEWEST = UUID(int=2**128 - 1)


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job as a line of a list."""

    id: UUID
    task: str
    queue: str
    priority: int
    state: str
    run_at: datetime
    attempt: int
    max_attempts: int
    worker_id: UUID | None
    key: str | None
    cancel_requested_at: datetime | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    error_type: str | None
    error: str | None
    last_run_at: datetime | None = None  # when the open or last attempt began


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedJob(JobSummary):
    """A job after an edit."""

    dropped_secrets: list[str]  # fields that have lost their secret, since the URL has another origin: give these anew


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job with everything that is known about it."""

    id: UUID
    task: str
    queue: str
    priority: int
    state: str
    payload: dict[str, Any]
    run_at: datetime
    lease_until: datetime | None
    worker_id: UUID | None
    attempt: int
    max_attempts: int
    last_error: dict[str, Any] | None
    last_run_at: datetime | None
    key: str | None
    owner: str | None
    schedule_id: UUID | None
    scheduled_for: datetime | None
    triggered_by: dict[str, Any] | None
    timeout: timedelta | None
    retry: dict[str, Any] | None
    result: Any
    cancel_requested_at: datetime | None
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    canceled_at: datetime | None
    finished_at: datetime | None
    progress: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One finished attempt at a job; without `started_at` it ended before it began."""

    attempt: int
    outcome: str
    started_at: datetime | None
    finished_at: datetime
    worker_id: UUID | None
    error: dict[str, Any] | None
    result: Any


@dataclass(frozen=True, slots=True)
class Relative:
    """A parent or child of a job; task and state are None when its history has been pruned."""

    id: UUID
    task: str | None
    state: str | None
    settled: bool  # the child knows what became of the parent


@dataclass(frozen=True, slots=True)
class LiveJob:
    """What a claim looks at, and the moment at which it was looked at."""

    id: UUID
    task: str
    queue: str
    priority: int
    state: str
    run_at: datetime
    attempt: int
    max_attempts: int
    crashes: int
    culprit: bool
    worker_id: UUID | None
    claimed_at: datetime | None
    lease_until: datetime | None
    pending_parents: int
    cancel_requested_at: datetime | None
    last_error: dict[str, Any] | None
    queue_exists: bool
    paused_at: datetime | None
    pause_reason: str | None
    max_concurrency: int | None
    disabled: bool  # its task is
    set_aside: bool  # no live worker knew its task
    disabled_at: datetime | None
    disabled_by: str | None
    disable_reason: str | None
    now: datetime


@dataclass(frozen=True, slots=True)
class AdmittedJob:
    """A job that has a place within its task's limit; it runs if it has a worker."""

    id: UUID
    worker_id: UUID | None
    claimed_at: datetime | None


@dataclass(frozen=True, slots=True)
class LimitState:
    """A limit that concerns a job, and how far it is used up."""

    gate: str  # key, task or queue
    name: str
    key: str | None
    waits_here: bool
    most: int | None
    rate: str | None
    taken: int
    begun: int | None
    free_at: datetime | None
    holders: list[UUID] | None


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that takes up a slot."""

    id: UUID
    task: str
    worker_id: UUID
    claimed_at: datetime


@dataclass(frozen=True, slots=True)
class Scan:
    """One bounded step through jobs: how many were looked at, down to which id, and those that match, newest first."""

    scanned: int
    reached: UUID | None
    ids: list[UUID]


async def scan_live(conn: AsyncConn, filter: JobFilter, *, before: UUID | None, window: int, limit: int) -> Scan:
    """Looks through at most `window` live jobs that are older than `before`."""
    states = [state for state in filter.states or LIVE_STATES if state in LIVE_STATES]
    everything = len(states) == len(LIVE_STATES)
    if "queued" in states:
        states += ["delayed", "held"]
    scan = [
        sql.SQL("true") if everything else conditions.one_of("state", states),
        *conditions.ids_and_times("id", filter),
        *conditions.ours(filter),
    ]
    if filter.owner is not None:
        scan.append(sql.SQL("owner = %(owner)s"))
    if filter.key is not None:
        scan.append(sql.SQL("id IN (SELECT k.job_id FROM rota.job_key k WHERE k.key = %(key)s)"))
    match = conditions.matches(filter)
    if filter.fingerprint is not None:
        match.append(sql.SQL("error IS NOT NULL AND rota.fingerprint(task, error) = %(fingerprint)s"))
    return await _scan(conn, "jobs_read_scan_live", filter, scan, match, before, window, limit)


async def scan_finished(conn: AsyncConn, filter: JobFilter, *, before: UUID | None, window: int, limit: int) -> Scan:
    """Looks through at most `window` finished jobs that are older than `before`."""
    states = [state for state in filter.states or FINISHED_STATES if state in FINISHED_STATES]
    everything = len(states) == len(FINISHED_STATES)
    scan = [
        sql.SQL("true") if everything else conditions.one_of("outcome", states),
        *conditions.ids_and_times("job_id", filter),
        *conditions.ours(filter),
    ]
    if filter.owner is not None:
        scan.append(sql.SQL("owner = %(owner)s"))
    if filter.key is not None:
        scan.append(sql.SQL("key = %(key)s"))
    if filter.fingerprint is not None:
        scan.append(sql.SQL("fingerprint = %(fingerprint)s"))
    if filter.exact_task is not None and filter.key is filter.fingerprint is filter.owner is None:
        scan.append(sql.SQL("task = %(task)s"))  # there is an index for it: of all runs, and of those that did not complete
    return await _scan(conn, "jobs_read_scan_finished", filter, scan, conditions.matches(filter), before, window, limit)


async def summaries(conn: AsyncConn, ids: list[UUID]) -> list[JobSummary]:
    """These jobs, newest first; those that are gone are left out."""
    async with conn.cursor(row_factory=class_row(JobSummary)) as cursor:
        await cursor.execute(SQL["jobs_read_summaries"], {"ids": ids})
        return await cursor.fetchall()


async def get(conn: AsyncConn, id: UUID) -> JobRecord | None:
    """One job, whatever its state."""
    async with conn.cursor(row_factory=class_row(JobRecord)) as cursor:
        await cursor.execute(SQL["jobs_read_get"], {"id": id})
        return await cursor.fetchone()


async def runs(conn: AsyncConn, id: UUID, *, limit: int) -> list[RunRecord]:
    """The last finished attempts at a job, the newest first."""
    async with conn.cursor(row_factory=class_row(RunRecord)) as cursor:
        await cursor.execute(SQL["jobs_read_runs"], {"id": id, "limit": limit})
        return await cursor.fetchall()


async def parents(conn: AsyncConn, id: UUID, *, limit: int) -> list[Relative]:
    """What a job waits for or has waited for, what it still waits for first."""
    async with conn.cursor(row_factory=class_row(Relative)) as cursor:
        await cursor.execute(SQL["jobs_read_parents"], {"id": id, "limit": limit})
        return await cursor.fetchall()


async def children(conn: AsyncConn, id: UUID, *, limit: int) -> list[Relative]:
    """The jobs that wait or have waited for this one."""
    async with conn.cursor(row_factory=class_row(Relative)) as cursor:
        await cursor.execute(SQL["jobs_read_children"], {"id": id, "limit": limit})
        return await cursor.fetchall()


async def live(conn: AsyncConn, id: UUID) -> LiveJob | None:
    """A job that has not finished, as a claim sees it."""
    async with conn.cursor(row_factory=class_row(LiveJob)) as cursor:
        await cursor.execute(SQL["jobs_read_live"], {"id": id})
        return await cursor.fetchone()


async def count_ahead(conn: AsyncConn, job: LiveJob, *, limit: int) -> int:
    """How many ready jobs of its queue a claim takes before this one; counting ends at `limit`."""
    where = {"queue": job.queue, "priority": job.priority, "run_at": job.run_at, "id": job.id}
    row = await (await conn.execute(SQL["jobs_read_count_ahead"], {**where, "limit": limit})).fetchone()
    assert row is not None
    return int(row[0])


async def admitted(conn: AsyncConn, ids: Sequence[UUID]) -> list[AdmittedJob]:
    """Of these jobs those that are live, those that have run longest first."""
    async with conn.cursor(row_factory=class_row(AdmittedJob)) as cursor:
        await cursor.execute(SQL["jobs_read_admitted"], {"ids": list(ids)})
        return await cursor.fetchall()


async def limits(conn: AsyncConn, id: UUID) -> list[LimitState]:
    """The limits that concern a live job, in the order in which it passes them."""
    async with conn.cursor(row_factory=class_row(LimitState)) as cursor:
        await cursor.execute(SQL["jobs_read_limits"], {"id": id})
        return await cursor.fetchall()


async def running(conn: AsyncConn, *, workers: list[UUID], limit: int) -> list[RunningJob]:
    """What these workers are busy with, the longest runs first."""
    async with conn.cursor(row_factory=class_row(RunningJob)) as cursor:
        await cursor.execute(SQL["jobs_read_running"], {"workers": workers, "limit": limit})
        return await cursor.fetchall()


async def _scan(
    conn: AsyncConn,
    block: str,
    filter: JobFilter,
    scan: list[sql.Composable],
    match: list[sql.Composable],
    before: UUID | None,
    window: int,
    limit: int,
) -> Scan:
    every = sql.SQL(" AND ")
    statement = sql.SQL(SQL[block]).format(
        scan=every.join(scan),
        match=every.join(match or [sql.SQL("true")]),
        # Said of each row while it is looked at, so that no payload is carried along.
        payload=every.join(conditions.payload_matches(filter)),
    )
    window = window if match else min(window, limit)
    parameters = {**conditions.parameters(filter), "before": before or NEWEST, "window": window, "limit": limit}
    row = await (await conn.execute(statement, parameters)).fetchone()
    assert row is not None
    return Scan(*row)
