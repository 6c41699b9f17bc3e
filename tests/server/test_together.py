"""Questions that are answered in rounds: each as if it were asked alone, after it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from rota.errors import DatabaseError, UsageError
from rota.server.together import MOST, Together

pytestmark = pytest.mark.req("H02")


class Desk:
    """Answers a number with its double, when the door is open, and remembers the rounds."""

    def __init__(self) -> None:
        self.rounds: list[list[int]] = []
        self.door = asyncio.Event()
        self.together: Together[int, int] = Together(self.do)

    async def do(self, asked: Sequence[int]) -> list[int]:
        self.rounds.append(list(asked))
        await self.door.wait()
        if 13 in asked:
            raise UsageError("13 is no number to ask for")
        if 500 in asked:
            raise DatabaseError("the database is away")
        return [2 * each for each in asked]

    def ask(self, *numbers: int) -> list[asyncio.Task[int]]:
        return [asyncio.create_task(self.together.ask(number)) for number in numbers]

    async def begin_round(self, number: int) -> asyncio.Task[int]:
        [task] = self.ask(number)
        while [number] not in self.rounds:
            await asyncio.sleep(0)
        return task


async def test_who_comes_during_a_round_waits_for_the_next() -> None:
    desk = Desk()
    first = await desk.begin_round(1)
    others = desk.ask(2, 3, 2)
    desk.door.set()
    assert await asyncio.gather(first, *others) == [2, 4, 6, 4]
    assert desk.rounds == [[1], [2, 3, 2]]


async def test_a_round_has_room_for_so_many() -> None:
    desk = Desk()
    desk.door.set()
    asked = range(1000, 1000 + 2 * MOST + 1)
    assert await asyncio.gather(*desk.ask(*asked)) == [2 * each for each in asked]
    assert [len(each) for each in desk.rounds] == [MOST, MOST, 1]


async def test_only_who_is_at_fault_hears_of_it() -> None:
    desk = Desk()
    desk.door.set()
    found = await asyncio.gather(*desk.ask(1, 13, 2), return_exceptions=True)
    assert [found[0], found[2]] == [2, 4]
    assert isinstance(found[1], UsageError)


async def test_nobody_asks_twice_of_a_database_that_is_away() -> None:
    desk = Desk()
    desk.door.set()
    found = await asyncio.gather(*desk.ask(1, 500, 2), return_exceptions=True)
    assert all(isinstance(each, DatabaseError) for each in found)
    assert desk.rounds == [[1, 500, 2]]


async def test_who_goes_away_takes_nobody_along() -> None:
    desk = Desk()
    first = await desk.begin_round(1)
    gone, stays = desk.ask(2, 3)
    await asyncio.sleep(0)
    gone.cancel()
    first.cancel()
    await asyncio.wait([gone, first])
    desk.door.set()
    assert await stays == 6
    assert desk.rounds == [[1], [3]]


async def test_another_round_after_the_last() -> None:
    desk = Desk()
    desk.door.set()
    assert await asyncio.gather(*desk.ask(1, 13), return_exceptions=True)
    assert await desk.together.ask(5) == 10
