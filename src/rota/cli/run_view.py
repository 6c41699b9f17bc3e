"""How runs and their errors look on the command line."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import orjson

from rota.cli.output import format_cell
from rota.control.error_groups import qualified
from rota.control.stats import Percentiles, TaskStats
from rota.model.progress import show_progress
from rota.store.runs_read import RunDetail, RunId, RunLine

# What users stored, in which numbers may be too big for the fast encoder.
JSON_FIELDS = ("payload", "result", "error", "triggered_by", "progress")
STATS_COLUMNS = ["completed", "failed", "lost", "a minute", "failure rate", "took p50", "p95", "p99", "waited p50", "p95", "p99"]


def format_line(run: RunLine) -> list[Any]:
    """A run as a row of the list."""
    error = f"{run.error_type}: {run.error}" if run.error_type else run.error
    return [
        str(RunId(run.job_id, run.attempt)),
        run.status,
        run.task,
        run.started_at,
        run.duration,
        run.worker_id,
        trigger(run.triggered_by),
        error and " ".join(error.split())[:100],
    ]


def plain(run: RunLine | RunDetail) -> dict[str, Any]:
    """A run for `--json`."""
    fields = {field.name: getattr(run, field.name) for field in dataclasses.fields(run)}
    exact = {name: exactly(value) for name in JSON_FIELDS if isinstance(value := fields.get(name), dict | list)}
    return {"id": str(RunId(run.job_id, run.attempt)), **fields, **exact}


def print_detail(run: RunDetail) -> None:
    """Prints a run with all that is known of it, for people."""
    values = {
        "run": str(RunId(run.job_id, run.attempt)),
        "task": run.task,
        "status": f"{run.status}{', for good' if run.final and run.status == 'failed' else ''}",
        "queue": run.queue,
        "scheduled for": run.scheduled_for,
        "due": run.run_at,
        "started": run.started_at,
        "finished": run.finished_at,
        "took" if run.finished_at else "for": run.duration,
        "attempt": f"{run.attempt} (at most {run.max_attempts} that count)",
        "timeout": run.timeout,
        "worker": run.worker_id,
        "triggered by": trigger(run.triggered_by),
        "key": run.key,
        "payload": "(gone with the job's history)" if run.payload is None else _text(run.payload),
        "result": None if run.result is None else _text(run.result),
        "progress": run.progress and show_progress(run.progress),
        "error group": run.fingerprint,
    }
    for name, value in values.items():
        if value is not None:
            print(f"{name + ':':15}{format_cell(value)}")
    if run.error:
        print()
        print_error_of(run.error)


def stats_cells(stats: TaskStats) -> list[object]:
    """How a task has fared, as cells of a table."""
    return [
        f"{stats.completed:,}",
        f"{stats.failed:,}",
        f"{stats.lost:,}",
        f"{stats.per_minute:,.3g}",
        None if stats.failure_rate is None else f"{stats.failure_rate:.1%}",
        *_times(stats.duration),
        *_times(stats.wait),
    ]


def print_error_of(error: dict[str, Any]) -> None:
    """Prints a stored error: its traceback, what it was, and what had caused it."""
    for line in _error_lines(error, ""):
        print(line)


def trigger(triggered_by: dict[str, Any] | None) -> str | None:
    """Who or what made the job, in a few words: `scheduler digest`, `manual ada`, `hook user.created`."""
    if not triggered_by:
        return None
    names = (triggered_by.get(name) for name in ("schedule", "hook", "operation", "user"))
    return " ".join(str(word) for word in (triggered_by.get("kind", "?"), *names) if word)


def exactly(value: Any) -> orjson.Fragment:
    """A value as JSON that has any number that Python has."""
    return orjson.Fragment(json.dumps(value))


def _error_lines(error: dict[str, Any], indent: str) -> Iterator[str]:
    if trace := error.get("traceback"):
        yield from (indent + format_cell(line) for line in str(trace).rstrip().split("\n"))
    yield f"{indent}{format_cell(qualified(error))}: {format_cell(error.get('message', ''))}"
    for number, member in enumerate(error.get("errors") or (), 1):
        yield f"{indent}  error {number} of the group:"
        yield from _error_lines(member, indent + "    ")
    for cause in error.get("causes") or ():
        yield f"{indent}caused by, or raised while handling:"
        yield from _error_lines(cause, indent + "  ")


def _times(times: Percentiles | None) -> list[object]:
    return [None] * 3 if times is None else [times.p50, times.p95, times.p99]


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
