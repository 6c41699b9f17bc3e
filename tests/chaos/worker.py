"""A worker process under test: the real worker, with what it is told by the database written down too."""

from __future__ import annotations

import asyncio
import os
import signal

import orjson
import uvloop
from tests.chaos import sabotage
from tests.chaos.crew import OPTIONS
from tests.chaos.lifeline import end_with_harness
from tests.chaos.tasks import app, history

from rota.config import LogSettings
from rota.engine.journal import Journal
from rota.engine.options import WorkerOptions
from rota.engine.worker import Worker
from rota.events import Events, RunLeaseLost, RunRescued, RunsFinished
from rota.log import configure_logging


def _write_finished(event: RunsFinished) -> None:
    for run in event.runs:
        history.write("told", job=run.id, attempt=run.attempt, state=run.state, outcome=run.outcome)


def _write_lost(event: RunLeaseLost) -> None:
    history.write("fenced", job=event.run.id, attempt=event.run.attempt, outcome=event.run.outcome)


def _write_rescued(event: RunRescued) -> None:
    history.write("rescued", job=str(event.job_id), attempt=event.attempt, worker=str(event.worker_id))


async def _work(options: WorkerOptions) -> None:
    events = Events()
    worker = Worker(os.environ["CHAOS_DSN"], app.tasks, options, events)
    Journal(events, worker.id)
    events.subscribe(RunsFinished, _write_finished)
    events.subscribe(RunLeaseLost, _write_lost)
    events.subscribe(RunRescued, _write_rescued)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    history.write("worker", worker=str(worker.id))
    await worker.run()


def main() -> None:
    """Work until SIGTERM."""
    end_with_harness()
    configure_logging(LogSettings(format="json"))
    sabotage.in_worker(os.environ.get(sabotage.VARIABLE))
    uvloop.run(_work(WorkerOptions(**orjson.loads(os.environ[OPTIONS]))))


if __name__ == "__main__":
    main()
