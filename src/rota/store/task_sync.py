"""The tasks that code defines, written to the database: steps for any connection."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rota.db import queries
from rota.db.steps import Query, Steps
from rota.errors import OwnedElsewhere
from rota.model.definition import (
    Definition,
    Overrides,
    TaskRecord,
    define,
    effective,
    hash_definition,
)
from rota.model.limits import NO_LIMITS, QueueLimits
from rota.model.shape import hash_shape, shape_of, show_shape
from rota.model.task import DEFAULT_APP, TaskSpec

SQL = queries.load("tasks")


@dataclass(slots=True)
class Synced:
    """What a sync did, by the names of tasks."""

    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)  # they were gone from code
    gone: list[str] = field(default_factory=list)


def sync(specs: Iterable[TaskSpec], *, app: str = DEFAULT_APP, force: Collection[str] = ()) -> Steps[Synced]:
    """Makes these tasks known as their code defines them. What operators have changed stays, but for tasks in `force`.

    Rows that are right already are neither written nor locked: a worker must be able to start while somebody holds one.
    """
    definitions = {spec.name: define(spec) for spec in sorted(specs, key=lambda spec: spec.name)}  # in one order: no deadlocks
    known = yield from read_known(definitions)
    check_owners(definitions.values(), known, app=app, force=force)
    done = Synced()
    for name, definition in definitions.items():
        digest = hash_definition(definition)
        record = known.get(name)
        if record is None:
            if (yield from _create(definition, digest, app)):
                done.created.append(name)
                continue
        elif name not in force and is_current(record, digest, app):
            continue
        record = yield from get_stored(name)
        if record is not None and (name in force or not is_current(record, digest, app)):
            check_owners([definition], {name: record}, app=app, force=force)
            yield Query(SQL["tasks_update"], (json.dumps(_merged(record, definition, digest, app, name in force)),), rows=False)
            (done.returned if record.deleted_from_code else done.changed).append(name)
    if touched := done.changed + done.returned:
        yield Query(SQL["tasks_admit"], (text_array(touched),), rows=False)
    return done


def declare_queues(
    names: Iterable[str], limits: Mapping[str, QueueLimits] = NO_LIMITS, *, app: str = DEFAULT_APP, force: bool = False
) -> Steps[None]:
    """Make queues known, and what code says of their limits. Limits that another application has set are left to that one, and
    other ones refused, unless forced."""
    names = [*names, *limits]
    yield Query(SQL["tasks_sync_queues"], (text_array(names),), rows=False)
    if not limits:
        return
    said = {name: asdict(each) if each else None for name, each in limits.items()}
    if not force:
        for name, owner, theirs in (yield Query(SQL["tasks_queues_of_others"], (text_array(said), app))):
            if said.pop(name) not in (None, theirs):
                raise OwnedElsewhere(
                    f"app {owner!r} sets the limits of queue {name!r} to {_show_limits(QueueLimits(**theirs))}; app {app!r} "
                    f"sets them to {_show_limits(limits[name])}. Leave them to one of the two, or run `rota tasks sync --force` to "
                    f"set them as {app!r} does"
                )
    yield Query(SQL["tasks_limit_queues"], (app, json.dumps(said)), rows=False)


def leave(app: str, names: Iterable[str]) -> Steps[list[str]]:
    """Says that an application has these in its code no longer; those that none has any more."""
    rows = yield Query(SQL["tasks_leave"], (app, app, text_array(names)))
    return sorted(name for name, is_gone in rows if is_gone)


def of_app(app: str) -> Steps[list[str]]:
    """The tasks that an application had in its code when it was last seen."""
    rows = yield Query(SQL["tasks_of_app"], (app,))
    return [name for (name,) in rows]


def defined_elsewhere(names: Iterable[str], *, app: str) -> Steps[set[str]]:
    """Those of these tasks that another application defines."""
    rows = yield Query(SQL["tasks_defined_elsewhere"], (text_array(names), app))
    return {name for (name,) in rows}


def read_known(names: Iterable[str]) -> Steps[dict[str, TaskRecord]]:
    """Those of these names that exist."""
    rows = yield Query(SQL["tasks_known"], (text_array(names),))
    return {record.name: record for record in (TaskRecord.from_json(row[0]) for row in rows)}


def get_for_change(name: str) -> Steps[TaskRecord | None]:
    """The task of that name, locked."""
    rows = yield Query(SQL["tasks_get_for_change"], (name,))
    return TaskRecord.from_json(rows[0][0]) if rows else None


def get_stored(name: str) -> Steps[TaskRecord | None]:
    """The task of that name, locked, with its secrets as they are stored: to be written back, and shown to no caller."""
    rows = yield Query(SQL["tasks_get_stored"], (name,))
    return TaskRecord.from_json(rows[0][0]) if rows else None


def set_enabled(name: str, enabled: bool, *, by: str | None, reason: str | None) -> Steps[bool]:
    """Switches a task on or off; False if there is none of that name."""
    [[found]] = yield Query(SQL["tasks_set_enabled"], (name, str(enabled), by, reason))
    return bool(found)


def override(record: TaskRecord, overrides: Overrides) -> Steps[None]:
    """Sets what operators have changed of a task, all of it; what is not named is as code says."""
    definition = record.definition or stored_definition(record)
    values = effective(definition, overrides)
    yield Query(SQL["tasks_override"], (json.dumps({**values, "overrides": overrides or None}),), rows=False)
    yield Query(SQL["tasks_admit"], (text_array([record.name]),), rows=False)


def is_current(record: TaskRecord, digest: str, app: str) -> bool:
    """Whether a task is stored as its code, with this hash, defines it; of several applications the first one defines it."""
    if app not in record.apps or record.deleted_from_code:
        return False
    return record.definition_hash == digest or not _defines(app, record)


def check_owners(
    definitions: Iterable[Definition], known: Mapping[str, TaskRecord], *, app: str, force: Collection[str] = ()
) -> None:
    """Refuse tasks of this application that another one has under the same name with other arguments."""
    for definition in definitions:
        record = known.get(definition["name"])
        if record is None or record.system or _defines(app, record) or record.name in force:
            continue
        theirs, ours = record.payload_schema, definition["payload_schema"]
        if shape_of(theirs) != shape_of(ours):
            raise OwnedElsewhere(
                f"task {record.name!r} belongs to app {record.apps[0]!r}, as {record.name}({show_shape(theirs)}); "
                f"app {app!r} has a task of the same name, {record.name}({show_shape(ours)}). "
                f"Rename one of them, or run `rota tasks sync --force {record.name}` to give the name to {app!r}"
            )


def _show_limits(limits: QueueLimits) -> str:
    return ", ".join(f"{name}={value}" for name, value in asdict(limits).items() if value is not None)


def _defines(app: str, record: TaskRecord) -> bool:
    return record.system or record.apps[:1] in ([], [app])


def stored_definition(record: TaskRecord) -> Definition:
    """What holds of a task of which no code has been seen, as if code had said so."""
    names = ("name", "max_attempts", "timeout_s", "max_concurrency", "rate", "concurrency_key", "key_concurrency", "key_rate",
             "retention_days", "retention_count", "default_payload")  # fmt: skip
    policy = record.retry or {"base": 5.0, "cap": 300.0, "jitter": 1.0}
    return {name: getattr(record, name) for name in names} | {"retry": policy}


def text_array(values: Iterable[str]) -> str:
    """As PostgreSQL writes an array of text."""
    return "{" + ",".join(json.dumps(value, ensure_ascii=False) for value in values) + "}"


def _create(definition: Definition, digest: str, app: str) -> Steps[bool]:
    values = {
        **effective(definition, None),
        "schema_hash": hash_shape(definition["payload_schema"]),
        "definition": definition,
        "definition_hash": digest,
        "apps": [app],
    }
    return bool((yield Query(SQL["tasks_create"], (json.dumps(values),))))


def _merged(record: TaskRecord, definition: Definition, digest: str, app: str, forced: bool) -> dict[str, Any]:
    """Code says what it is, operators whether it runs and within which limits."""
    if not forced and not _defines(app, record):  # the application that defines it has the same arguments, so both can run it
        definition, digest = record.definition or definition, record.definition_hash or digest
    overrides = None if forced else record.overrides
    return {
        **effective(definition, overrides),
        "enabled": definition["enabled"] if forced else record.enabled,
        "overrides": overrides,
        "schema_hash": hash_shape(definition["payload_schema"]),
        "definition": definition,
        "definition_hash": digest,
        "apps": [app] if forced and not record.system else [*record.apps, *({app} - {*record.apps})],
    }
