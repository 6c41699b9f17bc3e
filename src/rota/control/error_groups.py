"""Error groups: what goes wrong, how often and where, and all of it retried once it is mended."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rota.db.connection import AsyncConn
from rota.errors import NotFound, UsageError
from rota.model.capped import COUNT_CAP, Capped
from rota.model.filters import JobFilter, check_text
from rota.store import error_groups as store
from rota.store.error_groups import Failure, TaskGroup

MAX_GROUPS = 2000  # looked at for one list: so many different errors are no longer read by anybody
MAX_TASKS = 100  # of one group
LATEST_SHOWN = 10
FINGERPRINT = re.compile(r"[0-9a-f]{4,16}")


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Failures with the same fingerprint, over the history that is kept."""

    fingerprint: str
    type: str  # with its module
    message: str  # of the last one
    tasks: list[str]
    count: Capped  # attempts that failed so, within the time asked for
    first_seen: datetime
    last_seen: datetime


@dataclass(frozen=True, slots=True)
class ErrorDetail:
    """A group, the error of its last failure, and the last failures, newest first."""

    group: ErrorGroup
    error: dict[str, Any]
    latest: list[Failure]


async def list_errors(
    conn: AsyncConn,
    *,
    task: str | None = None,
    since: datetime | timedelta | None = None,
    before: tuple[datetime, str] | None = None,
    limit: int = 50,
) -> list[ErrorGroup]:
    """The groups that have been seen since, those seen last first. `before` is when the last one of a page was seen, and its
    fingerprint."""
    if not 1 <= limit <= MAX_GROUPS:
        raise UsageError(f"limit={limit!r} is out of range: from 1 to {MAX_GROUPS}")
    check_text("task", task)
    found = await store.read(conn, task=task, since=since, limit=MAX_GROUPS, cap=COUNT_CAP)
    by_fingerprint: dict[str, list[TaskGroup]] = {}
    for each in found:  # of each group its last seen comes first
        by_fingerprint.setdefault(each.fingerprint, []).append(each)
    places = sorted(((parts[0].last_seen, fingerprint) for fingerprint, parts in by_fingerprint.items()), reverse=True)
    chosen = [by_fingerprint[place[1]] for place in places if before is None or place < before][:limit]
    samples = {sample.fingerprint: sample for sample in await store.latest(conn, [parts[0] for parts in chosen], limit=1)}
    return [_group(parts, samples.get(parts[0].fingerprint)) for parts in chosen]


async def get_error(conn: AsyncConn, fingerprint: str) -> ErrorDetail:
    """One group, by its fingerprint or the beginning of it."""
    fingerprint = await find_fingerprint(conn, fingerprint)
    parts = await store.read(conn, fingerprint=fingerprint, limit=MAX_TASKS, cap=COUNT_CAP)
    latest = await store.latest(conn, parts, limit=LATEST_SHOWN)
    if not latest:
        raise _no_group(fingerprint)
    return ErrorDetail(_group(parts, latest[0]), latest[0].error or {}, latest[:LATEST_SHOWN])


async def find_fingerprint(conn: AsyncConn, beginning: str) -> str:
    """The one fingerprint that begins so."""
    if not FINGERPRINT.fullmatch(beginning):
        raise UsageError(
            f"fingerprint={beginning!r} is not one: 4 to 16 of the digits 0-9 and a-f, as `rota errors list` shows them"
        )
    match await store.beginning_with(conn, beginning):
        case [one]:
            return one
        case []:
            raise _no_group(beginning)
        case several:
            raise UsageError(f"fingerprint={beginning!r} begins several: {', '.join(several)}; give more digits")


def failed_jobs(fingerprint: str, *, task: str | None = None) -> JobFilter:
    """The jobs that have failed for good with this error: what `service.retry_jobs` takes to retry the whole group."""
    return JobFilter(states=("failed",), task=task, fingerprint=fingerprint)


def qualified(error: dict[str, Any]) -> str:
    """The type of a stored error, with its module where that is told."""
    kind = str(error.get("type", "an error"))
    return f"{error['module']}.{kind}" if error.get("module") else kind


def _group(parts: list[TaskGroup], sample: Failure | None) -> ErrorGroup:
    error = (sample and sample.error) or {}
    counts = [Capped.at(each.count) for each in parts]
    return ErrorGroup(
        parts[0].fingerprint,
        qualified(error),
        str(error.get("message", "")),
        sorted(each.task for each in parts),
        Capped(sum(each.count for each in counts), any(each.capped for each in counts)),
        min(each.first_seen for each in parts),
        max(each.last_seen for each in parts),
    )


def _no_group(fingerprint: str) -> NotFound:
    return NotFound(f"there is no error {fingerprint}: `rota errors list` shows them; old history may have been pruned")
