"""Synchronisations of calendars, asked for over the API: a request's jobs are stored all or none, and once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import timedelta

from pydantic import TypeAdapter

from rota.control import audit
from rota.control.access import Actor
from rota.db.connection import AsyncConn
from rota.errors import Conflict, KeyReused, UsageError
from rota.model.calendar_job import QUEUE, TASK, CalendarJob, ScheduledJob, ScheduledJobs
from rota.model.ids import new_id
from rota.store import calendar_jobs as store
from rota.store import requests
from rota.store.requests import RequestKey

OPERATION = "jobs.schedule"
KEPT_FOR = timedelta(days=1)  # an answer, for repetitions of its request
MAX_KEY_BYTES = 255

_ANSWER = TypeAdapter(ScheduledJobs)


async def schedule(conn: AsyncConn, actor: Actor, jobs: Sequence[CalendarJob], *, key: str | None = None) -> ScheduledJobs:
    """Stores a job for each; with a `key` that this actor has used for the same jobs within a day, gives the answer of then."""
    request = None if key is None else RequestKey(str(actor.account or actor.name), OPERATION, _check_key(key))
    async with conn.transaction():
        if request is not None:
            body_hash = hashlib.sha256(json.dumps([job.row() for job in jobs], sort_keys=True).encode()).digest()
            if not await requests.begin(conn, request, body_hash=body_hash, kept_for=KEPT_FOR):
                return await _repeat(conn, request, body_hash)
        answer = ScheduledJobs([_plan(job) for job in jobs])
        await store.declare(conn)
        rows = [{"id": str(made.id), **job.row()} for made, job in zip(answer.jobs, jobs, strict=True)]
        await store.insert(conn, rows, owner=str(actor.account or actor.name), triggered_by=actor.as_trigger())
        await audit.record(conn, actor, OPERATION, f"{len(jobs)} jobs", {"jobs": [str(made.id) for made in answer.jobs]})
        if request is not None:
            await requests.answer(conn, request, _ANSWER.dump_json(answer).decode())
    return answer


def _plan(job: CalendarJob) -> ScheduledJob:
    return ScheduledJob(
        id=new_id(),
        task=TASK,
        queue=QUEUE,
        calendar_pair_id=job.calendar_pair_id,
        connector=job.connector,
        window_start=job.window_start,
        window_end=job.window_end,
        priority=job.priority,
        run_at=job.run_at,
        max_attempts=job.max_retries + 1,
    )


async def _repeat(conn: AsyncConn, request: RequestKey, body_hash: bytes) -> ScheduledJobs:
    known = await requests.get(conn, request)
    if known is None:  # it has just expired, and was cleared away
        raise Conflict(f"Idempotency-Key {request.key!r} has just expired: send the request again")
    if bytes(known[0]) != body_hash:
        raise KeyReused(f"Idempotency-Key {request.key!r} was used for another request within the last day: take a new one")
    return _ANSWER.validate_json(known[1])


def _check_key(key: str) -> str:
    if not 1 <= len(key) <= MAX_KEY_BYTES or not key.isascii() or not key.isprintable():
        raise UsageError(f"Idempotency-Key has {len(key)} characters: 1 to {MAX_KEY_BYTES} printable ASCII ones are needed")
    return key
