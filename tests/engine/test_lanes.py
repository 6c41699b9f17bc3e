"""Further slots of a task: its jobs run beside the worker's own, and take none of their places."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.engine import Engine
from tests.support.wait import until

from rota import Context, Rota
from rota.engine.lanes import Lane
from rota.errors import UsageError
from rota.model.run import Run

pytestmark = pytest.mark.req("Q12")


class Waiting:
    """Handlers that wait to be let go."""

    def __init__(self) -> None:
        self.inside = 0
        self.go = asyncio.Event()


@pytest.fixture
def waiting(engine: Engine) -> Waiting:
    """A task with five further slots, and one without."""
    state = Waiting()

    @engine.task(slots=5, queue="calls")
    async def call(n: int = 0) -> str:
        state.inside += 1
        try:
            await state.go.wait()
        finally:
            state.inside -= 1
        return "done"

    @engine.task
    async def other(wait: bool = False) -> None:
        if wait:
            await state.go.wait()

    return state


QUEUES = {"default": 1, "calls": 1}


async def test_they_run_beside_the_others(engine: Engine, waiting: Waiting) -> None:
    async with engine.worker(concurrency=2, queues=QUEUES):
        calls = [engine.enqueue("call", {"n": n}, queue="calls") for n in range(5)]
        await until(lambda: waiting.inside == 5)
        for _ in range(3):
            await engine.ended(engine.enqueue("other"))
        waiting.go.set()
        await engine.ended(*calls)


async def test_they_start_also_when_the_others_are_all_busy(engine: Engine, waiting: Waiting) -> None:
    async with engine.worker(concurrency=1, queues=QUEUES):
        busy = [engine.enqueue("other", {"wait": True}) for _ in range(2)]
        await until(lambda: engine.row(busy[0]).state == "running")
        calls = [engine.enqueue("call", {"n": n}, queue="calls") for n in range(5)]
        await until(lambda: waiting.inside == 5)
        assert [engine.row(id).state for id in busy] == ["running", "queued"]
        waiting.go.set()
        await engine.ended(*calls, *busy)


async def test_a_queue_that_others_share_is_not_emptied_for_them(engine: Engine, waiting: Waiting) -> None:
    """A worker takes no more than it can run: other workers may have a place for the rest."""

    @engine.task(slots=50)
    async def beside() -> None: ...

    async with engine.worker(concurrency=2, queues=QUEUES):
        await engine.ended(*(engine.enqueue("beside") for _ in range(10)))
        jobs = [engine.enqueue("other", {"wait": True}) for _ in range(20)]
        await until(lambda: engine.count("rota.job WHERE state = 'running'") >= 2)
        assert engine.count("rota.job WHERE state = 'running'") <= 4
        waiting.go.set()
        await engine.ended(*jobs)


async def test_beyond_them_they_take_a_place_like_others(engine: Engine, waiting: Waiting) -> None:
    async with engine.worker(concurrency=2, queues=QUEUES):
        calls = [engine.enqueue("call", {"n": n}, queue="calls") for n in range(20)]
        await until(lambda: waiting.inside == 7)
        waiting.go.set()
        await engine.ended(*calls)
    assert all(engine.outcomes(id) == ["completed"] for id in calls)


async def test_one_is_canceled_and_the_others_go_on(engine: Engine, waiting: Waiting) -> None:
    async with engine.worker(concurrency=1, queues=QUEUES):
        calls = [engine.enqueue("call", {"n": n}, queue="calls") for n in range(3)]
        await until(lambda: waiting.inside == 3)
        engine.conn.execute("SELECT rota.cancel_job(%s, 'enough')", [calls[1]])
        await engine.ended(calls[1], state="canceled")
        waiting.go.set()
        await engine.ended(calls[0], calls[2])
        again = [engine.enqueue("call", {"n": n}, queue="calls") for n in range(6)]  # none of the slots is lost
        await engine.ended(*again)


async def test_at_the_end_what_does_not_stop_is_given_back(engine: Engine, waiting: Waiting) -> None:
    async with engine.worker(concurrency=1, queues=QUEUES, shutdown_timeout_s=0.1):
        calls = [engine.enqueue("call", {"n": n}, queue="calls") for n in range(4)]
        await until(lambda: waiting.inside == 4)
    assert [engine.state(id) for id in calls] == ["queued"] * 4
    assert [engine.outcomes(id) for id in calls] == [["released"]] * 4


async def test_timeouts_hold_for_them(engine: Engine) -> None:
    @engine.task(slots=2, timeout_s=0.1)
    async def slow(ctx: Context) -> None:
        await asyncio.sleep(30)

    async with engine.worker(concurrency=1):
        id = engine.enqueue("slow", max_attempts=1)
        await engine.ended(id, state="failed")
    assert engine.runs(id)[0].error["message"] == "Job exceeded timeout of 0.1s"


async def test_one_that_is_told_to_stop_before_it_has_begun(
    engine: Engine, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between being given to a slot and its first step there is a moment in which it can be told."""
    give = Lane.give
    told: list[Run] = []

    def give_and_tell(lane: Lane, run: Run) -> bool:
        given = give(lane, run)
        if given and not told:
            told.append(run)
            [slot] = [slot for slot in lane.slots if slot.run is run]
            slot.interrupt("cancel")
        return given

    monkeypatch.setattr(Lane, "give", give_and_tell)
    async with engine.worker(concurrency=1, queues=QUEUES):
        first = engine.enqueue("call", queue="calls")
        await engine.ended(first, state="canceled")
        assert waiting.inside == 0
        waiting.go.set()
        await engine.ended(*(engine.enqueue("call", queue="calls") for _ in range(12)))


@pytest.mark.parametrize("slots", [-1, 10_001, True, "5", 1.5])
def test_what_is_refused(slots: Any) -> None:
    app = Rota("postgresql:///none")
    with pytest.raises(UsageError, match="slots"):

        @app.task(slots=slots)
        async def call() -> None: ...

    with pytest.raises(UsageError, match="async handlers only"):

        @app.task(slots=5)
        def sync() -> None: ...
