"""The schedules that code defines, written to the database."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from rota.db.steps import Steps
from rota.model.schedule import Timing
from rota.model.schedule_record import ScheduleRecord
from rota.model.task import DEFAULT_APP, SYSTEM_PREFIX, TaskSpec
from rota.store import schedule_changes as store
from rota.store import task_sync


def sync(specs: Iterable[TaskSpec], *, app: str = DEFAULT_APP, force: Collection[str] = ()) -> Steps[None]:
    """Create and update the schedules that code gives these tasks, under the tasks' names.

    What an operator has changed stays as it is, and what an operator has deleted stays deleted. For tasks in `force` the schedule
    becomes what code says, or is removed. Tasks that another application defines are left to that one.
    """
    specs = list(specs)
    shared = yield from task_sync.defined_elsewhere([spec.name for spec in specs], app=app)
    specs = [spec for spec in specs if spec.name not in shared]
    yield from ensure_always(specs)
    timings = {spec.name: spec.schedule for spec in specs if spec.schedule is not None}
    yield from _remove([spec.name for spec in specs if spec.name in force and spec.schedule is None])
    if force:
        yield from store.forget_deleted(force)
    if not timings:
        return
    known = yield from store.defined(timings)
    missing = [name for name in timings if name not in known]
    deleted = (yield from store.deleted(missing)) if missing else ()
    now = yield from store.now()
    for name, timing in timings.items():
        record = known.get(name)
        if record is None:
            if name not in deleted:
                yield from create(name, timing, now)
        elif name in force:
            yield from _reset(name, timing, now)
        elif record.definition != _definition(timing) and (found := (yield from store.get_for_change(name))):
            yield from store.update(_merged(found[0], timing, now))
    yield from store.restart_init(timings, each_time=[spec.name for spec in specs if spec.strategy == "init" and not spec.run_once])


def ensure_always(specs: Iterable[TaskSpec]) -> Steps[None]:
    """Create the rows of recurring tasks with `always=True`. Those that exist are neither written nor locked."""
    wanted = {(spec.name, spec.always.key): spec for spec in specs if spec.always is not None}
    if not wanted:
        return
    there = yield from store.always_on([task for task, _ in wanted])
    for (task, key), spec in wanted.items():
        if (task, key) not in there and spec.always is not None:
            yield from store.ensure_recurring(
                task, {key: spec.payload.encode((), {})}, every=spec.always.every, first_run_at=None,
                retry=json.dumps(spec.retry.to_json()), keep_successes=spec.always.keep_successes, always=True,
            )  # fmt: skip


def create(name: str, timing: Timing, now: datetime) -> Steps[ScheduleRecord | None]:
    """Create the schedule that code gives a task; None if one of that name exists."""
    values = {"name": name, "task": name, "payload": {}, "enabled": True, "definition": _definition(timing)}
    values["keep_successes"] = not name.startswith(SYSTEM_PREFIX)
    return (yield from store.create({**values, **store.columns(timing), "next_run_at": timing.first(now)}))


def _remove(names: list[str]) -> Steps[None]:
    for name, record in (yield from store.defined(names)).items() if names else ():
        if record.definition is not None and record.task == name:
            yield from store.delete(name)


def _reset(name: str, timing: Timing, now: datetime) -> Steps[None]:
    found = yield from store.get_for_change(name)
    if found is None:
        return
    record = found[0]
    next_run_at = timing.replanned(record.timing, record.next_run_at, now)
    if not record.enabled and timing.strategy != "init":
        yield from store.set_enabled(name, True)  # what it missed meanwhile goes to its ledger
        next_run_at = timing.first(now)
    values = {"name": name, "task": name, "payload": {}, "enabled": True, "definition": _definition(timing)}
    yield from store.update({**values, **store.columns(timing), "next_run_at": next_run_at})


def _merged(record: ScheduleRecord, timing: Timing, now: datetime) -> dict[str, Any]:
    kept = ("name", "task", "enabled", "queue", "priority", "max_attempts")
    values: dict[str, Any] = {name: getattr(record, name) for name in kept}
    values |= {"payload": None, "definition": _definition(timing)}  # None: as it is stored
    if record.definition == _definition(record.timing):  # nobody but code has had a hand in it
        return {**values, **store.columns(timing), "next_run_at": timing.replanned(record.timing, record.next_run_at, now)}
    return {**values, **store.columns(record.timing), "next_run_at": record.next_run_at}


def _definition(timing: Timing) -> Any:
    return json.loads(json.dumps(store.columns(timing), default=datetime.isoformat))
