"""The schedules that code defines, written to the database."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rota.db.steps import Steps
from rota.model.schedule import Timing
from rota.model.schedule_record import ScheduleRecord
from rota.model.task import SYSTEM_PREFIX, TaskSpec
from rota.store import schedule_changes as store


def sync(specs: Iterable[TaskSpec]) -> Steps[None]:
    """Makes the schedules of these tasks known, under the tasks' names. What an operator has changed since stays as it is."""
    timings = {spec.name: spec.schedule for spec in specs if spec.schedule is not None}
    if not timings:
        return
    known = yield from store.defined(timings)
    now = yield from store.now()
    for name, timing in timings.items():
        record = known.get(name)
        if record is None:
            values = {"name": name, "task": name, "payload": {}, "enabled": True, "definition": _definition(timing)}
            values["keep_successes"] = not name.startswith(SYSTEM_PREFIX)
            yield from store.create({**values, **store.columns(timing), "next_run_at": timing.first(now)})
        elif record.definition != _definition(timing) and (found := (yield from store.get_for_change(name))):
            yield from store.update(_merged(found[0], timing, now))
    yield from store.restart_init(timings)


def _merged(record: ScheduleRecord, timing: Timing, now: datetime) -> dict[str, Any]:
    kept = ("name", "task", "payload", "enabled", "queue", "priority", "max_attempts")
    values: dict[str, Any] = {name: getattr(record, name) for name in kept}
    values["definition"] = _definition(timing)
    if record.definition == _definition(record.timing):  # nobody but code has had a hand in it
        return {**values, **store.columns(timing), "next_run_at": timing.replanned(record.timing, record.next_run_at, now)}
    return {**values, **store.columns(record.timing), "next_run_at": record.next_run_at}


def _definition(timing: Timing) -> Any:
    return json.loads(json.dumps(store.columns(timing), default=datetime.isoformat))
