"""How a job looks on the command line."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import orjson

from rota.cli.output import format_cell, print_table
from rota.control.service import JobDetail
from rota.model.progress import show_progress
from rota.store.jobs_read import JobSummary


def format_line(job: JobSummary) -> list[Any]:
    """A job as a row of the list."""
    moment = job.finished_at or (job.run_at if job.state in ("queued", "waiting") else None)
    error = f"{job.error_type}: {job.error}" if job.error_type else job.error
    state = "stopping" if job.state == "running" and job.cancel_requested_at else job.state
    return [job.id, state, job.task, job.queue, job.attempt, job.created_at, moment, error and " ".join(error.split())[:100]]


def plain_detail(detail: JobDetail) -> dict[str, Any]:
    """A job with all its parts, for `--json`."""
    # What users stored may have numbers that are too big for the fast encoder.
    job = {field.name: getattr(detail.job, field.name) for field in dataclasses.fields(detail.job)}
    job |= {name: _exactly(job[name]) for name in ("payload", "result", "last_error", "triggered_by", "retry", "progress")}
    runs = [
        {field.name: getattr(run, field.name) for field in dataclasses.fields(run)}
        | {"result": _exactly(run.result), "error": _exactly(run.error)}
        for run in detail.runs
    ]
    edits = [
        {"attempt": edit.attempt, "edited_at": edit.edited_at, "edited_by": edit.edited_by, "payload": _exactly(edit.payload)}
        for edit in detail.edits
    ]
    return {"job": job, "runs": runs, "parents": detail.parents, "children": detail.children, "edits": edits}


def print_detail(detail: JobDetail) -> None:
    """Prints a job with all its parts, for people."""
    job = detail.job
    values = {
        "id": job.id,
        "task": job.task,
        "state": job.state,
        "queue": f"{job.queue}, priority {job.priority}",
        "attempt": f"{job.attempt} (at most {job.max_attempts} that count)",
        "created": job.created_at,
        "due": job.run_at,
        "last run": job.last_run_at,
        "finished": job.finished_at,
        "worker": job.worker_id,
        "lease until": job.lease_until,
        "asked to stop": job.cancel_requested_at,
        "timeout": job.timeout,
        "key": job.key,
        "owner": job.owner,
        "triggered by": None if job.triggered_by is None else _text(job.triggered_by),
        "progress": job.progress and show_progress(job.progress),
        "payload": _text(job.payload),
        "result": None if job.result is None else _text(job.result),
        "error": job.last_error and f"{job.last_error.get('type')}: {job.last_error.get('message')}",
    }
    for name, value in values.items():
        if value is not None:
            print(f"{name + ':':15}{format_cell(value)}")
    if job.last_error and (trace := job.last_error.get("traceback")):
        print(format_cell(trace))
    if detail.runs:
        print()
        print_table(
            ["attempt", "outcome", "started", "took", "worker", "error"],
            [
                [
                    run.attempt,
                    run.outcome,
                    run.started_at,
                    run.finished_at - run.started_at if run.started_at else None,
                    run.worker_id,
                    run.error and f"{run.error.get('type')}: {run.error.get('message')}",
                ]
                for run in detail.runs
            ],
        )
    if detail.edits:
        print()
        print_table(
            ["edited", "by", "after attempt", "payload until then"],
            [[edit.edited_at, _text(edit.edited_by), edit.attempt, _text(edit.payload)] for edit in detail.edits],
        )
    for name, relatives in (("parent", detail.parents), ("child", detail.children)):
        if relatives:
            print()
            print_table([name, "task", "state"], [[each.id, each.task, each.state or "pruned"] for each in relatives])


def _exactly(value: Any) -> orjson.Fragment:
    return orjson.Fragment(json.dumps(value))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
