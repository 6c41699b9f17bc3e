"""What ends calls that take too long does what `asyncio.timeout` does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from time import monotonic

import pytest

from rota.outbound import deadlines as deadlines_module
from rota.outbound.deadlines import TICK_S, Deadlines

pytestmark = pytest.mark.req("H02")

Within = Callable[[float], AbstractContextManager[None]]


@pytest.fixture(params=["by a timer of its own", "on the tick"])
async def within(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Within:
    monkeypatch.setattr(deadlines_module, "EXACT_S", 1000.0 if request.param == "by a timer of its own" else 0.0)
    return Deadlines(asyncio.get_running_loop()).within


def current() -> asyncio.Task[None]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def test_what_takes_too_long_ends(within: Within) -> None:
    started = monotonic()
    with pytest.raises(TimeoutError), within(0.1):
        await asyncio.Event().wait()
    assert monotonic() - started >= 0.1
    assert current().cancelling() == 0
    await asyncio.sleep(0)  # nothing is left of the cancellation


async def test_what_ends_in_time_is_let_be(within: Within) -> None:
    with within(0.01):
        pass
    await asyncio.sleep(3 * TICK_S)


async def test_the_nearer_of_two_ends_its_own_block_only(within: Within) -> None:
    with within(60):
        with pytest.raises(TimeoutError), within(0.01):
            await asyncio.Event().wait()
        await asyncio.sleep(2 * TICK_S)


async def test_each_of_many_ends_by_itself(within: Within) -> None:
    async def take(seconds: float) -> bool:
        try:
            with within(0.2):
                await asyncio.sleep(seconds)
        except TimeoutError:
            return False
        return True

    ended = await asyncio.gather(*(take(0.001 if number % 2 else 60) for number in range(100)))
    assert ended == [bool(number % 2) for number in range(100)]


async def test_who_is_cancelled_from_outside_is_cancelled(within: Within) -> None:
    async def work() -> None:
        with within(60):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_who_is_cancelled_from_outside_as_well_is_cancelled(within: Within) -> None:
    async def work() -> None:
        with within(0.01):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                current().cancel()  # somebody else, at the same moment
                raise

    task = asyncio.create_task(work())
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_another_error_of_what_is_ended_is_told(within: Within) -> None:
    async def fail() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise KeyError

    with pytest.raises(KeyError), within(0.01):
        await fail()
    assert current().cancelling() == 0


async def test_short_ones_are_kept_exactly() -> None:
    with pytest.raises(TimeoutError), Deadlines(asyncio.get_running_loop()).within(0.001):
        await asyncio.sleep(TICK_S / 2)


async def test_nothing_ticks_when_there_is_nothing_to_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines_module, "EXACT_S", 0.0)
    deadlines = Deadlines(asyncio.get_running_loop())
    with deadlines.within(60):
        pass
    await asyncio.sleep(2 * TICK_S)
    assert not deadlines._ticks
    with pytest.raises(TimeoutError), deadlines.within(0.01):
        await asyncio.Event().wait()
