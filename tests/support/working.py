"""A worker of an application, in the test's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from tests.support.wait import PATIENCE_S

from rota import Rota
from rota.engine.worker import Worker
from rota.events import WorkerStarted


async def working(app: Rota, **options: Any) -> AsyncIterator[Worker]:
    """Run a worker until the block ends, and stop it in order."""
    worker = app.worker(**{"shutdown_timeout_s": PATIENCE_S / 2, **options})
    started = asyncio.Event()
    worker.events.subscribe(WorkerStarted, lambda _: started.set())
    running = asyncio.create_task(worker.run())
    try:
        await asyncio.wait_for(started.wait(), PATIENCE_S)
        yield worker
    finally:
        worker.stop()
        await asyncio.wait_for(running, PATIENCE_S)
