"""Runs a worker until SIGTERM: `python -m tests.support.run_worker module:app DSN '{"concurrency": 2}'`."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from importlib import import_module
from typing import Any

import uvloop

from rota import Rota
from rota.config import LogSettings
from rota.engine.journal import Journal
from rota.engine.options import WorkerOptions
from rota.engine.worker import Worker
from rota.log import configure_logging


async def work(app: Rota, dsn: str, options: dict[str, Any]) -> None:
    """Work until told to stop; told again, give up on what runs."""
    worker = Worker(dsn, app.tasks, WorkerOptions(**options))
    Journal(worker.events, worker.id)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, worker.stop)
    await worker.run()


def main(place: str, dsn: str, options: str) -> None:
    """Find the application and run a worker of it."""
    configure_logging(LogSettings())
    module, _, name = place.partition(":")
    uvloop.run(work(getattr(import_module(module), name), dsn, json.loads(options)))


if __name__ == "__main__":
    main(*sys.argv[1:])
