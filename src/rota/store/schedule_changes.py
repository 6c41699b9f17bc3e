"""Schedules as those see them who make and change them: in their own transaction, on any connection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from rota.db import queries
from rota.db.steps import Query, Steps
from rota.errors import Conflict
from rota.model.schedule import Timing
from rota.model.schedule_record import ScheduleRecord
from rota.model.secret import Record
from rota.model.vault import seal_payload

SQL = queries.load("schedule_changes")


class Recurrence(NamedTuple):
    """A recurring row after a change; `created` says whether it is new."""

    id: UUID
    enabled: bool
    next_run_at: datetime | None  # None: its job is live
    created: bool = False


def now() -> Steps[datetime]:
    """The database's time."""
    [[text]] = yield Query(SQL["schedule_now"])
    return datetime.fromisoformat(text)


def get(name: str) -> Steps[ScheduleRecord | None]:
    """The schedule of that name."""
    rows = yield Query(SQL["schedule_get"], (name,))
    return ScheduleRecord.from_json(rows[0][0]) if rows else None


def get_key(task: str, key: str) -> Steps[ScheduleRecord | None]:
    """The recurring row of a task and key."""
    rows = yield Query(SQL["schedule_get_key"], (task, key))
    return ScheduleRecord.from_json(rows[0][0]) if rows else None


def get_for_change(name: str) -> Steps[tuple[ScheduleRecord, datetime] | None]:
    """The schedule of that name, locked, and the time."""
    rows = yield Query(SQL["schedule_get_for_change"], (name,))
    return (ScheduleRecord.from_json(rows[0][0]), datetime.fromisoformat(rows[0][1])) if rows else None


def stored_payload(name: str) -> Steps[str]:
    """The payload of a schedule as JSON text, with its secrets as they are stored."""
    [[text]] = yield Query(SQL["schedule_stored_payload"], (name,))
    return str(text)


def lock_key(task: str, key: str) -> Steps[None]:
    """Lets nobody else change a recurring row until the transaction ends."""
    yield Query(SQL["recurring_lock"], (task, key))


def create(values: dict[str, Any]) -> Steps[ScheduleRecord | None]:
    """Inserts a schedule; None if there is one of that name."""
    rows = yield Query(SQL["schedule_create"], (_encode(values),))
    return ScheduleRecord.from_json(rows[0][0]) if rows else None


def update(values: dict[str, Any]) -> Steps[ScheduleRecord | None]:
    """Overwrites the schedule of that name, but for a payload that is None; None if there is none."""
    rows = yield Query(SQL["schedule_update"], (_encode(values),))
    return ScheduleRecord.from_json(rows[0][0]) if rows else None


def set_enabled(name: str, enabled: bool) -> Steps[bool]:
    """Switches a schedule on or off; False if there is none of that name."""
    [[found]] = yield Query(SQL["schedule_set_enabled"], (name, str(enabled)))
    return bool(found)


def set_next(name: str, at: datetime | None) -> Steps[None]:
    """Sets when a schedule fires next."""
    yield Query(SQL["schedule_set_next"], (None if at is None else at.isoformat(), name), rows=False)


def delete(name: str) -> Steps[bool]:
    """Removes a schedule and its ledger; its jobs stay."""
    rows = yield Query(SQL["schedule_delete"], (name,))
    return bool(rows)


def deleted(names: Iterable[str]) -> Steps[set[str]]:
    """Return those of these tasks whose schedule from code an operator has deleted."""
    rows = yield Query(SQL["schedule_deleted"], (_text_array(names),))
    return {name for (name,) in rows}


def forget_deleted(names: Iterable[str]) -> Steps[None]:
    """Let syncs create the schedules of these tasks again."""
    yield Query(SQL["schedule_forget_deleted"], (_text_array(names),), rows=False)


def run(name: str, triggered_by: dict[str, Any]) -> Steps[UUID | None]:
    """Enqueues a job of the schedule now; None if there is no such schedule."""
    rows = yield Query(SQL["schedule_run"], (json.dumps(triggered_by), name))
    return UUID(rows[0][0]) if rows else None


def defined(names: Iterable[str]) -> Steps[dict[str, ScheduleRecord]]:
    """Those of these names that exist."""
    rows = yield Query(SQL["schedule_defined"], (_text_array(names),))
    records = (ScheduleRecord.from_json(row[0]) for row in rows)
    return {str(record.name): record for record in records}


def restart_init(names: Iterable[str], *, each_time: Iterable[str] = ()) -> Steps[None]:
    """Run init schedules that have never succeeded again, and those named in `each_time` in any case."""
    yield Query(SQL["schedule_restart_init"], (_text_array(names), _text_array(each_time)), rows=False)


def ensure_recurring(
    task: str,
    payloads: Mapping[str, str],
    *,
    every: timedelta,
    first_run_at: datetime | None,
    retry: str | None,
    keep_successes: bool,
    always: bool = False,
) -> Steps[dict[str, Recurrence]]:
    """Makes sure that there is an enabled row of this task for each key, with the payload that is given for it as JSON."""
    # Secrets are bound to the task: which row will have the key is not known before.
    record = Record("task", task)
    sealed = {key: seal_payload(payload, record, task) for key, payload in payloads.items()}
    rows_given = "[" + ",".join(f"[{json.dumps(key)},{payload}]" for key, payload in sealed.items()) + "]"
    first = None if first_run_at is None else first_run_at.isoformat()
    values = (task, rows_given, str(every.total_seconds()), first, retry, str(keep_successes), str(always))
    rows = yield Query(SQL["recurring_ensure"], values)
    return {key: Recurrence(UUID(id), True, _read_time(next_run_at), bool(created)) for key, id, created, next_run_at in rows}


def always_on(tasks: Iterable[str]) -> Steps[set[tuple[str, str]]]:
    """Return task and key of the rows of these tasks that are always on."""
    rows = yield Query(SQL["recurring_always"], (_text_array(tasks),))
    return {(task, key) for task, key in rows}


def set_recurring(task: str, key: str, enabled: bool) -> Steps[Recurrence | None]:
    """Enable or disable a recurring row; None if there is none. Raises `Conflict` for one that is always on."""
    found = _read_recurrence((yield Query(SQL["recurring_set"], (task, key, str(enabled)))))
    if found is not None and found.enabled and not enabled:
        raise Conflict(
            f"{task}/{key} cannot be disabled: its application needs it always on. "
            f"To stop it all the same, disable its task: `rota tasks disable {task} --reason …`"
        )
    return found


def sync_recurring(task: str, key: str, condition: str, parameters: tuple[str | int | None, ...]) -> Steps[Recurrence | None]:
    """Switches a recurring row on or off as an SQL condition says.

    In two steps, because a statement that has to wait for a row sees it changed but everything else as it was before: two
    transactions that each remove one of the last two subscribers would both find the other's still there. Locked first, the row
    makes the second look after the first has committed.
    """
    rows = yield Query(SQL["recurring_lock"], (task, key))
    if not rows or rows[0][0] is None:
        return None
    statement = SQL["recurring_set"].replace("%s::text::boolean", f"coalesce(({condition}), false)")
    return _read_recurrence((yield Query(statement, (task, key, *parameters))))


def run_recurring(task: str, key: str) -> Steps[bool]:
    """Makes a recurring row due now; False if it is running, disabled or not there."""
    rows = yield Query(SQL["recurring_run"], (task, key))
    return bool(rows)


def columns(timing: Timing) -> dict[str, Any]:
    """A timing as it is stored."""
    values = {name: getattr(timing, name) for name in Timing.__slots__}
    return {name: value.total_seconds() if isinstance(value, timedelta) else value for name, value in values.items()}


def _read_recurrence(rows: Any) -> Recurrence | None:
    return Recurrence(UUID(rows[0][0]), bool(rows[0][1]), _read_time(rows[0][2])) if rows else None


def _read_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _text_array(values: Iterable[str]) -> str:
    return "{" + ",".join(json.dumps(value) for value in values) + "}"


def _encode(values: dict[str, Any]) -> str:
    return json.dumps(values, default=datetime.isoformat)
