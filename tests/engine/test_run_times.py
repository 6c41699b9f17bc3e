"""When a run started and finished: the database's clock and measured durations, and never a time that is still to come."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from tests.support.engine import Engine

from rota.contrib.testing.clock import Clock
from rota.db.carriers import AsyncPsycopgCarrier
from rota.db.connection import AsyncConn, connect_async
from rota.db.steps import carry_out_async
from rota.model.ids import new_id
from rota.model.run import Run
from rota.store import runs as store

pytestmark = pytest.mark.req("Q06", "C04")

OUTCOMES = ["completed", "failed", "crashed", "canceled", "snoozed", "released"]


@pytest.fixture
async def session(dsn: str) -> AsyncIterator[AsyncConn]:
    async with await connect_async(dsn, "test") as conn:
        yield conn


async def end(session: AsyncConn, worker: Any, run: Run, way: str) -> None:
    """Record the end of a run in one of the ways that workers have."""
    run.outcome = way if way in OUTCOMES else "completed"
    if way == "in a batch":
        assert await store.complete(session, worker=worker, runs=[run]) == set()
    elif way == "in a batch of schedules":
        assert await store.complete_scheduled(session, worker=worker, runs=[run]) == set()
    elif way == "in the handler's transaction":
        steps = store.complete_within(worker=worker, run=run, took_s=run.took_s, result=None)
        await carry_out_async(AsyncPsycopgCarrier(session), steps)
    else:
        assert await store.finish(session, worker=worker, runs=[run]) != {run.id: None}


WAYS = [*OUTCOMES, "in a batch", "in a batch of schedules", "in the handler's transaction"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_slow_claim_moves_no_run_into_the_future(engine: Engine, session: AsyncConn, way: str) -> None:
    """The request took a minute to reach the database: the job started when it was there, not a minute later."""
    worker = new_id()
    id = engine.enqueue("work")
    [run] = await store.claim(
        session, worker=worker, tasks="{work}", queue="default", limit=1, lease_s=600, now=time.monotonic() - 60
    )
    claimed_at = engine.row(id).claimed_at
    run.arrived = run.started = time.monotonic()
    await end(session, worker, run, way)
    [recorded] = engine.runs(id)
    assert (recorded.started_at, recorded.finished_at) == (claimed_at, claimed_at)


@pytest.mark.parametrize("way", WAYS)
async def test_a_clock_that_is_set_back_leaves_no_run_in_the_future(engine: Engine, session: AsyncConn, way: str) -> None:
    clock = Clock(engine.conn)
    worker = new_id()
    id = engine.enqueue("work")
    [run] = await store.claim(session, worker=worker, tasks="{work}", queue="default", limit=1, lease_s=600, now=time.monotonic())
    run.arrived = run.started = time.monotonic()
    run.took_s = 2.0
    clock.move(timedelta(hours=-1))
    await end(session, worker, run, way)
    [recorded] = engine.runs(id)
    assert recorded.started_at <= recorded.finished_at <= clock.now()


async def test_what_ends_in_its_own_transaction_took_as_long_as_it_took(engine: Engine, session: AsyncConn) -> None:
    """The clock of a transaction stands still: it must not cut the handler's time short."""
    worker = new_id()
    id = engine.enqueue("work")
    [run] = await store.claim(session, worker=worker, tasks="{work}", queue="default", limit=1, lease_s=600, now=time.monotonic())
    run.arrived = run.started = time.monotonic()
    async with session.transaction():
        await carry_out_async(AsyncPsycopgCarrier(session), store.hold(worker=worker, run=run))
        await session.execute("SELECT pg_sleep(0.1)")
        run.took_s = 0.1
        await end(session, worker, run, "in the handler's transaction")
    [recorded] = engine.runs(id)
    assert recorded.finished_at - recorded.started_at == timedelta(seconds=0.1)


async def test_a_run_that_is_taken_from_a_dead_worker_ends_after_it_began(engine: Engine, session: AsyncConn) -> None:
    worker = new_id()
    id = engine.enqueue("work")
    await store.claim(session, worker=worker, tasks="{work}", queue="default", limit=1, lease_s=600)
    Clock(engine.conn).move(timedelta(hours=-1))
    assert len(await store.rescue(session, dead=[worker])) == 1
    [recorded] = engine.runs(id)
    assert recorded.started_at <= recorded.finished_at
