"""Making and changing schedules: what code, library, command line and API all go through.

Everything here is steps over a connection: the caller's own, in the caller's transaction, or one of ours.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from rota.db.steps import Steps
from rota.errors import Conflict, NotFound, UnknownTask, UsageError
from rota.model.ids import new_id_text
from rota.model.retry import check_max_attempts
from rota.model.schedule import Timing, changed
from rota.model.schedule_record import ScheduleRecord, read_timing
from rota.model.secret import Record
from rota.model.task import SYSTEM_PREFIX, TaskSpec, check_priority, check_queue_name
from rota.store import schedule_changes as store
from rota.store import schedule_sync, task_sync

MAX_NAME_BYTES = 200
ANY_INTERVAL = Timing("interval", every=timedelta(hours=1))  # what a first schedule's settings are laid over
CLEARABLE = ("queue", "priority", "max_attempts", "starts_at", "ends_at", "start_within", "finish_within")


def create(
    name: str,
    task: str,
    timing: Timing,
    *,
    payload: Mapping[str, Any] | None = None,
    enabled: bool = True,
    queue: str | None = None,
    priority: int | None = None,
    max_attempts: int | None = None,
    tasks: Mapping[str, TaskSpec] | None = None,
) -> Steps[ScheduleRecord]:
    """A new schedule; Conflict if there is one of that name. Where the code of the `tasks` is at hand, its payload must fit it."""
    check_name(name)
    id, own = new_id_text(), dict(payload or {})
    if tasks is not None:
        own = check_task(task, tasks, own, id=id)
    values = {"id": id, "name": name, "task": task, "payload": own, "enabled": enabled, **store.columns(timing)}
    values |= _checked(queue=queue, priority=priority, max_attempts=max_attempts)
    values["next_run_at"] = timing.first((yield from store.now()))
    record = yield from store.create(values)
    if record is None:
        raise Conflict(f"there is a schedule {name!r} already: change it with `rota schedules update {name}`, or take another name")
    return record


def update(
    name: str, *, tasks: Mapping[str, TaskSpec] | None = None, clear: Collection[str] = (), **changes: Any
) -> Steps[ScheduleRecord]:
    """Changes some of a schedule: its timing, payload, task, queue, priority, max_attempts, enabled. None leaves one as it is; what
    is named in `clear` is taken away, or as for every schedule. A task that has no schedule gets one, given cron or every.

    Where the code of the `tasks` is at hand, another task or payload must fit it.
    """
    found = yield from store.get_for_change(name)
    if found is None:
        return (yield from _create_for_task(name, tasks, changes))
    record, now = found
    if unknown_names := [each for each in clear if each not in CLEARABLE]:
        raise UsageError(f"{', '.join(unknown_names)} of a schedule cannot be taken away: only {', '.join(CLEARABLE)} can")
    changes = {key: value for key, value in changes.items() if value is not None} | dict.fromkeys(clear)
    timings = {key: changes.pop(key) for key in list(changes) if key in Timing.__slots__ and key != "strategy"}
    if timings and record.strategy == "init":
        raise UsageError(f"schedule {name!r} is of an init task, which has no times: {', '.join(timings)} cannot be changed")
    timing = changed(record.timing, **timings) if timings else record.timing
    values = {
        "name": name,
        "task": changes.pop("task", record.task),
        "payload": None if (given := changes.pop("payload", None)) is None else dict(given),
        "enabled": changes.pop("enabled", record.enabled),
        "definition": record.definition,
        **store.columns(timing),
        **_checked(**{key: changes.pop(key, getattr(record, key)) for key in ("queue", "priority", "max_attempts")}),
    }
    if changes:
        raise UsageError(f"unknown settings of a schedule: {', '.join(sorted(changes))}")
    if tasks is not None and (values["task"] != record.task or given is not None):
        stored = yield from store.stored_payload(name)
        own = check_task(values["task"], tasks, json.loads(stored) if given is None else given, id=record.id, before=stored)
        values["payload"] = None if given is None else own
    values["next_run_at"] = timing.replanned(record.timing, record.next_run_at, now)
    if values["enabled"] and not record.enabled and record.strategy != "init":
        yield from store.set_enabled(name, True)  # what it missed meanwhile goes to its ledger
        values["next_run_at"] = timing.first(now)
    updated = yield from store.update(values)
    assert updated is not None
    return updated


def set_enabled(name: str, enabled: bool) -> Steps[ScheduleRecord]:
    """Switches a schedule on, from now, or off, with its history kept; or the recurring row `task/key`."""
    if "/" in name:
        return (yield from _set_recurring(name, enabled))
    found = yield from store.get_for_change(name)
    if found is None:
        raise unknown(name)
    record, now = found
    yield from store.set_enabled(name, enabled)
    if enabled and not record.enabled and record.strategy != "init":
        yield from store.set_next(name, record.timing.first(now))
    changed = yield from store.get(name)
    assert changed is not None
    return changed


def delete(name: str) -> Steps[None]:
    """Remove a schedule and its ledger; jobs that it has enqueued stay. One from code stays deleted until it is restored."""
    if not (yield from store.delete(name)):
        raise unknown(name)


def restore(name: str) -> Steps[ScheduleRecord]:
    """Create a deleted schedule again, as code defines it; NotFound if no code does, Conflict if it exists."""
    task = (yield from task_sync.read_known([name])).get(name)
    defined = (task.definition or {}).get("schedule") if task is not None else None
    if defined is None:
        raise NotFound(f"schedule {name!r} is not defined in code: only schedules that a task has in code can be restored")
    record = yield from schedule_sync.create(name, read_timing(defined), (yield from store.now()))
    if record is None:
        raise Conflict(f"schedule {name!r} exists: `rota tasks sync {name} --force` sets it to what code says")
    yield from store.forget_deleted([name])
    return record


def run(name: str, *, user: str | None = None) -> Steps[UUID]:
    """Enqueues a job of a schedule now, beside its times."""
    by = {"kind": "manual", "schedule": name} | ({"user": user} if user else {})
    job = yield from store.run(name, by)
    if job is None:
        raise unknown(name)
    return job


def run_recurring(name: str) -> Steps[None]:
    """Makes the recurring row `task/key` due now."""
    task, _, key = name.partition("/")
    if not (yield from store.run_recurring(task, key)):
        record = yield from get(name)
        why = "its job is live already" if record.enabled else f"it is disabled: `rota schedules enable {name}`"
        raise Conflict(f"{name} cannot be run now: {why}")


def get(name: str) -> Steps[ScheduleRecord]:
    """The schedule of that name, or the recurring row `task/key`."""
    task, slash, key = name.partition("/")
    record = yield from store.get_key(task, key) if slash else store.get(name)
    if record is None:
        raise unknown(name)
    return record


def check_name(name: str) -> None:
    """Refuses a schedule's name that could not be stored or typed."""
    try:
        size = len(name.encode())
    except (AttributeError, UnicodeEncodeError):
        raise UsageError(f"name={name!r} is not text that can be stored") from None
    if name.startswith(SYSTEM_PREFIX):
        raise UsageError(f"name={name!r} of a schedule is not allowed: names that begin with {SYSTEM_PREFIX!r} are Rota's own")
    if not 1 <= size <= MAX_NAME_BYTES or not name.isprintable() or "/" in name or name != name.strip():
        raise UsageError(
            f"name={name!r} of a schedule is not allowed: 1 to {MAX_NAME_BYTES} bytes, printable, without / and spaces at its ends"
        )


def check_task(
    name: str, tasks: Mapping[str, TaskSpec], payload: Mapping[str, Any], *, id: object, before: str = "{}"
) -> dict[str, Any]:
    """Refuses a schedule whose jobs could not run: of a task that code does not define, or with a payload that does not fit.

    Return the payload as the schedule of that id stores it, with its secrets sealed.
    """
    spec = tasks.get(name)
    if spec is None:
        shown = sorted(each for each, known in tasks.items() if not known.system)
        raise UnknownTask(f"there is no task {name!r}: defined are {', '.join(shown) or 'none'}")
    return spec.payload.seal_own(payload, default=spec.default_payload, before=before, record=Record("schedule", str(id)))


def unknown(name: str) -> NotFound:
    """The error for a name that no schedule has."""
    return NotFound(f"there is no schedule {name!r}: `rota schedules list` shows them")


def _create_for_task(name: str, tasks: Mapping[str, TaskSpec] | None, changes: Mapping[str, Any]) -> Steps[ScheduleRecord]:
    """Give the task of that name its first schedule."""
    given = {key: value for key, value in changes.items() if value is not None}
    timings = {key: given.pop(key) for key in list(given) if key in Timing.__slots__ and key != "strategy"}
    known = (yield from task_sync.read_known([name])).get(name)
    if known is None or not timings.keys() & {"cron", "every"} or given.pop("task", name) != name:
        raise unknown(name)
    if known.strategy in ("recurring", "init"):
        raise UsageError(f"task {name!r} is {known.strategy} and cannot have times: create a schedule under another name")
    if unsupported := sorted(given.keys() - {"payload", "enabled", "queue", "priority", "max_attempts"}):
        raise UsageError(f"unknown settings of a schedule: {', '.join(unsupported)}")
    return (yield from create(name, name, changed(ANY_INTERVAL, **timings), **given, tasks=tasks))


def _set_recurring(name: str, enabled: bool) -> Steps[ScheduleRecord]:
    task, _, key = name.partition("/")
    if (yield from store.set_recurring(task, key, enabled)) is None:
        raise unknown(name)
    return (yield from get(name))


def _checked(*, queue: str | None, priority: int | None, max_attempts: int | None) -> dict[str, Any]:
    if queue is not None:
        check_queue_name(queue)
    if priority is not None:
        check_priority(priority)
    if max_attempts is not None:
        check_max_attempts(max_attempts)
    return {"queue": queue, "priority": priority, "max_attempts": max_attempts}
