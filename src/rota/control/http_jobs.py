"""HTTP jobs: how one is made; and what somebody sees and does of jobs of their own. Another's is like one that is not there."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack
from uuid import UUID

from rota.config import Settings
from rota.control import search, service
from rota.db.connection import AsyncConn
from rota.errors import HttpJobsOff, NotFound, UsageError
from rota.model.filters import JobFilter
from rota.model.http_call import SAFETY, TASK, CallOptions, make_call
from rota.model.job import JobOptions, JobSettings, NewJob
from rota.model.task import TaskSpec
from rota.outbound.address import check_target
from rota.store import http_jobs as store
from rota.store.http_jobs import AttemptLine, OwnJobLine

GRACE = timedelta(seconds=10)  # for a call to see by itself that its time is over
MAX_LIMIT = 100
NEWEST = 2**62  # beyond every attempt's number
OFF = "HTTP jobs are off here: set enabled = true under [http] in rota.toml, or ROTA_HTTP_ENABLED=true, for server and workers"

_OF_CALL = ("method", "json", "body", "headers", "timeout", "secret")


@dataclass(frozen=True, slots=True)
class OwnJob:
    """A job as its owner sees it: of an HTTP job's URL no query, of its headers their names only, and nothing of its body."""

    id: UUID
    task: str
    state: str
    method: str | None  # this and the next two are an HTTP job's
    url: str | None
    headers: list[str]
    run_at: datetime
    timeout_s: float | None
    attempt: int  # how often it was tried
    max_attempts: int
    idempotency_key: str | None
    cancel_requested: bool
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    last_status: int | None  # of the last answer
    last_error: str | None


@dataclass(frozen=True, slots=True)
class OwnJobPage:
    """Some jobs, newest first; `next` is where the following page begins."""

    jobs: list[OwnJob]
    next: UUID | None


@dataclass(frozen=True, slots=True)
class Answered:
    """What the other side said, as far as it is kept."""

    content_type: str
    head: str  # how it began, without secrets
    bytes: int  # how long it was, as far as it was read
    cut: bool  # there was more than is shown


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a call; one without an end is being made, or was when its worker died."""

    attempt: int
    outcome: str
    started_at: datetime | None
    finished_at: datetime | None
    duration_ms: float | None
    status: int | None
    reason: str | None  # of a failure, in one word: status, timeout, refused, dns, tls, redirect, protocol, connection
    error: str | None
    redirects: int | None
    retry_after_s: float | None  # what the other side has asked for
    response: Answered | None


def new_job(settings: Settings, spec: TaskSpec | None, url: str, **options: Unpack[CallOptions]) -> NewJob:
    """A job that makes a call; refused where it could never be made."""
    if not settings.http.enabled or spec is None:
        raise HttpJobsOff(OFF)
    unknown = options.keys() - CallOptions.__optional_keys__
    if unknown:
        raise TypeError(f"unknown settings of an HTTP job: {', '.join(sorted(unknown))}")
    call = make_call(url, **{name: value for name, value in options.items() if name in _OF_CALL})  # type: ignore[arg-type]
    check_target(call.target, settings)
    of_job: JobOptions = {name: value for name, value in options.items() if name not in _OF_CALL}  # type: ignore[assignment]
    timeout = timedelta(seconds=call.timeout_s) + GRACE
    if timeout > SAFETY:
        of_job["timeout"] = timeout
    # Not by the task's schema, which would read it again to see that it comes back: a call is made of text only, and bounded.
    return NewJob(JobSettings.of(spec).changed(**of_job), call.model_dump_json())


async def list_jobs(
    conn: AsyncConn, owner: str, *, states: Collection[str] = (), before: UUID | None = None, limit: int = 50
) -> OwnJobPage:
    """The newest jobs of an owner, or those older than `before`."""
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"limit={limit!r} is out of range: from 1 to {MAX_LIMIT}")
    filter = JobFilter(states=states, owner=owner)
    ids, reached = await search.find(conn, filter, before=before, limit=limit + 1)
    if len(ids) > limit:
        ids, reached = ids[:limit], ids[limit - 1]
    found = await store.lines(conn, ids, owner=owner)
    # A job may have moved on between the search and the look.
    return OwnJobPage([shown(line) for line in found if not states or line.state in states], reached)


async def get_job(conn: AsyncConn, owner: str, id: UUID) -> OwnJob:
    """One job of an owner."""
    return shown(await get_line(conn, owner, id))


async def get_line(conn: AsyncConn, owner: str, id: UUID) -> OwnJobLine:
    """One job of an owner as it is stored; NotFound if there is none, or it is another's."""
    for line in await store.lines(conn, [id], owner=owner):
        return line
    raise NotFound(f"there is no job {id}, or it is not yours; old ones are removed after a while")


async def list_attempts(conn: AsyncConn, owner: str, id: UUID, *, before: int | None = None, limit: int = 50) -> list[Attempt]:
    """The attempts at a job of an owner, the newest first."""
    if not 1 <= limit <= MAX_LIMIT + 1:
        raise UsageError(f"limit={limit!r} is out of range: from 1 to {MAX_LIMIT}")
    await get_line(conn, owner, id)
    return [_attempt(line) for line in await store.attempts(conn, id, before=min(before or NEWEST, NEWEST), limit=limit)]


async def cancel_job(conn: AsyncConn, owner: str, id: UUID) -> OwnJob:
    """Ends a job of an owner that is not being made; one that is, is asked to stop."""
    await get_line(conn, owner, id)
    await service.cancel_job(conn, id, reason="canceled by its owner")
    return await get_job(conn, owner, id)


async def retry_job(conn: AsyncConn, owner: str, id: UUID) -> OwnJob:
    """Makes a failed or canceled job of an owner again; one that waits is made at once."""
    await get_line(conn, owner, id)
    await service.retry_job(conn, id)
    return await get_job(conn, owner, id)


def shown(line: OwnJobLine) -> OwnJob:
    """A job as its owner sees it."""
    return OwnJob(
        id=line.id,
        task=line.task,
        state=line.state,
        method=line.method,
        url=line.url,
        headers=sorted(line.headers),
        run_at=line.run_at,
        timeout_s=_number(line.timeout_s),
        attempt=line.attempt,
        max_attempts=line.max_attempts,
        idempotency_key=line.key,
        cancel_requested=line.cancel_requested,
        created_at=line.created_at,
        updated_at=line.updated_at,
        finished_at=line.finished_at,
        last_status=_whole(line.last_status),
        last_error=line.last_error,
    )


def shown_new(id: UUID, job: NewJob) -> OwnJob:
    """A job that was stored just now: all of it is known, and the database need not be asked again."""
    settings, call = job.settings, json.loads(job.payload)
    created_at = datetime.fromtimestamp((id.int >> 80) / 1000, UTC)  # as its id says
    return OwnJob(
        id=id,
        task=TASK,
        state="queued",
        method=call["method"],
        url=call["url"],
        headers=sorted(call["headers"]),
        run_at=settings.run_at or created_at + (settings.delay or timedelta(0)),
        timeout_s=call["timeout_s"],
        attempt=0,
        max_attempts=settings.max_attempts,
        idempotency_key=settings.key,
        cancel_requested=False,
        created_at=created_at,
        updated_at=created_at,
        finished_at=None,
        last_status=None,
        last_error=None,
    )


def _attempt(line: AttemptLine) -> Attempt:
    error: dict[str, Any] = line.error if isinstance(line.error, dict) else {}
    kept = line.result if line.outcome == "completed" else error.get("call")
    call: dict[str, Any] = kept if isinstance(kept, dict) else {}
    took = _number(call.get("took_ms"))
    if took is None and line.started_at is not None and line.finished_at is not None:
        took = round((line.finished_at - line.started_at).total_seconds() * 1000, 1)
    return Attempt(
        attempt=line.attempt,
        outcome=line.outcome,
        started_at=line.started_at,
        finished_at=line.finished_at,
        duration_ms=took,
        status=_whole(call.get("status")),
        reason=_text(call.get("reason")),
        error=_text(error.get("message")),
        redirects=_whole(call.get("redirects")),
        retry_after_s=_number(error.get("retry_after_s")),
        response=_response(call) if "head" in call else None,
    )


def _response(call: dict[str, Any]) -> Answered:
    return Answered(
        _text(call.get("content_type")) or "",
        _text(call.get("head")) or "",
        _whole(call.get("bytes")) or 0,
        call.get("cut") is True,
    )


# What is read back may have been written by a handler of the same name that is not ours.


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
