"""Storing new jobs, in steps that any connection can carry out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from rota.db import queries
from rota.db.steps import Copy, Query, Steps, atomically
from rota.errors import DuplicateKey, KeyReused, ParentFailed, ParentNotFound
from rota.model.batch import Batch, kept
from rota.model.ids import new_id_text
from rota.model.job import Enqueued, JobSettings, NewJob
from rota.model.secret import DRAFT, Record
from rota.model.vault import payload_digests, seal_payload

SQL = queries.load("jobs")
_INSERT_PLAIN = SQL["jobs_insert_plain"]

COPY_FROM = 50  # jobs; fewer are stored sooner by one statement than by COPY and the round trips around it
PIECE_JOBS = 1000  # PostgreSQL stores one piece while Python writes the next
PIECE_BYTES = 4 * 1024 * 1024

_COLUMNS = ("task", "queue", "priority", "max_attempts", "timeout", "retry", "owner", "triggered_by")
_DEFAULTS = {"queue": "default", "priority": 0, "limited": False, "state": "queued"}  # of rota.job
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1)


def insert(job: NewJob, id: str | None = None) -> Steps[Enqueued]:
    """Stores one job, or finds the one that has its key."""
    settings = job.settings
    id = id or new_id_text()
    if (row := _plain_row(settings)) is not None:
        yield Query(_INSERT_PLAIN, (id, _sealed(id, job), *row), rows=False)
        return Enqueued(id)
    if settings.key is None and not settings.parents:
        yield Query(SQL["jobs_insert"], (f"[{_as_object(id, job, ())}]",), rows=False)
        return Enqueued(id)
    ((id, outcome),) = yield Query(SQL["jobs_insert_bound"], (f"[{_as_object(id, job, settings.parents)}]",))
    return _judge(settings, id, outcome)


def any_stored(ids: Sequence[str]) -> Steps[bool]:
    """Say whether one of these jobs is stored, live or finished."""
    ((stored,),) = yield Query(SQL["jobs_any_stored"], (f"{{{','.join(ids)}}}",))
    return bool(stored)


def insert_many(batch: Batch, *, can_copy: bool, autocommits: bool) -> Steps[list[Enqueued]]:
    """Stores all jobs of a batch or none, with the rules of `insert`; the results are in the order of the batch."""
    copied = batch.free if can_copy and len(batch.free) >= COPY_FROM else []
    free = [] if copied else list(_cut(batch, batch.free))
    bound = [piece for segment in batch.segments() for piece in _cut(batch, segment)] if batch.bound else []
    steps = _insert_pieces(batch, copied, free, bound)
    # One statement for free jobs, or for one bound job, stores all or none by itself.
    if copied or len(free) + len(batch.bound) > 1:
        steps = atomically(steps, autocommits=autocommits)
    return (yield from steps)


def _insert_pieces(batch: Batch, copied: list[int], free: list[list[int]], bound: list[list[int]]) -> Steps[list[Enqueued]]:
    with kept():
        results = [Enqueued(id) for id in batch.ids]
    if copied:
        ((now,),) = yield Query(SQL["jobs_now"])
        yield _copy(batch, copied, _EPOCH + now * _MICROSECOND)
        yield Query(SQL["jobs_wake"], rows=False)
    for piece in free:
        yield Query(SQL["jobs_insert"], (_as_array(batch, piece),), rows=False)
    for piece in bound:
        rows = yield Query(SQL["jobs_insert_bound"], (_as_array(batch, piece),))
        for at, (id, outcome) in zip(piece, rows, strict=True):
            results[at] = _judge(batch.jobs[at].settings, id, outcome)
            batch.ids[at] = id
    return results


def _judge(settings: JobSettings, id: str, outcome: str) -> Enqueued:
    task, key = settings.task, settings.key
    if outcome == "created":
        return Enqueued(id)
    if outcome == "existing":
        if settings.strict:
            raise DuplicateKey(f"{task}: job {id} has the key {key!r} already, and strict=True allows no second one")
        return Enqueued(id, created=False)
    if outcome == "key_reused":
        raise KeyReused(
            f"{task}: the key {key!r} belongs to job {id}, whose payload is another: "
            "use a key that says all that the job depends on"
        )
    if outcome == "parent_not_found":
        raise ParentNotFound(f"{task}: parent {id} does not exist: enqueue it first, or in the same enqueue_many")
    raise ParentFailed(
        f"{task}: parent {id} has failed or was canceled, so this job would never run: "
        'retry the parent first, or give on_parent_failure="ignore"'
    )


def _sealed(id: str, job: NewJob) -> str:
    """The payload as it is stored under this id."""
    if DRAFT not in job.payload:
        return job.payload
    return seal_payload(job.payload, Record("job", id, job.settings.owner or ""), job.settings.task)


def _fields(settings: JobSettings) -> dict[str, Any]:
    """What all jobs with these settings have in common, as text and numbers."""
    fields = {
        "task": settings.task,
        "queue": settings.queue,
        "priority": settings.priority,
        "run_at": None if settings.run_at is None else settings.run_at.isoformat(),
        "delay": _interval(settings.delay),
        "max_attempts": settings.max_attempts,
        "timeout": _interval(settings.timeout),
        "retry": None if settings.retry is None else settings.retry.to_json(),
        "key": settings.key,
        "key_ttl": _interval(settings.key_ttl),
        "owner": settings.owner,
        "triggered_by": settings.triggered_by and json.loads(settings.triggered_by),
        "on_parent_failure": settings.on_parent_failure,
        "limited": settings.limited or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _interval(value: timedelta | None) -> str | None:
    # Not in days: PostgreSQL's are calendar days, some of which have 23 hours. Nor in microseconds, of which PostgreSQL 14 can
    # read no more than half an hour.
    return None if value is None else f"{value // _SECOND}.{value % _SECOND // _MICROSECOND:06} seconds"


def _cut(batch: Batch, segment: list[int]) -> Iterator[list[int]]:
    """Pieces of a segment that are not too much for one statement."""
    piece: list[int] = []
    size = 0
    for at in segment:
        size += len(batch.jobs[at].payload)
        if piece and (len(piece) == PIECE_JOBS or size > PIECE_BYTES):
            yield piece
            piece, size = [], len(batch.jobs[at].payload)
        piece.append(at)
    if piece:
        yield piece


def _as_array(batch: Batch, piece: list[int]) -> str:
    return f"[{','.join(_as_object(batch.ids[at], batch.jobs[at], batch.parents(at)) for at in piece)}]"


def _as_object(id: str, job: NewJob, parents: Iterable[str]) -> str:
    waits_for = ",".join([f'"{parent}"' for parent in parents])
    # Secrets are sealed for each job anew, so a repetition of it is known by their digests.
    digests = payload_digests(job.payload) if job.settings.key is not None else None
    known = "" if digests is None else f'"digests":{json.dumps(digests)},'
    # The payload goes in as the text it is, and the type json keeps it so.
    return f'{{"id":"{id}","payload":{_sealed(id, job)},"parents":[{waits_for}],{known}{_json_fields(job.settings)}}}'


@lru_cache(maxsize=256)  # a task's settings are the same for job after job
def _json_fields(settings: JobSettings) -> str:
    return json.dumps(_fields(settings), ensure_ascii=False)[1:-1]


@lru_cache(maxsize=256)
def _plain_row(settings: JobSettings) -> tuple[str, str, int, int] | None:
    """The parameters of `jobs_insert_plain` after the payload; None for jobs that have more than these."""
    plain = JobSettings(settings.task, settings.queue, settings.priority, settings.max_attempts)
    return (plain.task, plain.queue, plain.priority, plain.max_attempts) if settings == plain else None


def _copy(batch: Batch, copied: list[int], now: datetime) -> Copy:
    """The rows of these jobs, without the columns in which all of them have the default: those are cheaper left out than read."""
    fields: dict[int, dict[str, Any]] = {}  # by id() of settings, which nearly all jobs share, and which the batch keeps alive
    for at in copied:
        settings = batch.jobs[at].settings
        if id(settings) not in fields:
            fields[id(settings)] = _copy_fields(settings, now)
    defaults = {**_DEFAULTS, "run_at": now.isoformat()}
    columns = [
        name
        for name in (*_COLUMNS, "limited", "state", "run_at")
        if any(each.get(name) != defaults.get(name) for each in fields.values())
    ]
    ends = {key: "".join(f"\t{_copy_field(each.get(name))}" for name in columns) + "\n" for key, each in fields.items()}
    return Copy("rota", "job", ("id", "payload", *columns), _copy_pieces(batch, copied, ends))


def _copy_pieces(batch: Batch, copied: Iterable[int], ends: dict[int, str]) -> Iterator[str]:
    jobs, ids = batch.jobs, batch.ids
    lines: list[str] = []
    size = 0
    for at in copied:
        job = jobs[at]
        payload = _sealed(ids[at], job)
        if "\\" in payload:
            payload = payload.replace("\\", "\\\\")
        lines.append(f"{ids[at]}\t{payload}{ends[id(job.settings)]}")
        size += len(payload)
        if len(lines) == PIECE_JOBS or size > PIECE_BYTES:
            yield "".join(lines)
            lines, size = [], 0
    yield "".join(lines)


def _copy_fields(settings: JobSettings, now: datetime) -> dict[str, Any]:
    due = settings.run_at or now + (settings.delay or timedelta(0))
    state = "delayed" if due > now else "held" if settings.limited else "queued"
    return {**_fields(settings), "limited": settings.limited, "state": state, "run_at": due.isoformat()}


def _copy_field(value: Any) -> str:
    if value is None:
        return "\\N"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
