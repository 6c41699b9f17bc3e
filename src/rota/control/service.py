"""What operators can see and do: the one place that library, command line and API go through."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from uuid import UUID

from psycopg import errors

from rota.control import search
from rota.db.connection import AsyncConn
from rota.errors import Conflict, InvalidTransition, NotFound, UnknownQueue, UsageError, did_you_mean
from rota.model.capped import COUNT_CAP, Capped
from rota.model.filters import FINISHED_STATES, JOB_STATES, LIVE_STATES, JobFilter
from rota.store import job_counts, jobs_change, jobs_read, queues, workers_read
from rota.store.jobs_change import Edit
from rota.store.jobs_read import JobRecord, JobSummary, Relative, RunRecord
from rota.store.workers_read import WorkerRecord

MAX_LIMIT = 1000
MAX_OFFSET = 10_000
BULK_BATCH = 100
LOCK_TRIES = 5
RELATIVES_SHOWN = 100
RUNS_SHOWN = 100
EDITS_SHOWN = 20

RETRYABLE = ("failed", "canceled", "queued")
CANCELABLE = LIVE_STATES

Change = Callable[[AsyncConn, list[UUID]], Awaitable[dict[UUID, str | None]]]


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs, newest first; `next` is where the following page begins, None when there is none.

    A page can be short, even empty, and still have a next one: the search for rare jobs ends after so many others.
    """

    jobs: list[JobSummary]
    next: UUID | None


@dataclass(frozen=True, slots=True)
class JobDetail:
    """A job, its finished attempts (the newest first), its relatives, and what its payload was before it was edited."""

    job: JobRecord
    runs: list[RunRecord]
    parents: list[Relative]
    children: list[Relative]
    edits: list[Edit]


@dataclass(frozen=True, slots=True)
class Bulk:
    """What an operation on many jobs did: some may have changed their state, or be locked, in the meantime.

    With `next` its time was over before all of them: called again from there it goes on.
    """

    changed: int
    skipped: int
    next: UUID | None = None


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue: how full it is, how far behind, and who works it."""

    name: str
    paused_at: datetime | None
    pause_reason: str | None
    ready: Capped
    delayed: Capped
    held: Capped  # by limits
    waiting: Capped
    running: Capped
    oldest_age: timedelta | None
    workers: int
    max_concurrency: int | None = None
    rate: str | None = None
    overridden: bool = False  # these two are an operator's and not code's


async def list_jobs(
    conn: AsyncConn, filter: JobFilter | None = None, *, before: UUID | None = None, offset: int = 0, limit: int = 50
) -> JobPage:
    """The newest jobs that match, or those older than `before`, without the first `offset` of them."""
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"limit={limit!r} is out of range: from 1 to {MAX_LIMIT}")
    if not 0 <= offset <= MAX_OFFSET:
        raise UsageError(f"offset={offset!r} is out of range: from 0 to {MAX_OFFSET}")
    filter = filter or JobFilter()
    ids, reached = await search.find(conn, filter, before=before, limit=offset + limit + 1)
    if reached is not None and len(ids) < offset:
        raise UsageError(f"offset={offset} is farther than one request searches for this filter: follow `next` from page to page")
    ids = ids[offset:]
    if len(ids) > limit:
        ids, reached = ids[:limit], ids[limit - 1]
    jobs = await jobs_read.summaries(conn, ids)
    # A job may have moved on between the search and the look.
    return JobPage([job for job in jobs if not filter.states or job.state in filter.states], reached)


async def list_dead_letters(conn: AsyncConn, *, task: str | None = None, before: UUID | None = None, limit: int = 50) -> JobPage:
    """The jobs that have failed for good, newest first: `get_job` to look into one, `retry_job` to run it again."""
    return await list_jobs(conn, JobFilter(states=("failed",), task=task), before=before, limit=limit)


async def count_jobs(conn: AsyncConn, filter: JobFilter, *, cap: int = COUNT_CAP) -> Capped:
    """Count the jobs that match, up to the cap; beyond it about how many there are, if only states are asked for."""
    ids, reached = await search.find(conn, filter, before=None, limit=cap + 1)
    found = Capped(min(len(ids), cap), capped=reached is not None)
    if found.capped and filter == JobFilter(states=filter.states):
        counts = await job_counts.by_state(conn)
        about = Capped.sum(counts[state] for state in filter.states or JOB_STATES)
        return found if about.capped else about
    return found


async def get_job(conn: AsyncConn, id: UUID) -> JobDetail:
    """One job with its attempts and relatives."""
    job = await jobs_read.get(conn, id)
    if job is None:
        raise no_job(id)
    return JobDetail(
        job,
        await jobs_read.runs(conn, id, limit=RUNS_SHOWN),
        await jobs_read.parents(conn, id, limit=RELATIVES_SHOWN),
        await jobs_read.children(conn, id, limit=RELATIVES_SHOWN),
        await jobs_change.edits(conn, id, limit=EDITS_SHOWN),
    )


async def retry_job(conn: AsyncConn, id: UUID) -> JobSummary:
    """Puts a failed or canceled job back in the queue, with its history; one that waits for its time runs at once."""
    was = await change_one(conn, id, jobs_change.retry)
    return await retried(conn, id, was)


async def retried(conn: AsyncConn, id: UUID, was: str | None) -> JobSummary:
    """The job after a retry that has found it in this state; an error where that has changed nothing."""
    match was:
        case "completed":
            raise InvalidTransition(f"job {id} is completed and cannot be retried: enqueue a new job with its payload")
        case "running":
            raise InvalidTransition(f"job {id} is running: wait for its end, or `rota jobs cancel {id}` first")
        case "waiting":
            raise InvalidTransition(f"job {id} is waiting for its parents: `rota jobs why {id}` names them")
        case "superseded":
            raise await _superseded(conn, id)
    return await _summary(conn, id)


async def cancel_job(conn: AsyncConn, id: UUID, *, reason: str | None = None) -> JobSummary:
    """Ends a job that does not run; one that does is asked to stop, and stays running until it has."""
    was = await change_one(conn, id, partial(jobs_change.cancel, reason=reason))
    job = await _summary(conn, id)
    if was is None and job.state in FINISHED_STATES:
        raise InvalidTransition(f"job {id} is {job.state} already: only waiting, queued and running jobs can be canceled")
    return job


def to_retry(filter: JobFilter) -> JobFilter:
    """The jobs that a retry by this filter means; a filter that names nothing at all is refused."""
    _need_filter(filter)
    return filter.within(RETRYABLE if filter.states or filter.ids else ("failed",), to="retry")


def to_cancel(filter: JobFilter) -> JobFilter:
    """The jobs that a cancel by this filter means; a filter that names nothing at all is refused."""
    _need_filter(filter)
    return filter.within(CANCELABLE, to="cancel")


async def retry_jobs(
    conn: AsyncConn,
    filter: JobFilter,
    *,
    limit: int | None = None,
    progress: Callable[[Bulk], None] | None = None,
    before: UUID | None = None,
    within_s: float | None = None,
) -> Bulk:
    """Retries every job that matches, by default the failed ones among them, in small transactions; those older than `before`."""
    return await _change_all(conn, to_retry(filter), jobs_change.retry, RETRYABLE, limit, progress, before, within_s)


async def cancel_jobs(
    conn: AsyncConn,
    filter: JobFilter,
    *,
    reason: str | None = None,
    limit: int | None = None,
    progress: Callable[[Bulk], None] | None = None,
    before: UUID | None = None,
    within_s: float | None = None,
) -> Bulk:
    """Cancels every live job that matches, in small transactions; those older than `before`."""
    change = partial(jobs_change.cancel, reason=reason)
    states = (*CANCELABLE, "delayed", "held")
    return await _change_all(conn, to_cancel(filter), change, states, limit, progress, before, within_s)


async def list_queues(conn: AsyncConn) -> list[Queue]:
    """Every queue with its depth by state and the live workers that work it."""
    workers = [worker for worker in await workers_read.read_all(conn, jobs=0) if worker.state == "live"]
    return [
        Queue(
            row.name,
            row.paused_at,
            row.pause_reason,
            ready=row.ready,
            delayed=row.delayed,
            held=row.held,
            waiting=row.waiting,
            running=row.running,
            oldest_age=row.oldest_age,
            workers=sum(row.name in worker.queues for worker in workers),
            max_concurrency=row.max_concurrency,
            rate=row.rate,
            overridden=row.overridden,
        )
        for row in await queues.read_all(conn)
    ]


async def pause_queue(conn: AsyncConn, name: str, *, reason: str | None = None) -> None:
    """Stops claims from a queue, over restarts too, until it is resumed; what runs already goes on."""
    if not await queues.pause(conn, name, reason=reason):
        raise await unknown_queue(conn, name)


async def resume_queue(conn: AsyncConn, name: str) -> None:
    """Lets a queue be claimed from again."""
    if not await queues.resume(conn, name):
        raise await unknown_queue(conn, name)


async def get_queue(conn: AsyncConn, name: str) -> Queue:
    """One queue."""
    for queue in await list_queues(conn):  # a handful: every worker reads them all
        if queue.name == name:
            return queue
    raise await unknown_queue(conn, name)


async def list_workers(conn: AsyncConn) -> list[WorkerRecord]:
    """The workers of the last day, those that run first."""
    return await workers_read.read_all(conn)


async def get_worker(conn: AsyncConn, id: UUID) -> WorkerRecord:
    """One worker of the last day, with all the jobs that it holds."""
    for worker in await workers_read.read_all(conn, id=id, jobs=MAX_LIMIT):
        return worker
    raise NotFound(f"there is no worker {id}: `rota workers list` shows those of the last day")


async def change_one(conn: AsyncConn, id: UUID, change: Change) -> str | None:
    """Changes one job and gives the state it was in; Conflict if somebody's transaction has it."""
    try:
        return (await _change(conn, [id], change))[id]
    except errors.LockNotAvailable as error:
        raise Conflict(
            f"job {id} is locked by another transaction, perhaps its own handler's: try again when that has ended"
        ) from error


async def _change_all(
    conn: AsyncConn,
    filter: JobFilter,
    change: Change,
    from_states: Collection[str],
    limit: int | None,
    progress: Callable[[Bulk], None] | None,
    before: UUID | None,
    within_s: float | None,
) -> Bulk:
    done = Bulk(0, 0)
    end = None if within_s is None else monotonic() + within_s
    while limit is None or done.changed + done.skipped < limit:
        size = BULK_BATCH if limit is None else min(BULK_BATCH, limit - done.changed - done.skipped)
        async with conn.transaction():
            await jobs_change.look_briefly(conn)
            ids, before = await search.find(conn, filter, before=before, limit=size)
        changed = sum(state in from_states for state in (await _change_batch(conn, ids, change)).values())
        done = Bulk(done.changed + changed, done.skipped + len(ids) - changed, before)
        if progress is not None:
            progress(done)
        if before is None or (end is not None and monotonic() > end):
            break
    return done


async def _change_batch(conn: AsyncConn, ids: list[UUID], change: Change) -> dict[UUID, str | None]:
    try:
        return await _change(conn, ids, change)
    except (errors.LockNotAvailable, errors.DeadlockDetected):
        # Somebody holds one of them. One at a time, only that one is skipped.
        if len(ids) == 1:
            return {}
        parts = [await _change_batch(conn, [id], change) for id in ids]
        return {id: state for part in parts for id, state in part.items()}


async def _change(conn: AsyncConn, ids: list[UUID], change: Change) -> dict[UUID, str | None]:
    # Families of jobs are locked from two sides (a parent that ends or gets a child, an operator's batch), so a deadlock can
    # happen. The one who is not in a hurry gives way, before PostgreSQL ends one of the two, and tries again.
    for _ in range(LOCK_TRIES - 1):
        try:
            return await _try_change(conn, ids, change)
        except (errors.LockNotAvailable, errors.DeadlockDetected):
            await asyncio.sleep(random.uniform(0, 0.1))
    return await _try_change(conn, ids, change)


async def _try_change(conn: AsyncConn, ids: list[UUID], change: Change) -> dict[UUID, str | None]:
    async with conn.transaction():
        await jobs_change.wait_briefly(conn)
        return await change(conn, ids)


async def _summary(conn: AsyncConn, id: UUID) -> JobSummary:
    for job in await jobs_read.summaries(conn, [id]):
        return job
    raise no_job(id)


def _need_filter(filter: JobFilter) -> None:
    if not filter.narrows:
        raise UsageError("an operation on many jobs needs a filter: a state, task, queue, key, text or since")


def no_job(id: UUID) -> NotFound:
    """What to say of an id that means nothing here."""
    return NotFound(f"there is no job {id}: `rota jobs list` shows the newest; old history may have been pruned")


async def _superseded(conn: AsyncConn, id: UUID) -> InvalidTransition:
    name, enabled, now = await jobs_change.superseded_by(conn, id) or ("", True, None)
    if not enabled:
        return InvalidTransition(f"job {id} cannot be retried: its row {name} is disabled; enable that first")
    return InvalidTransition(
        f"job {id} cannot be retried: its row {name} runs one job at a time, now {now}; wait for its end, or cancel that one first"
    )


async def unknown_queue(conn: AsyncConn, name: str) -> UnknownQueue:
    """What to say of a queue that is not there."""
    known = await queues.names(conn)
    advice = did_you_mean(name, known, f"known are {', '.join(known) or 'none, since no worker has started yet'}")
    return UnknownQueue(f"there is no queue {name!r}: {advice}")
