"""`rota workers`: list."""

from __future__ import annotations

import typer

from rota.cli.database import run
from rota.cli.output import JsonOption, print_json, print_table
from rota.store.workers_read import WorkerRecord

app = typer.Typer(help="List the worker processes.", no_args_is_help=True, add_completion=False, rich_markup_mode=None)

JOBS_SHOWN = 3


@app.callback()
def workers() -> None:
    """List the worker processes."""


@app.command(name="list")
def list_(as_json: JsonOption = False) -> None:
    """List the workers of the last day and what they run."""
    found = run(lambda control: control.list_workers())
    if as_json:
        print_json(found)
        return
    print_table(
        ["id", "state", "app", "host", "pid", "queues", "holds", "slots", "last seen", "started", "jobs"],
        [
            [
                worker.id,
                worker.state,
                worker.app,
                worker.host,
                worker.pid,
                worker.queues,
                worker.holds,
                worker.slots,
                worker.seen_ago,
                worker.started_at,
                _jobs(worker),
            ]
            for worker in found
        ],
        empty="no worker has run in the last day: start one with `rota worker -a module:app`",
    )


def _jobs(worker: WorkerRecord) -> list[str]:
    names = [f"{job['task']} {job['id']}" for job in worker.jobs[:JOBS_SHOWN]]
    return names + ([f"{worker.holds - JOBS_SHOWN:,} more"] if worker.holds > JOBS_SHOWN else [])
