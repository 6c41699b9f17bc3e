"""Jobs with further slots of their own are claimed a little ahead when they are quick, and nobody is kept waiting by that."""

from __future__ import annotations

import asyncio
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.engine import Engine
from tests.support.wait import until

from rota.engine import upkeep
from rota.engine.holdings import Holdings
from rota.engine.lanes import Lane

pytestmark = pytest.mark.req("Q12")

SLOTS = 4
OWN = 1
QUEUES = {"default": 1, "calls": 1}


class Calls:
    """Handlers that are quick until they are told to be slow."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.inside = 0
        self.slow = False
        self.go = asyncio.Event()

    async def grow_quick(self) -> None:
        """Have so many run that the worker knows them to be quick."""
        self.engine.fill("call", 300, queue="calls")
        await self.engine.drained()
        self.slow = True

    def claimed(self) -> int:
        return self.engine.count("rota.job WHERE state = 'running'")


@pytest.fixture
def calls(engine: Engine) -> Calls:
    state = Calls(engine)

    @engine.task(slots=SLOTS, queue="calls")
    async def call() -> None:
        state.inside += 1
        try:
            await (state.go.wait() if state.slow else asyncio.sleep(0))
        finally:
            state.inside -= 1

    @engine.task
    async def other() -> None: ...

    return state


async def stop_after_claiming_ahead(calls: Calls) -> None:
    await calls.grow_quick()
    calls.engine.fill("call", 50, queue="calls")
    await until(lambda: calls.inside == SLOTS + OWN and calls.claimed() > calls.inside)


async def test_those_behind_slow_ones_are_given_back_uncharged(engine: Engine, calls: Calls) -> None:
    async with engine.worker(concurrency=OWN, queues=QUEUES):
        await stop_after_claiming_ahead(calls)
        await until(lambda: calls.claimed() == SLOTS + OWN)
        assert engine.count("rota.job WHERE state = 'queued' AND attempt = 0") == 50 - SLOTS - OWN
        calls.go.set()
        await engine.drained()
    assert engine.count("rota.run WHERE outcome <> 'completed'") == 0


def test_what_waits_behind_slow_ones_is_given_back_without_what_does_not() -> None:
    lane = Lane(SLOTS, "calls")
    holdings = Holdings({"call": lane})
    now = monotonic()
    for number, (waiting, waited_s) in enumerate([(lane.waiting, 2.0), (lane.waiting, 0.0), (holdings.unstarted, 0.5)]):
        run: Any = SimpleNamespace(id=str(number), arrived=now - waited_s)
        waiting.append(run)
        holdings.held[run.id] = run
    assert [run.id for run in holdings.take_unstarted(1.0)] == ["0", "1"]
    assert list(holdings.held) == ["2"]
    assert [run.id for run in holdings.take_unstarted()] == ["2"]


async def test_own_slots_take_from_what_waits_for_further_ones() -> None:
    lane = Lane(SLOTS, "calls")
    holdings = Holdings({"call": lane})
    runs: Any = [SimpleNamespace(id=str(number), task="call") for number in range(5)]
    lane.waiting.extend(runs)
    sleeper = asyncio.create_task(holdings.sleep())
    await asyncio.sleep(0)
    assert holdings.take_from_aside("default", 3) == 0
    assert holdings.take_from_aside("calls", 0) == 0
    assert not sleeper.done()
    assert holdings.take_from_aside("calls", 3) == 3
    await sleeper
    assert [holdings.take() for _ in range(4)] == [*runs[:3], None]
    assert holdings.take_from_aside("calls", 3) == 2
    assert not lane.waiting


async def test_own_slots_take_no_more_than_they_can_start(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[int, int]] = []
    take_really = Holdings.take_from_aside

    def take(holdings: Holdings, queue: str, at_most: int) -> int:
        idle = holdings.idle_slots
        count = take_really(holdings, queue, at_most)
        taken.append((count, idle))
        return count

    @engine.task(slots=16, queue="calls")
    async def call() -> None:
        await asyncio.sleep(0.06)  # too slow for the worker's own slots to have any ahead

    monkeypatch.setattr(Holdings, "take_from_aside", take)
    engine.fill("call", 300, queue="calls")
    async with engine.worker(concurrency=2, queues=QUEUES):
        await engine.drained()
    assert any(count for count, _ in taken), "none was taken: this has shown nothing"
    assert [(count, idle) for count, idle in taken if count > idle] == []


async def test_others_get_their_share_of_own_slots(engine: Engine, calls: Calls) -> None:
    async with engine.worker(concurrency=4, queues=QUEUES):
        await calls.grow_quick()
        calls.slow = False
        engine.fill("call", 3000, queue="calls")
        engine.fill("other", 20)
        await until(lambda: engine.count("rota.job WHERE task = 'other'") == 0)
        assert engine.count("rota.job WHERE task = 'call'") > 1000
        await engine.drained()


async def test_one_is_canceled_before_it_has_begun(engine: Engine, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "STALE_BUFFER_S", 1000.0)
    async with engine.worker(concurrency=OWN, queues=QUEUES):
        await stop_after_claiming_ahead(calls)
        [newest] = engine.conn.execute("SELECT max(id::text)::uuid FROM rota.job WHERE state = 'running'").fetchone() or [None]
        engine.conn.execute("SELECT rota.cancel_job(%s, 'enough')", [newest])
        await engine.ended(newest, state="canceled")
        assert calls.inside == SLOTS + OWN
        calls.go.set()
        await engine.drained()


async def test_at_the_end_they_are_given_back_before_the_others_have_ended(
    engine: Engine, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "STALE_BUFFER_S", 1000.0)
    async with engine.worker(concurrency=OWN, queues=QUEUES, shutdown_timeout_s=30.0) as worker:
        await stop_after_claiming_ahead(calls)
        worker.stop()
        await until(lambda: engine.count("rota.job WHERE state = 'queued' AND attempt = 0") == 50 - SLOTS - OWN)
        assert calls.inside == SLOTS + OWN
        calls.go.set()
        await until(lambda: calls.claimed() == 0)  # to be stopped once more would interrupt them
    assert engine.count("rota.run WHERE outcome <> 'completed'") == 0
