"""The simulated week in small: every feed when it is due, once, and none forgotten; and a judge who notices when one is not."""

from __future__ import annotations

import pytest
from tests.feeds.week import simulate


@pytest.mark.req("W02")
async def test_a_day_of_a_hundred_feeds(dsn: str) -> None:
    week = await simulate(dsn, feeds=100, days=1)
    print(week.figures())
    assert week.mistakes == []
    assert week.fetches > 200
    assert set(week.statuses) >= {"200", "304", "500", "unreachable"}


async def test_a_feed_that_is_forgotten_is_noticed(dsn: str) -> None:
    week = await simulate(dsn, feeds=40, days=0.2, sabotage=True)
    assert any("not fetched" in each for each in week.mistakes)
