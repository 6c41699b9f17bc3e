"""Graceful stop: no new claims → unstarted jobs back → running ones drain → the rest back → closed."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest
from tests.support.engine import Engine
from tests.support.wait import NEVER_S, PATIENCE_S, until

from rota.engine.context import Context
from rota.engine.worker import Worker
from rota.events import RunInterrupted, RunsClaimed, RunsFinished, RunsReleased, WorkerStopped, WorkerStopping


async def start(engine: Engine, **options: object) -> tuple[Worker, asyncio.Task[None]]:
    worker = engine.make_worker(**options)
    return worker, asyncio.create_task(worker.run())


@pytest.mark.req("Q13")
@pytest.mark.parametrize("sync", [False, True])
async def test_running_jobs_drain_and_nothing_new_is_claimed(engine: Engine, sync: bool) -> None:
    gate = threading.Event()
    begun: list[int] = []

    @engine.task(name="async")
    async def work() -> None:
        begun.append(1)
        await until(gate.is_set)

    @engine.task(name="sync")
    def work_in_thread() -> None:
        begun.append(1)
        gate.wait(PATIENCE_S)

    worker, running = await start(engine, concurrency=2)
    first = [engine.enqueue("sync" if sync else "async") for _ in range(2)]
    await until(lambda: len(begun) == 2)
    worker.stop()
    await until(lambda: engine.seen(WorkerStopping))
    later = engine.enqueue("async")
    gate.set()
    await asyncio.wait_for(running, PATIENCE_S)
    assert [engine.state(id) for id in (*first, later)] == ["completed", "completed", "queued"]
    kinds = [type(event) for event in engine.events if type(event) in (WorkerStopping, RunsReleased, RunsFinished, WorkerStopped)]
    assert kinds[0] is WorkerStopping
    assert kinds[-1] is WorkerStopped
    assert engine.seen(WorkerStopping)[0].running == 2
    assert engine.seen(RunInterrupted) == []
    stopped = engine.conn.execute("SELECT stop_reason, stopped_at IS NOT NULL, wants_wake FROM rota.worker").fetchall()
    assert stopped == [("stopped", True, False)]


@pytest.mark.req("Q13")
async def test_what_was_claimed_ahead_goes_back_at_once_and_uncharged(engine: Engine) -> None:
    gate = asyncio.Event()

    @engine.task
    async def quick() -> None: ...

    @engine.task
    async def slow() -> None:
        await gate.wait()

    worker, running = await start(engine, concurrency=1, heartbeat_s=NEVER_S)
    engine.fill(quick, 1000)
    await engine.drained()
    # Seen from the moment of the claim: the worker gives back a stale buffer by itself a little later.
    worker.events.subscribe(RunsClaimed, lambda event: len(event.runs) > 20 and worker.stop())
    engine.fill(slow, 200)
    await until(lambda: engine.seen(RunsReleased), what="at once, not when a heartbeat finds them")
    assert engine.count("rota.job WHERE state = 'running'") == 1, "they wait for the slow one"
    assert engine.count("rota.job WHERE state = 'queued' AND attempt = 0") == 199
    assert not running.done()
    gate.set()
    await asyncio.wait_for(running, PATIENCE_S)
    assert engine.count("rota.job WHERE state = 'queued' AND attempt = 0") == 199


@pytest.mark.req("Q13")
@pytest.mark.fault(15)
@pytest.mark.parametrize("kind", ["async", "sync", "deaf thread", "deaf coroutine"])
async def test_what_does_not_end_in_time_is_released_uncharged(engine: Engine, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    listens = kind in ("async", "sync")
    if listens:
        monkeypatch.setattr("rota.engine.worker.CLEANUP_S", 40.0)  # which nobody has to wait for
    begun, end = threading.Event(), threading.Event()
    told: list[bool] = []

    @engine.task(name="async")
    async def work(ctx: Context) -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            told.append(ctx.canceled)

    @engine.task(name="sync")
    def work_in_thread(ctx: Context) -> None:
        begun.set()
        while not ctx.canceled and not end.wait(0.01):
            pass
        told.append(ctx.canceled)

    @engine.task(name="deaf thread")
    def deaf() -> None:
        begun.set()
        end.wait(NEVER_S)

    @engine.task(name="deaf coroutine")
    async def deaf_too() -> None:
        begun.set()
        while not end.is_set():
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                told.append(True)

    worker, running = await start(engine, shutdown_timeout_s=0.3)
    id = engine.enqueue(kind, max_attempts=1)
    await until(begun.is_set)
    worker.stop()
    done, _ = await asyncio.wait({running}, timeout=PATIENCE_S)
    end.set()
    assert done, "it did not stop"
    row = engine.row(id)
    assert (row.state, row.worker_id, row.attempt - row.forgiven) == ("queued", None, 0)
    assert engine.outcomes(id) == ["released"]
    if listens:
        await until(lambda: told == [True])


@pytest.mark.req("Q13")
@pytest.mark.fault(15)
async def test_the_heart_beats_until_the_end(engine: Engine) -> None:
    """A worker that drains for longer than its lease keeps its jobs, and is alive for all others."""
    begun, gate = asyncio.Event(), asyncio.Event()

    @engine.task
    async def work() -> None:
        begun.set()
        await gate.wait()

    worker, running = await start(engine, lease_s=2.5, heartbeat_s=0.1, shutdown_timeout_s=20)
    id = engine.enqueue(work)
    await until(begun.is_set)
    worker.stop()
    lease_until = engine.row(id).lease_until
    async with engine.worker(lease_s=2.5, heartbeat_s=0.1):  # which would rescue it
        await until(lambda: engine.row(id).lease_until > lease_until + timedelta(seconds=2.5))
        assert engine.row(id).worker_id == worker.id
        gate.set()
        await asyncio.wait_for(running, PATIENCE_S)
    assert engine.outcomes(id) == ["completed"]


@pytest.mark.req("Q13")
async def test_the_second_stop_does_not_wait(engine: Engine) -> None:
    begun = asyncio.Event()

    @engine.task
    async def work() -> None:
        begun.set()
        await asyncio.sleep(60)

    worker, running = await start(engine, shutdown_timeout_s=NEVER_S)
    id = engine.enqueue(work)
    await until(begun.is_set)
    worker.stop()
    await until(lambda: engine.seen(WorkerStopping))
    worker.stop()
    await asyncio.wait_for(running, PATIENCE_S)
    assert engine.outcomes(id) == ["released"]


@pytest.mark.req("Q13")
async def test_nothing_is_left_open(engine: Engine) -> None:
    @engine.task
    def work(ctx: Context) -> None:
        with ctx.transaction() as conn:
            conn.execute("SELECT 1")

    threads = set(threading.enumerate())
    async with engine.worker():
        await engine.ended(*[engine.enqueue(work) for _ in range(8)])
    await until(lambda: engine.count("pg_stat_activity WHERE application_name LIKE 'rota %' AND datname = current_database()") == 0)
    await until(lambda: {thread for thread in threading.enumerate() if not thread.name.startswith("asyncio_")} <= threads)
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("rota")] == []


@pytest.mark.req("Q13")
async def test_a_worker_can_be_stopped_before_it_found_its_database(engine: Engine) -> None:
    worker = engine.make_worker(dsn="postgresql://nobody@127.0.0.1:1/none")
    running = asyncio.create_task(worker.run())
    await asyncio.sleep(0.05)
    worker.stop()
    await asyncio.wait_for(running, PATIENCE_S)
