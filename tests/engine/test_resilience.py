"""A worker that something goes wrong in goes on, or ends so that it is noticed; it never looks alive and does nothing."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.support.engine import Engine
from tests.support.wait import PATIENCE_S, until

from rota.engine.context import Context
from rota.events import DatabaseLost, WorkerBroken, WorkerDied
from rota.model.ids import new_id


async def test_a_handler_that_cancels_its_own_task_fails_and_its_slot_lives_on(engine: Engine) -> None:
    @engine.task
    async def cancel_myself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    @engine.task
    async def work() -> None: ...

    async with engine.worker(concurrency=1):
        id = engine.enqueue(cancel_myself, max_attempts=1)
        await engine.ended(id, state="failed")
        assert engine.job(id).last_error["type"] == "CancelledError"
        await engine.ended(engine.enqueue(work))


async def test_a_worker_whose_parts_are_cancelled_stops_and_says_so(engine: Engine) -> None:
    @engine.task
    async def cancel_everything() -> None:
        for task in asyncio.all_tasks():
            if task.get_name() == "rota-upkeep":
                task.cancel()

    worker = engine.make_worker(shutdown_timeout_s=1)
    engine.enqueue(cancel_everything)
    await asyncio.wait_for(worker.run(), PATIENCE_S)
    assert [event.part for event in engine.seen(WorkerBroken)] == ["rota-upkeep"]


@pytest.mark.parametrize("run_at", ["-infinity", "infinity", "0001-01-01 BC"])
def test_a_due_time_that_no_client_can_read_is_refused(conn: psycopg.Connection[Any], run_at: str) -> None:
    """It would stop its queue: a claim that contains it cannot be read by anybody."""
    with pytest.raises(psycopg.errors.CheckViolation, match="job_run_at"):
        conn.execute("INSERT INTO rota.job (id, task, run_at) VALUES (%s, 'work', %s)", [new_id(), run_at])


async def test_a_duty_that_may_not_be_done_does_not_keep_the_others_from_being_done(engine: Engine) -> None:
    """Say, the worker's role may not make partitions: dead workers are found all the same."""
    engine.conn.execute(
        """CREATE OR REPLACE FUNCTION rota.make_run_partitions(ahead integer DEFAULT 4) RETURNS integer LANGUAGE plpgsql AS
           $$ BEGIN RAISE insufficient_privilege; END $$"""
    )
    dead = new_id()
    engine.conn.execute(
        """INSERT INTO rota.worker (id, host, pid, version, queues, tasks, slots, backend_pid, backend_start)
           VALUES (%s, 'gone', 1, '0', '{default}', '{}', 1, 2147483647, now())""",
        [dead],
    )
    async with engine.worker(dead_after_s=0.5, restart_grace_s=0.0):
        await until(lambda: [event.worker_id for event in engine.seen(WorkerDied)] == [dead])
    assert any("tidy" in event.service for event in engine.seen(DatabaseLost))


@pytest.mark.req("Q09", "Q18")
async def test_a_timeout_ends_a_thread_that_did_not_hear_its_cancel(engine: Engine) -> None:
    proceed, started = threading.Event(), threading.Event()

    @engine.task
    def deaf(ctx: Context) -> None:
        started.set()
        proceed.wait(PATIENCE_S)

    try:
        async with engine.worker():
            id = engine.enqueue(deaf, timeout=timedelta(seconds=4))
            await until(started.is_set)
            engine.conn.execute("SELECT rota.cancel_job(%s)", [id])
            await engine.ended(id, state="canceled")
            assert engine.job(id).last_error["type"] == "JobTimeout"
            proceed.set()
    finally:
        proceed.set()
