"""Cancel: a queued job never runs, a running one is asked to stop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any
from uuid import UUID

import pytest
from tests.support.engine import Engine
from tests.support.wait import NEVER_S, until

from rota.engine.context import Context
from rota.events import RunInterrupted, RunsClaimed
from rota.model.retry import Retry


def cancel(engine: Engine, id: Any, why: str | None = None) -> str | None:
    row = engine.conn.execute("SELECT rota.cancel_job(%s, %s)", [id, why]).fetchone()
    assert row is not None
    return row[0]  # type: ignore[no-any-return]


@pytest.mark.req("Q09")
async def test_a_queued_job_never_runs(engine: Engine) -> None:
    ran: list[str] = []

    @engine.task
    async def work() -> None:
        ran.append("work")

    id = engine.enqueue(work)
    assert cancel(engine, id, "not needed") == "queued"
    async with engine.worker():
        await engine.ended(engine.enqueue(work))
    assert ran == ["work"]
    [run] = engine.runs(id)
    assert (run.outcome, run.final, run.started_at, run.error["message"]) == ("canceled", True, None, "not needed")
    assert cancel(engine, id) is None


@pytest.mark.req("Q09")
@pytest.mark.parametrize("then", ["it waits", "its worker stops"])
async def test_a_claimed_job_that_has_not_been_started_never_is(engine: Engine, monkeypatch: pytest.MonkeyPatch, then: str) -> None:
    """Claimed ahead, it lies with a worker whose slot is taken; it does not go on to be started there or by another."""
    monkeypatch.setattr("rota.engine.upkeep.STALE_BUFFER_S", 60.0)  # or it would be given back before it is noticed
    gate = asyncio.Event()
    ran: list[UUID] = []
    unwanted: list[UUID] = []

    @engine.task
    async def quick() -> None: ...

    @engine.task
    async def slow(ctx: Context) -> None:
        ran.append(ctx.job_id)
        await gate.wait()

    def cancel_the_last(event: RunsClaimed) -> None:
        if len(event.runs) > 1 and event.runs[-1].task == "slow" and not unwanted:
            unwanted.append(UUID(event.runs[-1].id))
            assert cancel(engine, unwanted[0]) == "running"
            if then == "its worker stops":
                worker.stop()

    async with engine.worker(concurrency=1) as worker:
        engine.fill(quick, 1000)
        await engine.drained()
        worker.events.subscribe(RunsClaimed, cancel_the_last)
        engine.fill(slow, 100)
        await until(lambda: unwanted)
        await engine.ended(unwanted[0], state="canceled")
        gate.set()
        if then == "it waits":
            await engine.drained()
    async with engine.worker():
        await engine.drained()
    assert unwanted[0] not in ran
    assert len({*ran}) == 99  # the first may have begun anew: its worker was told to stop twice, which means at once
    [run] = engine.runs(unwanted[0])
    assert (run.outcome, run.attempt, run.started_at) == ("canceled", 1, None)


@pytest.mark.req("Q09")
async def test_an_async_handler_is_cancelled(engine: Engine) -> None:
    told: list[bool] = []
    begun = asyncio.Event()

    @engine.task
    async def work(ctx: Context) -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.append(ctx.canceled)
            raise

    async with engine.worker():
        id = engine.enqueue(work)
        await until(begun.is_set)
        assert cancel(engine, id) == "running"
        await engine.ended(id, state="canceled")
    assert told == [True]
    assert [event.reason for event in engine.seen(RunInterrupted)] == ["cancel"]
    assert engine.job(id).last_error["type"] == "Canceled"
    assert engine.job(id).canceled_at is not None


@pytest.mark.req("Q09")
async def test_a_synchronous_handler_sees_it(engine: Engine) -> None:
    begun, seen = threading.Event(), threading.Event()

    @engine.task
    def work(ctx: Context) -> None:
        begun.set()
        while not ctx.canceled:
            threading.Event().wait(0.01)
        seen.set()

    async with engine.worker():
        id = engine.enqueue(work)
        await until(begun.is_set)
        cancel(engine, id)
        await engine.ended(id, state="canceled")
        await until(seen.is_set)


@pytest.mark.req("Q09")
@pytest.mark.parametrize("ending", ["finishes", "fails"])
async def test_what_a_handler_makes_of_it(engine: Engine, ending: str) -> None:
    """One that finishes all the same has completed; one that fails while it cleans up is not tried again."""

    begun = asyncio.Event()

    @engine.task(retry=Retry(base="0s"))
    async def work() -> str:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if ending == "fails":
                raise ValueError("on the way out") from None
        return "done"

    async with engine.worker():
        id = engine.enqueue(work)
        await until(begun.is_set)
        cancel(engine, id)
        await engine.ended(id, state="completed" if ending == "finishes" else "canceled")
    assert len(engine.runs(id)) == 1


@pytest.mark.req("Q09")
async def test_a_job_that_is_to_be_retried_is_canceled_instead(engine: Engine) -> None:
    """The handler failed by itself before it heard of the cancel."""
    begun, gate = asyncio.Event(), asyncio.Event()

    @engine.task(retry=Retry(base="0s"))
    async def work() -> None:
        begun.set()
        await gate.wait()
        raise ValueError

    async with engine.worker(heartbeat_s=NEVER_S):
        id = engine.enqueue(work)
        await until(begun.is_set)
        engine.conn.execute("UPDATE rota.job SET cancel_requested_at = now()")
        gate.set()
        await engine.ended(id, state="canceled")
    assert engine.outcomes(id) == ["canceled"]


@pytest.mark.req("Q09", "Q11")
async def test_the_job_of_a_dead_worker_is_canceled_not_rescued(engine: Engine) -> None:
    id = engine.enqueue("work")
    held = engine.hold(id)
    assert cancel(engine, id) == "running"
    engine.conn.execute("SELECT * FROM rota.rescue_runs(%s)", [[held.worker]])
    assert engine.outcomes(id) == ["canceled"]


@pytest.mark.req("Q10")
async def test_a_canceled_job_can_be_put_back(engine: Engine) -> None:
    @engine.task
    async def work() -> None: ...

    id = engine.enqueue(work)
    cancel(engine, id)
    assert engine.conn.execute("SELECT rota.retry_job(%s)", [id]).fetchone() == ("canceled",)
    async with engine.worker():
        await engine.ended(id)
    assert engine.outcomes(id) == ["canceled", "completed"]
    assert [run.final for run in engine.runs(id)] == [False, True]
