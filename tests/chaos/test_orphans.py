"""A worker that ends in order, but cannot say what became of its last job."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from tests.support.engine import Engine
from tests.support.proxy import Proxy
from tests.support.wait import PATIENCE_S, until

from rota.engine.options import WorkerOptions
from rota.engine.worker import Worker


async def work() -> None:
    """Goes on for a moment after the stop; not inside the test, because it runs again in a process of its own."""
    await asyncio.sleep(0.5)


@pytest.mark.req("Q13")
@pytest.mark.fault(7)
async def test_what_a_stopped_worker_could_not_record_runs_again(postgres: Any) -> None:
    with postgres.fresh() as name, psycopg.connect(postgres.dsn(name), autocommit=True) as conn:
        engine = Engine(postgres.dsn(name), conn)
        id = engine.enqueue(engine.task(work))
        with Proxy(postgres.tcp_dsn(name)) as proxy:
            worker = Worker(proxy.dsn, engine.tasks, WorkerOptions())
            running = asyncio.create_task(worker.run())
            await until(lambda: engine.row(id).state == "running")
            proxy.stall("rota completer")
            worker.stop()
            await running
        assert engine.row(id).state == "running", "nothing was recorded"
        again = Worker(engine.dsn, engine.tasks, WorkerOptions())
        running = asyncio.create_task(again.run())
        await until(lambda: engine.row(id) is None)
        again.stop()
        await running
        assert [run.outcome for run in engine.runs(id)] == ["lost", "completed"]


async def test_a_worker_that_is_stopped_at_once_ends_in_order(dsn: str) -> None:
    worker = Worker(dsn, {}, WorkerOptions())
    worker.stop()
    await asyncio.wait_for(worker.run(), PATIENCE_S)
