"""Edit and retry: a job that cannot succeed with the payload it has runs again with another one, and that is written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any
from uuid import UUID

import psycopg

from rota.control.enqueue import refusal
from rota.control.service import change_one, no_job, retried
from rota.db.connection import AsyncConn
from rota.errors import InvalidTransition, PayloadError, UsageError
from rota.model.job import encode_object
from rota.model.payload import MAX_PAYLOAD_BYTES
from rota.model.task import TaskSpec
from rota.model.vault import Records, carry_over, records_of, seal_payload
from rota.store import jobs_change
from rota.store.jobs_read import EditedJob

# The payload of a task, as JSON text, as the task's own code wants it stored; None: there is no such code here. Its secrets may be
# stored in these records.
Validate = Callable[[str, str, Records], str | None]


def by_code(tasks: Mapping[str, TaskSpec]) -> Validate:
    """Validates by the signatures of these tasks."""
    return lambda task, payload, records: tasks[task].payload.encode_json(payload, records) if task in tasks else None


async def edit_job(
    conn: AsyncConn,
    id: UUID,
    payload: Mapping[str, Any] | None = None,
    *,
    changes: Mapping[str, Any] | None = None,
    editor: Mapping[str, Any],
    validate: Validate | None = None,
) -> EditedJob:
    """Retries a failed, canceled or queued job with another payload, or with some members of its payload changed.

    It keeps its id, its key and its history; what the payload was, who changed it and when are kept too. By `validate` the payload
    must fit the task's own signature; without, it must have the members that the database knows the task to need.

    `[redacted]` keeps a secret as it is stored; an HTTP job that is given another origin loses its secrets.
    """
    if (payload is None) == (changes is None):
        raise UsageError("say what the payload shall be: all of it (payload), or the members that change (changes), and not both")
    name = "payload" if changes is None else "changes"
    try:
        given = encode_object(name, payload if payload is not None else changes or {})
    except UsageError as error:
        raise PayloadError(str(error)) from error
    if len(given) > MAX_PAYLOAD_BYTES:
        raise PayloadError(f"{name} has {len(given)} characters, more than the {MAX_PAYLOAD_BYTES} allowed")
    known = await jobs_change.read_payload(conn, id, changes="{}" if changes is None else given)
    if known is None:
        raise no_job(id)
    records = records_of(known.task, job=id, owner=known.owner, schedule=known.schedule_id)
    wanted, dropped = carry_over(known.text, given if changes is None else known.changed, known.task)
    valid = validate(known.task, wanted, records) if validate is not None else None
    stored = seal_payload(valid or wanted, records["job"], known.task)
    # Changes are to what we have seen; a whole payload replaces whatever is there.
    expected = None if changes is None else known.text
    job = await retried(conn, id, await _edit(conn, id, stored, encode_object("editor", editor), expected))
    return EditedJob(**{field.name: getattr(job, field.name) for field in fields(job)}, dropped_secrets=dropped)


async def _edit(conn: AsyncConn, id: UUID, payload: str, editor: str, expected: str | None) -> str | None:
    async def edit(conn: AsyncConn, ids: list[UUID]) -> dict[UUID, str | None]:
        return {id: await jobs_change.edit(conn, id, payload=payload, editor=editor, expected=expected) for id in ids}

    try:
        was = await change_one(conn, id, edit)
    except psycopg.DatabaseError as error:
        if (refused := refusal(error)) is not None:
            raise refused from error
        raise
    if was == "recurring":
        raise InvalidTransition(
            f"job {id} is of a recurring row, whose payload it has: change the row with `ensure` and retry the job as it is"
        )
    return was
