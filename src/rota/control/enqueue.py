"""Enqueue by name, for those who do not have the application's code: the rules are those of `rota.enqueue` in SQL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from rota.db.connection import AsyncConn
from rota.errors import Conflict, ParentNotFound, PayloadError, RotaError, UnknownQueue, UnknownTask, UsageError, did_you_mean
from rota.model.duration import parse_duration
from rota.model.filters import check_text
from rota.model.ids import new_id
from rota.model.job import MAX_KEY_BYTES, check_on_parent_failure
from rota.model.retry import check_max_attempts
from rota.model.secret import DRAFT, Record
from rota.model.task import check_priority
from rota.model.vault import payload_digests, seal_payload
from rota.store import jobs_change, schedule_reads


async def enqueue(
    conn: AsyncConn,
    task: str,
    payload: dict[str, Any],
    *,
    queue: str | None = None,
    priority: int | None = None,
    run_at: datetime | None = None,
    delay: timedelta | None = None,
    key: str | None = None,
    strict: bool = False,
    max_attempts: int | None = None,
    timeout: timedelta | None = None,
    parents: Sequence[UUID] = (),
    on_parent_failure: str = "cancel",
    triggered_by: dict[str, Any] | None = None,
) -> tuple[UUID, bool]:
    """Stores a job of a task that some worker has made known; its id, and whether it is new (another may have its key).

    Secrets that the task's code has read are sealed for it.
    """
    for name, text in (("task", task), ("queue", queue), ("key", key)):
        check_text(name, text)
    if priority is not None:
        check_priority(priority)
    if max_attempts is not None:
        check_max_attempts(max_attempts)
    if timeout is not None:
        parse_duration(timeout, name="timeout", positive=True)
    check_on_parent_failure(on_parent_failure)
    if key is not None and not 1 <= len(key.encode()) <= MAX_KEY_BYTES:
        raise UsageError(f"key has {len(key.encode())} bytes, which is out of range: from 1 to {MAX_KEY_BYTES}")
    new, text = new_id(), json.dumps(payload)
    try:
        async with conn.transaction():
            id = await jobs_change.enqueue(
                conn,
                id=new if DRAFT in text else None,
                task=task,
                payload=seal_payload(text, Record("job", str(new)), task),
                digests=payload_digests(text) if key is not None else None,
                queue=queue,
                priority=priority,
                run_at=run_at,
                delay=delay,
                key=key,
                strict=strict,
                max_attempts=max_attempts,
                timeout=timeout,
                parents=list(parents),
                on_parent_failure=on_parent_failure,
                triggered_by=json.dumps(triggered_by) if triggered_by else None,
            )
            return id, await jobs_change.is_new(conn, id)
    except psycopg.DatabaseError as error:
        if (refused := refusal(error)) is not None:
            raise refused from error
        raise


async def check_task(conn: AsyncConn, task: str, payload: dict[str, Any]) -> None:
    """Refuses a task that no worker has made known, and a payload that lacks what it needs or has what it does not know."""
    schema = await schedule_reads.payload_schema(conn, task)
    if schema is None:
        known = await schedule_reads.task_names(conn)
        hint = did_you_mean(task, known, f"known are {', '.join(known) or 'none'}; a worker makes its tasks known when it starts")
        raise UnknownTask(f"there is no task {task!r}: {hint}")
    if missing := [name for name in schema.get("required", ()) if name not in payload]:
        raise PayloadError(f"payload of {task!r} lacks {', '.join(missing)}")
    if schema.get("additionalProperties") is False and (unknown := payload.keys() - schema.get("properties", {}).keys()):
        raise PayloadError(f"task {task!r} has no parameter {', '.join(sorted(unknown))}")
    try:
        await jobs_change.check_payload(conn, task, json.dumps(schema), json.dumps(payload))
    except psycopg.DatabaseError as error:
        if (refused := refusal(error)) is not None:
            raise refused from error
        raise


def refusal(error: psycopg.DatabaseError) -> RotaError | None:
    """Our error for what the functions of the schema say to a job that they do not take; None for errors of other kinds."""
    message, hint = error.diag.message_primary or str(error), error.diag.message_hint
    text = f"{message}. {hint}" if hint else message
    match error.sqlstate:
        case "RT404":
            return UnknownQueue(text) if message.startswith("unknown queue") else UnknownTask(text)
        case "RT409":
            return Conflict(text)
        case "RT422":
            return ParentNotFound(text) if "does not exist" in message else PayloadError(text)
        case "22P05" | "22021" | "22P02":
            return PayloadError(f"the payload cannot be stored: {text} ({error.diag.message_detail})")
    return None
