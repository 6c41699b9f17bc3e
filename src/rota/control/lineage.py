"""Where a job comes from and what comes after it: who or what made it, its parents and children, edits of its payload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from rota.control.service import EDITS_SHOWN, no_job
from rota.control.words import moment, shorten
from rota.db.connection import AsyncConn
from rota.errors import UsageError
from rota.store import jobs_change, jobs_read, schedule_reads
from rota.store import lineage as store
from rota.store.jobs_change import Edit
from rota.store.jobs_read import JobRecord, Relative

MAX_LIMIT = 1000
SHOWN = 50
NO_ID = UUID(int=0)

Side = Literal["parents", "children"]


@dataclass(frozen=True, slots=True)
class OriginSchedule:
    """The schedule that made a job; without a name it is gone."""

    id: UUID | None
    name: str | None


@dataclass(frozen=True, slots=True)
class Origin:
    """Who or what made a job."""

    kind: str  # schedule, recurring, manual, cli, api, hook, sql or code, or what else the maker says
    sentence: str
    user: str | None
    schedule: OriginSchedule | None
    scheduled_for: datetime | None


@dataclass(frozen=True, slots=True)
class RelativePage:
    """Some parents or children; `next` is the one that the following page comes after, None when there is none."""

    items: list[Relative]
    next: UUID | None


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a job comes from, the first of its parents and children, and what its payload was before it was edited."""

    job_id: UUID
    origin: Origin
    parents: RelativePage
    children: RelativePage
    edits: list[Edit]


async def lineage(conn: AsyncConn, id: UUID) -> Lineage:
    """The lineage of a job."""
    job = await jobs_read.get(conn, id)
    if job is None:
        raise no_job(id)
    label = None if job.schedule_id is None else await schedule_reads.label_of(conn, job.schedule_id)
    return Lineage(
        id,
        describe_origin(job, label),
        await relatives(conn, id, "parents", limit=SHOWN),
        await relatives(conn, id, "children", limit=SHOWN),
        await jobs_change.edits(conn, id, limit=EDITS_SHOWN),
    )


async def relatives(conn: AsyncConn, id: UUID, side: Side, *, after: UUID | None = None, limit: int = SHOWN) -> RelativePage:
    """Some parents or children of a job, the oldest first; of a job that is not there, none."""
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"limit={limit!r} is out of range: from 1 to {MAX_LIMIT}")
    read = store.parents if side == "parents" else store.children
    found = await read(conn, id, after=after or NO_ID, limit=limit + 1)
    return RelativePage(found[:limit], found[limit - 1].id if len(found) > limit else None)


def describe_origin(job: JobRecord, label: str | None) -> Origin:
    """Who or what made a job, in words; `label` is what its schedule is called now."""
    told = job.triggered_by or {}
    kind, user = _text(told, "kind") or "code", _text(told, "user")
    name = label or _text(told, "schedule")
    if kind == "scheduler" or (kind == "code" and job.schedule_id is not None):
        kind = "recurring" if name is not None and "/" in name else "schedule"
    schedule = OriginSchedule(job.schedule_id, label) if job.schedule_id is not None or name is not None else None
    return Origin(kind, _sentence(kind, name, user, told, job.scheduled_for), user, schedule, job.scheduled_for)


def _sentence(kind: str, name: str | None, user: str | None, told: Mapping[str, Any], at: datetime | None) -> str:
    by = f", by {user}" if user else ""
    due = f", for {moment(at)}" if at else ""
    match kind:
        case "schedule":
            return f"Made by schedule {name or 'that is gone'}{due}."
        case "recurring":
            return f"Made by recurring row {name}{due}."
        case "manual" if name is not None:
            return f"Made by schedule {name}, run by hand{by}."
        case "manual":
            return f"Made by hand{by}."
        case "cli":
            return f"Made on the command line{by}."
        case "api":
            return f"Made over the API{by}."
        case "hook":
            operation, table = _text(told, "operation"), _text(told, "table")
            what = " ".join(filter(None, (operation, f"of {table}" if table else None)))
            return f"Made by hook {_text(told, 'hook') or 'unknown'}{f' ({what})' if what else ''}."
        case "sql":
            return f"Made by SQL{by}."
        case "code":
            return "Made by the application's code."
    return f"Made by {kind}{by}."


def _text(told: Mapping[str, Any], name: str) -> str | None:
    """What the maker says, which anybody may have written: short, and text."""
    value = told.get(name) if isinstance(told, Mapping) else None
    return None if value is None else shorten(str(value))
