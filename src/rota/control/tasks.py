"""Operating tasks: look at them, switch them on and off, change their settings, run one by hand."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rota.control.enqueue import check_task, enqueue
from rota.db.carriers import AsyncPsycopgCarrier
from rota.db.connection import AsyncConn
from rota.db.steps import Steps, atomically, carry_out_async
from rota.errors import Conflict, NotFound, UsageError, did_you_mean
from rota.model.capped import Capped
from rota.model.definition import TaskRecord, override_name, read_overrides
from rota.model.filters import check_text
from rota.model.secret import Record
from rota.model.task import TaskSpec
from rota.model.task_meta import parse_field
from rota.model.vault import records_of
from rota.store import task_sync, tasks_read, workers_read
from rota.store.tasks_read import TaskLine

MAX_LIMIT = 1000
MAX_REASON = 500


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task, how many of its jobs are held because it is disabled, and how many live workers have it in their code."""

    record: TaskRecord
    held: Capped | None  # None: it is not disabled
    workers: int

    @property
    def unknown_to_workers(self) -> bool:
        """Whether no live worker knows it: its jobs would wait, or fail."""
        return self.workers == 0


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Some tasks by name; `next` is what the following page comes after, None when there is none."""

    tasks: list[TaskView]
    next: str | None


@dataclass(frozen=True, slots=True)
class PayloadForm:
    """What the payload of a task looks like: its JSON Schema, and what jobs have that say nothing else."""

    task: str
    description: str
    payload_schema: dict[str, Any]
    default_payload: dict[str, Any]


async def list_tasks(
    conn: AsyncConn,
    *,
    system: bool = False,
    tag: str | None = None,
    fields: Collection[str] = (),
    after: str = "",
    limit: int = 500,
) -> TaskPage:
    """List tasks by name: with this tag and all of these fields, written `team=billing`; Rota's own only with `system`."""
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"limit={limit!r} is out of range: from 1 to {MAX_LIMIT}")
    check_text("tag", tag)
    check_text("after", after)
    match = [parse_field(each) for each in fields]
    lines = await tasks_read.read_all(conn, system=system, tag=tag, fields=match, after=after, limit=limit + 1)
    views = await _views(conn, lines[:limit])
    return TaskPage(views, views[-1].record.name if len(lines) > limit else None)


async def get_task(conn: AsyncConn, name: str) -> TaskView:
    """One task."""
    check_text("task", name)
    line = await tasks_read.get(conn, name)
    if line is None:
        raise await _unknown(conn, name)
    [view] = await _views(conn, [line])
    return view


async def payload_form(conn: AsyncConn, name: str) -> PayloadForm:
    """What the payload of a task looks like."""
    check_text("task", name)
    line = await tasks_read.get(conn, name)
    if line is None:
        raise await _unknown(conn, name)
    record = line.record
    return PayloadForm(record.name, record.description, record.payload_schema, record.default_payload)


async def enable_task(conn: AsyncConn, name: str) -> TaskView:
    """Lets a task's schedules fire and its jobs run again."""
    return await _set_enabled(conn, name, True, None, None)


async def disable_task(conn: AsyncConn, name: str, *, reason: str | None = None, user: str | None = None) -> TaskView:
    """Lets a task's schedules fire no more and its jobs wait, at once and over restarts; what runs already goes on."""
    check_text("reason", reason)
    check_text("user", user)
    if reason is not None and len(reason) > MAX_REASON:
        raise UsageError(f"reason has {len(reason)} letters, which is too long: at most {MAX_REASON}")
    return await _set_enabled(conn, name, False, user, reason)


async def set_task(
    conn: AsyncConn, name: str, settings: Mapping[str, Any], *, tasks: Mapping[str, TaskSpec] | None = None
) -> TaskView:
    """Overrules what code says of a task: max_concurrency, rate, key_concurrency, key_rate, max_attempts, timeout, retry.base,
    retry.cap, retry.jitter, retention_days, retention_count, default_payload. None is no limit, or what holds for all tasks.
    Deploys leave it so."""
    if not settings:
        raise UsageError("nothing to set: name at least one setting, such as max_concurrency=5")
    await get_task(conn, name)
    if "default_payload" in settings and isinstance(settings["default_payload"], Mapping):
        given = dict(settings["default_payload"])
        if tasks is not None and name in tasks:
            before = await tasks_read.stored_default(conn, name)
            own = tasks[name].payload.seal_own(given, default="{}", before=before, record=Record("task", name))
            settings = {**settings, "default_payload": own}
        else:
            await check_task(conn, name, given)

    def steps() -> Steps[bool]:
        record = yield from task_sync.get_stored(name)
        if record is not None:
            changes = read_overrides(record.strategy, settings)
            _check_key_limits(record, changes)
            yield from task_sync.override(record, {**(record.overrides or {}), **changes})
        return record is not None

    return await _changed(conn, name, steps())


async def unset_task(conn: AsyncConn, name: str, settings: Collection[str] = ()) -> TaskView:
    """Lets code say again what these settings of a task are, or all of them."""
    check_text("task", name)
    unwanted = {override_name(each) for each in settings}

    def steps() -> Steps[bool]:
        record = yield from task_sync.get_stored(name)
        if record is not None and record.overrides:
            kept = {each: value for each, value in record.overrides.items() if unwanted and each not in unwanted}
            yield from task_sync.override(record, kept)
        return record is not None

    return await _changed(conn, name, steps())


async def trigger(
    conn: AsyncConn,
    name: str,
    payload: Mapping[str, Any] | None = None,
    *,
    user: str | None = None,
    tasks: Mapping[str, TaskSpec] | None = None,
    **options: Any,
) -> UUID:
    """Enqueues a job of a task by hand: its default payload, with what is given here over it.

    Where the code of the `tasks` is at hand the payload must fit it; else what workers have told about it decides. `options` are
    those of `control.enqueue.enqueue`.
    """
    check_text("user", user)
    record = (await get_task(conn, name)).record
    if record.deleted_from_code:
        raise Conflict(f"task {name!r} cannot be triggered: no code has it any more; deploy the code that has it")
    merged = {**json.loads(await tasks_read.stored_default(conn, name)), **(payload or {})}
    if tasks is not None and name in tasks:
        merged = json.loads(tasks[name].payload.encode_json(merged, records_of(name)))
    triggered_by = {"kind": "manual", **({"user": user} if user else {})}
    id, _ = await enqueue(conn, name, merged, triggered_by=triggered_by, **options)
    return id


def _check_key_limits(record: TaskRecord, changes: Mapping[str, Any]) -> None:
    template = (record.definition or {}).get("concurrency_key", record.concurrency_key)
    for name in ("key_concurrency", "key_rate"):
        if template is None and changes.get(name) is not None:
            raise UsageError(f"{name}={changes[name]!r} means nothing for task {record.name!r}: its code has no concurrency_key")


async def _set_enabled(conn: AsyncConn, name: str, enabled: bool, by: str | None, reason: str | None) -> TaskView:
    check_text("task", name)
    return await _changed(conn, name, task_sync.set_enabled(name, enabled, by=by, reason=reason))


async def _changed(conn: AsyncConn, name: str, steps: Steps[bool]) -> TaskView:
    carrier = AsyncPsycopgCarrier(conn)
    if not await carry_out_async(carrier, atomically(steps, autocommits=carrier.autocommits)):
        raise await _unknown(conn, name)
    return await get_task(conn, name)


async def _views(conn: AsyncConn, lines: list[TaskLine]) -> list[TaskView]:
    live = [worker for worker in await workers_read.read_all(conn, jobs=0) if worker.state == "live"]
    return [TaskView(line.record, line.held, sum(line.record.name in worker.tasks for worker in live)) for line in lines]


async def _unknown(conn: AsyncConn, name: str) -> NotFound:
    known = await tasks_read.names(conn)
    hint = did_you_mean(name, known, "`rota tasks list` shows them; a worker or `rota tasks sync` makes tasks known")
    return NotFound(f"there is no task {name!r}: {hint}")
