"""Filters of jobs as SQL: what bounds the walk through an index, and what is looked at row by row."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from psycopg import sql

from rota.model.filters import JobFilter, like
from rota.store.tasks_read import not_system


def parameters(filter: JobFilter) -> dict[str, Any]:
    """The values that the conditions of a filter speak of."""
    values: dict[str, Any] = {
        "since": filter.since,
        "until": filter.until,
        "key": filter.key,
        "task": filter.exact_task or like(filter.task or ""),
        "queue": filter.queue,
        "owner": filter.owner,
        "text": filter.text,
        "fingerprint": filter.fingerprint,
        "ids": list(filter.ids),
    }
    for n, each in enumerate(filter.payload):
        values[f"path_{n}"] = list(each.path)
        values[f"value_{n}"] = like(each.value) if each.is_pattern else each.writings
    return values


def one_of(column: str, values: list[str]) -> sql.Composable:
    """Literals and not parameters: only they let the planner see that a partial index will do."""
    return sql.SQL("{} IN ({})").format(sql.Identifier(column), sql.SQL(", ").join(map(sql.Literal, values)))


def ids_and_times(id_column: str, filter: JobFilter) -> list[sql.Composable]:
    """Which jobs, and when they were created. Ids carry their maker's clock, which may be off: they only bound the walk."""
    conditions: list[sql.Composable] = []
    id = sql.Identifier(id_column)
    if filter.ids:
        conditions.append(sql.SQL("{} = ANY (%(ids)s)").format(id))
    if filter.since is not None:
        at = _moment("since", filter.since)
        conditions.append(sql.SQL("created_at >= {}").format(at))
        conditions.append(sql.SQL("{} >= rota.uuid7_floor(greatest({}, '1971-01-01') - interval '1 day')").format(id, at))
    if filter.until is not None:
        at = _moment("until", filter.until)
        conditions.append(sql.SQL("created_at < {}").format(at))
        conditions.append(sql.SQL("{} < rota.uuid7_floor(greatest({}, '1971-01-01') + interval '1 day')").format(id, at))
    return conditions


def ours(filter: JobFilter) -> list[sql.Composable]:
    """Leaves Rota's own jobs out, unless a task, an error or certain jobs are asked for."""
    asked_for = filter.task is not None or filter.fingerprint is not None or filter.ids
    return [] if asked_for else [not_system(sql.Identifier("task"))]


def matches(filter: JobFilter) -> list[sql.Composable]:
    """What is looked at row by row."""
    conditions: list[sql.Composable] = []
    if filter.task is not None:
        conditions.append(sql.SQL("task = %(task)s" if filter.exact_task else "task LIKE %(task)s"))
    if filter.queue is not None:
        conditions.append(sql.SQL("queue = %(queue)s"))
    if filter.payload:
        conditions.append(sql.SQL("payload_matches"))
    if filter.text is not None:
        conditions.append(sql.SQL("position(lower(%(text)s) IN lower(concat(error ->> 'type', ': ', error ->> 'message'))) > 0"))
    return conditions


def payload_matches(filter: JobFilter) -> list[sql.Composable]:
    """What payloads must have. All as text, which its members are written in: no cast that a strange value could make fail."""
    conditions: list[sql.Composable] = [sql.SQL("true")]
    for n, each in enumerate(filter.payload):
        path, value = sql.Placeholder(f"path_{n}"), sql.Placeholder(f"value_{n}")
        found = sql.SQL("rota.shown(payload) #>> {}::text[]").format(path)
        if each.is_pattern:
            conditions.append(sql.SQL("{} LIKE {}").format(found, value))
        elif each.value == "null" and not each.exact:
            conditions.append(sql.SQL("coalesce({}, json_typeof(rota.shown(payload) #> {}::text[])) = 'null'").format(found, path))
        else:
            conditions.append(sql.SQL("{} = ANY ({}::text[])").format(found, value))
    return conditions


def _moment(name: str, value: datetime | timedelta) -> sql.Composable:
    return sql.SQL("rota.now() - {}" if isinstance(value, timedelta) else "{}::timestamptz").format(sql.Placeholder(name))
