"""How a schedule looks on the command line."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import orjson

from rota.cli.output import format_cell, print_table
from rota.control.schedule_views import ScheduleDetail, describe, last_state
from rota.model.cron import Upcoming
from rota.model.schedule_record import ScheduleRecord
from rota.store.schedule_reads import LedgerLine, ScheduleLine

EXACT = ("payload", "last_error")  # what users stored may have numbers that are too big for the fast encoder
SYMBOLS = {"completed": "✓", "failed": "✗", "canceled": "✗", "running": "…", "queued": "…", "waiting": "…"}


def format_line(line: ScheduleLine) -> list[Any]:
    """A schedule as a row of the list."""
    record = line.record
    return [
        record.label,
        record.task,
        describe(record),
        record.timing.tz if record.strategy == "cron" else None,
        record.enabled,
        record.last_run_at,
        record.next_run_at if record.enabled else None,
        last_state(line),
    ]


def sentence(record: ScheduleRecord) -> str:
    """When it fires and when next, in one line."""
    if not record.enabled:
        return f"{describe(record)}, when it is enabled"
    following = "now running" if record.job_id else f"next {format_cell(record.next_run_at)}"
    return f"{describe(record)}, {following}"


def plain_record(record: ScheduleRecord) -> dict[str, Any]:
    """A schedule for `--json`."""
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record) if field.name != "timing"}
    values |= {field.name: getattr(record.timing, field.name) for field in dataclasses.fields(record.timing)}
    values |= {name: orjson.Fragment(json.dumps(values[name])) for name in EXACT}
    return {"label": record.label, "words": describe(record), **values}


def plain_line(line: ScheduleLine) -> dict[str, Any]:
    """A row of the list for `--json`."""
    return {**plain_record(line.record), "last_state": last_state(line)}


def plain_times(times: Sequence[Upcoming]) -> list[dict[str, Any]]:
    """Times to come for `--json`: the instant, what clocks show in the schedule's zone, and what a clock change does to it."""
    return [{"at": each.at_utc, "local": each.local.isoformat(), "note": each.note or None} for each in times]


def plain_detail(detail: ScheduleDetail) -> dict[str, Any]:
    """A schedule with its times and its story, for `--json`."""
    return {"schedule": plain_record(detail.record), "next": plain_times(detail.upcoming), "ledger": detail.ledger}


def print_times(times: Sequence[Upcoming], *, empty: str) -> None:
    """Prints times to come, as clocks in the schedule's zone show them."""
    notes = any(each.note for each in times)
    print_table(
        ["next", "in UTC", *(["clocks"] if notes else [])],
        [
            [
                each.local.strftime("%a %Y-%m-%d %H:%M:%S %Z"),
                each.at_utc.strftime("%Y-%m-%d %H:%M:%S"),
                *([each.note] if notes else []),
            ]
            for each in times
        ],
        empty=empty,
    )


def print_detail(detail: ScheduleDetail) -> None:
    """Prints a schedule with its times and its story, for people."""
    for name, value in _fields(detail.record).items():
        if value is not None:
            print(f"{name + ':':16}{format_cell(value)}")
    if detail.upcoming:
        print()
        print_times(detail.upcoming, empty="")
    if detail.ledger:
        print()
        print_table(["instant", "outcome", "late", "took", "job", "note"], [_story(line) for line in detail.ledger])


def _fields(record: ScheduleRecord) -> dict[str, Any]:
    timing, error = record.timing, record.last_error
    settled = record.strategy in ("recurring", "init")
    return {
        "name": record.label,
        "task": record.task,
        "when": describe(record),
        "cron": timing.cron and f"{timing.cron}  ({timing.tz})",
        "enabled": record.enabled,
        "next": record.next_run_at if record.enabled else None,
        "last": record.last_run_at,
        "job": record.job_id,
        "starts": timing.starts_at,
        "ends": timing.ends_at,
        "payload": json.dumps(record.payload, ensure_ascii=False),
        "queue": record.queue,
        "priority": record.priority,
        "max attempts": record.max_attempts,
        "misfire": None if settled else _misfire(record),
        "overlap": None if settled else timing.overlap,
        "jitter": timing.jitter or None,
        "start within": timing.start_within,
        "finish within": timing.finish_within,
        "successes": record.successes if settled else None,
        "failures": f"{record.failures}, {record.consecutive_failures} of them in a row" if settled else None,
        "failing since": record.failing_since,
        "last error": error and f"{error.get('type')}: {error.get('message')}",
        "from code": record.definition is not None or None,
        "created": record.created_at,
        "updated": record.updated_at,
    }


def _misfire(record: ScheduleRecord) -> str:
    return f"all, at most {record.timing.catch_up}" if record.timing.misfire == "all" else record.timing.misfire


def _story(line: LedgerLine) -> list[Any]:
    took = line.finished_at - line.started_at if line.finished_at and line.started_at else None
    missed = [f"missed its {each} deadline" for each in line.missed]
    if line.outcome == "skipped":
        return [
            line.instant,
            f"– skipped, {line.reason}",
            None,
            None,
            None,
            [_span(line), *missed] if line.until else missed or None,
        ]
    state = line.state or "fired"
    outcome = f"{SYMBOLS.get(state, '·')} {state}"
    notes = [*missed, *([line.error] if line.error else [])]
    return [line.instant, outcome, line.decided_at - line.instant, took, line.job_id, notes or None]


def _span(line: LedgerLine) -> str:
    count = "uncounted instants" if line.instants is None else f"{line.instants:,} instants"
    return f"{count} until {format_cell(line.until)}"
