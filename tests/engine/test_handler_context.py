"""What triggers a job is told to its handler and kept with its runs, whichever way it came."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from tests.support.wait import PATIENCE_S, until

from rota import Context, Rota, every
from rota.control.access import Actor
from rota.events import WorkerStarted

Conn = psycopg.Connection[Any]


class Told:
    """What handlers have seen of themselves, by task."""

    def __init__(self) -> None:
        self.by_task: dict[str, dict[str, Any]] = {}

    def note(self, ctx: Context) -> None:
        ctx.log.info("here", attempt=ctx.attempt)
        self.by_task[ctx.task] = {
            "task": ctx.task, "run_id": ctx.run_id, "job_id": ctx.job_id, "attempt": ctx.attempt,
            "scheduled_for": ctx.scheduled_for, "triggered_by": ctx.triggered_by, "log": ctx.log,
        }  # fmt: skip


@pytest.mark.req("C04", "C05", "C06")
async def test_every_way_in_is_told_to_the_handler_and_kept_with_the_run(dsn: str, conn: Conn) -> None:
    told = Told()
    async with Rota(dsn) as app:

        @app.task(on="paid")
        async def by_hook(ctx: Context, order_id: int) -> None:
            told.note(ctx)

        @app.task(on="orders_changed")
        def by_table(ctx: Context, operation: str) -> None:
            told.note(ctx)

        @app.task(schedule=every("1h"))
        async def by_schedule(ctx: Context) -> None:
            told.note(ctx)

        @app.task
        async def by_hand(ctx: Context) -> None:
            told.note(ctx)

        await app.control.sync_definitions()
        conn.execute("CREATE TABLE public.orders (id int PRIMARY KEY)")
        conn.execute("SELECT rota.on_change('orders', 'orders_changed', '{insert}')")
        conn.execute("UPDATE rota.schedule SET next_run_at = rota.now() WHERE name = 'by_schedule'")

        worker = app.worker(poll_interval_s=0.05)
        started = asyncio.Event()
        worker.events.subscribe(WorkerStarted, lambda _: started.set())
        running = asyncio.create_task(worker.run())
        try:
            await asyncio.wait_for(started.wait(), PATIENCE_S)
            await app.aemit("paid", {"order_id": 7})
            conn.execute("INSERT INTO orders VALUES (1)")
            await app.control.acting_as(Actor("ann", "admin")).trigger("by_hand")
            await until(lambda: len(told.by_task) == 4, what="four handlers")
            await until(lambda: conn.execute("SELECT count(*) FROM rota.run WHERE task LIKE 'by_%'").fetchone() == (4,))
        finally:
            worker.stop()
            await asyncio.wait_for(running, PATIENCE_S)

    triggers = {task: seen["triggered_by"] for task, seen in told.by_task.items()}
    assert triggers["by_hook"] == {"kind": "hook", "hook": "paid", "operation": "emit"}
    assert triggers["by_table"] == {"kind": "hook", "hook": "orders_changed", "operation": "insert", "table": "public.orders"}
    assert triggers["by_hand"] == {"kind": "manual", "user": "ann"}
    assert triggers["by_schedule"] == {"kind": "scheduler", "schedule": "by_schedule"}
    for task, seen in told.by_task.items():
        row = conn.execute("SELECT job_id, attempt, triggered_by, scheduled_for FROM rota.run WHERE task = %s", [task]).fetchone()
        assert row is not None
        assert row[:3] == (seen["job_id"], 1, seen["triggered_by"])
        assert (seen["task"], seen["attempt"], seen["run_id"]) == (task, 1, f"{seen['job_id']}/1")
        assert callable(seen["log"].info)
        assert (seen["scheduled_for"] is None) is (task != "by_schedule")
        assert seen["scheduled_for"] == row[3]
    assert told.by_task["by_schedule"]["scheduled_for"] <= datetime.now(UTC)
