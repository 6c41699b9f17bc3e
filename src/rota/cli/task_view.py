"""How a task, and a plan of a deploy, look on the command line."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from typing import Any

import orjson

from rota.cli.output import format_cell, print_table, say
from rota.control.sync import Change, Drift, Misfits, Plan
from rota.control.tasks import TaskView
from rota.control.words import number, shorten
from rota.model.definition import TaskRecord, shown_override
from rota.model.limits import show_limits

EXACT = ("default_payload", "definition", "payload_schema", "overrides")  # numbers may be too big for the fast encoder


def format_line(view: TaskView) -> list[Any]:
    """A task as a row of the list."""
    record = view.record
    return [
        record.name,
        record.strategy,
        record.queue,
        _switch(view),
        record.max_concurrency,
        view.workers or "no live worker knows it",
        [*record.tags, *_fields(record)] or None,
        shorten(record.description, 80) or None,
    ]


def plain(view: TaskView) -> dict[str, Any]:
    """A task for `--json`."""
    values = {field.name: getattr(view.record, field.name) for field in dataclasses.fields(view.record)}
    values |= {name: orjson.Fragment(json.dumps(values[name])) for name in EXACT}
    return {
        **values,
        "deleted_from_code": view.record.deleted_from_code,
        "held": view.held,
        "workers": view.workers,
        "unknown_to_workers": view.unknown_to_workers,
    }


def print_task(view: TaskView) -> None:
    """Prints a task, for people."""
    record = view.record
    policy = record.retry or {}
    values = {
        "task": record.name,
        "description": record.description or None,
        "tags": record.tags or None,
        "fields": _fields(record) or None,
        "strategy": "once ever" if record.run_once else "init, at each sync" if record.strategy == "init" else record.strategy,
        "schedule": record.schedule_deleted_at
        and f"deleted {format_cell(record.schedule_deleted_at)}; `rota schedules restore {record.name}` creates it again",
        "listens to": record.listens or None,
        "queue": f"{record.queue}, priority {record.priority}",
        "enabled": _switch(view),
        "attempts": record.max_attempts,
        "retry": policy and f"after {policy['base']:g} s, doubled up to {policy['cap']:g} s, and up to {policy['jitter']:g} s more",
        "timeout": None if record.timeout_s is None else timedelta(seconds=record.timeout_s),
        "limit": show_limits(record.max_concurrency, record.rate) or None,
        "limit of a key": record.concurrency_key
        and f"{record.concurrency_key}: {show_limits(record.key_concurrency, record.key_rate) or 'none'}",
        "retention": _retention(record),
        "changed": overrides(record) or None,
        "payload": json.dumps(record.default_payload, ensure_ascii=False) if record.default_payload else None,
        "schema": json.dumps(record.payload_schema.get("properties", {}), ensure_ascii=False),
        "workers": f"{view.workers} live" if view.workers else "no live worker knows it",
        "applications": record.apps or None,
        "gone": record.deleted_from_code_at and f"no code has it since {format_cell(record.deleted_from_code_at)}",
        "hash": record.definition_hash,
        "synced": record.synced_at,
    }
    for name, value in values.items():
        if value is not None:
            print(f"{name + ':':14}{format_cell(value)}")


def overrides(record: TaskRecord) -> str:
    """What operators have changed, in one line."""
    return ", ".join(f"{shown_override(name)}={_value(value)}" for name, value in (record.overrides or {}).items())


def plain_plan(plan: Plan) -> dict[str, Any]:
    """A plan for `--json`."""
    return {
        "compatible": plan.compatible,
        "changes": [
            {"task": each.task, "kind": each.kind, "fields": {k: [_exactly(a), _exactly(b)] for k, (a, b) in each.fields.items()}}
            for each in plan.changes
        ],
        "drift": [
            {"task": each.task, "setting": each.setting, "code": _exactly(each.code), "database": _exactly(each.database)}
            for each in plan.drift
        ],
        "payloads": plan.payloads,
        "orphans": plan.orphans,
        "scanned": plan.scanned,
        "cut": plan.cut,
    }


def print_plan(plan: Plan) -> None:
    """Prints a plan, for people; of Rota's own tasks only what stands in the way."""
    changes = [each for each in plan.changes if not each.system]
    print_table(["sync would", "task", "what"], [_change(each) for each in changes], empty="a sync would change nothing")
    if plan.drift:
        print()
        print_table(["operators changed", "setting", "code", "database"], [_drift(each) for each in plan.drift])
    for title, misfits in (("payloads that do not fit", plan.payloads), ("no task in code", plan.orphans)):
        if misfits:
            print()
            print_table([title, "jobs", "schedules", "such as"], [_misfit(each) for each in misfits])
    what = "all" if not plan.cut else "the oldest"
    say(f"looked at {what} live jobs and schedules: {plan.scanned:,}" + ("; --scan looks at more" if plan.cut else ""))


def _fields(record: TaskRecord) -> list[str]:
    return [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in record.fields.items()]


def _switch(view: TaskView) -> str | None:
    record = view.record
    if record.deleted_from_code:
        return "gone from code"
    if record.enabled:
        return "yes"
    held = f", {number(view.held, 'job')} held" if view.held else ""
    reason = f" ({shorten(record.disable_reason, 60)})" if record.disable_reason else ""
    by = f" by {record.disabled_by}" if record.disabled_by else ""
    return f"no{by}{reason}{held}"


def _retention(record: TaskRecord) -> str | None:
    parts = [
        f"{record.retention_days} days" if record.retention_days else "",
        f"{record.retention_count:,} runs" if record.retention_count else "",
    ]
    return ", ".join(filter(None, parts)) or None


def _change(change: Change) -> list[Any]:
    words = {"new": "create", "changed": "change", "returned": "bring back", "gone": "mark as gone", "kept": "keep"}
    if change.kind == "kept":
        return [
            words["kept"],
            change.task,
            "not in this code, but a live worker has it: name the applications, or sync again later",
        ]
    fields = [
        f"{name}: {_value(before)} → {_value(now)}" for name, (before, now) in change.fields.items() if name != "payload_schema"
    ]
    return [words[change.kind], change.task, [*fields, *(["payload schema"] if "payload_schema" in change.fields else [])] or None]


def _drift(drift: Drift) -> list[Any]:
    return [drift.task, drift.setting, _value(drift.code), _value(drift.database)]


def _misfit(each: Misfits) -> list[Any]:
    return [
        each.task,
        each.jobs,
        each.schedules,
        "; ".join(f"{label}: {shorten(reason, 120)}" for label, reason in each.examples[:2]),
    ]


def _value(value: Any) -> str:
    return "none" if value is None else shorten(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 80)


def _exactly(value: Any) -> orjson.Fragment:
    return orjson.Fragment(json.dumps(value))
