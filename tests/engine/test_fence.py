"""The fence: whoever lost the job changes nothing about it any more, and is told so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs
from tests.support.engine import Engine
from tests.support.wait import until

from rota.db.connection import AsyncConn, connect, connect_async
from rota.engine.journal import Journal
from rota.events import RunInterrupted, RunLeaseLost, RunsFinished
from rota.model.ids import new_id
from rota.model.run import Run
from rota.store import runs as store


@pytest.fixture
async def session(dsn: str) -> AsyncIterator[AsyncConn]:
    async with await connect_async(dsn, "test") as conn:
        yield conn


async def claimed(session: AsyncConn, worker: Any) -> Run:
    [run] = await store.claim(session, worker=worker, tasks="{work}", queue="default", limit=1, lease_s=60)
    return run


def snapshot(conn: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    return [
        *conn.execute("SELECT j::text FROM rota.job j ORDER BY 1"),
        *conn.execute("SELECT r::text FROM rota.run r ORDER BY 1"),
        *conn.execute("SELECT e::text FROM rota.job_edge e ORDER BY 1"),
    ]


OUTCOMES = ["completed", "failed", "crashed", "canceled", "snoozed", "released"]


@pytest.mark.req("Q06")
@pytest.mark.parametrize("then", ["queued", "claimed by another", "claimed by the same", "completed", "failed", "canceled"])
async def test_a_stale_ending_is_refused_and_changes_nothing(engine: Engine, session: AsyncConn, then: str) -> None:
    """Whatever has become of the job after it was taken away, and whatever the stale worker says about it."""
    worker, other = new_id(), new_id()
    id = engine.enqueue("work", max_attempts=1 if then == "failed" else 4)
    engine.enqueue("child", parents=[id])
    stale = await claimed(session, worker)
    engine.conn.execute("UPDATE rota.job SET lease_until = now() - interval '1 s' WHERE state = 'running'")
    if then == "failed":
        engine.conn.execute("UPDATE rota.job SET culprit = true WHERE state = 'running'")  # so that the crash is charged
    if then == "canceled":
        engine.conn.execute("SELECT rota.cancel_job(%s)", [id])
    [(_, _, _, _, _, state)] = await store.rescue(session)
    assert state == (then if then in ("failed", "canceled") else "queued")
    if then not in ("queued", "failed", "canceled"):
        newer = await claimed(session, worker if then == "claimed by the same" else other)
        if then == "completed":
            newer.outcome = "completed"
            assert await store.finish(session, worker=other, runs=[newer]) == {str(id): "completed"}
    before = snapshot(engine.conn)
    for outcome in OUTCOMES:
        stale.outcome = outcome
        if (then, outcome) in (("failed", "failed"), ("failed", "crashed"), ("canceled", "canceled")):
            continue  # the same as what the rescuer wrote: it cannot be told from its own word
        if outcome == "completed":
            assert await store.complete(session, worker=worker, runs=[stale]) == {stale.id}
        assert await store.finish(session, worker=worker, runs=[stale]) == {stale.id: None}
    with connect(engine.dsn, "test") as conn:
        assert store.renew(conn, worker=worker, runs=[stale], lease_s=60) == (set(), {stale.id})
    await store.release(session, worker=worker, runs=[stale])
    assert snapshot(engine.conn) == before


@pytest.mark.req("Q06")
@pytest.mark.parametrize("wrong", ["token", "worker", "id"])
async def test_every_part_of_the_fence_counts(engine: Engine, session: AsyncConn, wrong: str) -> None:
    worker = new_id()
    engine.enqueue("work")
    run = await claimed(session, worker)
    run.outcome = "completed"
    before = snapshot(engine.conn)
    match wrong:
        case "token":
            run.token -= 1
        case "worker":
            worker = new_id()
        case "id":
            run.id = str(new_id())
    assert await store.complete(session, worker=worker, runs=[run]) == {run.id}
    assert await store.finish(session, worker=worker, runs=[run]) == {run.id: None}
    with connect(engine.dsn, "test") as conn:
        assert store.renew(conn, worker=worker, runs=[run], lease_s=60) == (set(), {run.id})
    await store.release(session, worker=worker, runs=[run])
    assert snapshot(engine.conn) == before


@pytest.mark.req("Q06")
@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_an_ending_said_twice_counts_once(engine: Engine, session: AsyncConn, outcome: str) -> None:
    """The answer to the first try was lost: the second changes nothing, and it was ours."""
    worker = new_id()
    engine.enqueue("work", max_attempts=2)
    run = await claimed(session, worker)
    run.outcome, run.delay_s = outcome, 3600.0
    first = await store.finish(session, worker=worker, runs=[run])
    before = snapshot(engine.conn)
    if outcome == "completed":
        assert await store.complete(session, worker=worker, runs=[run]) == {run.id}
    assert await store.finish(session, worker=worker, runs=[run]) == first
    assert first[run.id] is not None
    assert snapshot(engine.conn) == before


@pytest.mark.req("Q06")
async def test_completion_clears_the_lease_and_stamps_the_time(engine: Engine) -> None:
    @engine.task
    async def work() -> None: ...

    async with engine.worker():
        id = engine.enqueue(work)
        await engine.ended(id)
    job = engine.job(id)
    assert (job.lease_until, job.state) == (None, "completed")
    assert job.created_at <= job.last_run_at <= job.completed_at <= job.finished_at
    assert engine.row(id) is None


@pytest.mark.req("Q06")
async def test_a_worker_that_lost_the_lease_says_so_and_goes_on(engine: Engine) -> None:
    gate = asyncio.Event()

    @engine.task
    async def work() -> str:
        await gate.wait()
        return "stale"

    with capture_logs() as lines:
        async with engine.worker() as worker:
            Journal(worker.events, worker.id)
            id = engine.enqueue(work)
            await until(lambda: engine.state(id) == "running")
            engine.take_away(id)
            engine.conn.execute("SELECT rota.cancel_job(%s)", [id])
            before = snapshot(engine.conn)
            gate.set()
            await until(lambda: engine.seen(RunLeaseLost))
            assert snapshot(engine.conn) == before
            await engine.ended(engine.enqueue(work))
    assert [line["job_id"] for line in lines if line["event"] == "run.lease_lost"] == [str(id)]
    assert [run.id for event in engine.seen(RunsFinished) for run in event.runs].count(str(id)) == 0


@pytest.mark.req("Q06", "Q11")
async def test_a_handler_is_told_when_the_renewal_finds_the_lease_lost(engine: Engine) -> None:
    told: list[str] = []

    @engine.task
    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.append("canceled")
            raise

    async with engine.worker(lease_s=3.0, heartbeat_s=0.1):
        id = engine.enqueue(work)
        await until(lambda: engine.state(id) == "running")
        engine.take_away(id)
        engine.conn.execute("SELECT rota.cancel_job(%s)", [id])
        await until(lambda: told)
        await until(lambda: engine.seen(RunLeaseLost))
    assert [event.reason for event in engine.seen(RunInterrupted)] == ["lost"]
    assert engine.outcomes(id) == ["lost", "canceled"]
