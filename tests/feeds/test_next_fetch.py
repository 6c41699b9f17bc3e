"""`feeds.next_fetch_at` is the next time of the feed's recurring row, whoever has changed that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest
from tests.feeds.world import Site, World, rss

from rota.apps.feeds.reading import _COUNT, _LIST
from rota.engine.scheduler import Scheduler
from rota.events import Events

pytestmark = pytest.mark.req("W01")

Act = Callable[[World, str], Awaitable[object]]


async def by_sql(world: World, name: str) -> None:
    world.conn.execute("UPDATE rota.schedule SET enabled = NOT enabled WHERE task = 'fetch_feed'")


async def by_the_control_plane(world: World, name: str) -> None:
    control = world.app.control
    await (control.disable_schedule if (await control.get_schedule(name)).record.enabled else control.enable_schedule)(name)


def next_fetch(world: World, feed_id: int) -> datetime | None:
    """When the feed is fetched next, after a look that the row says the same."""
    feed, (enabled, at) = world.feed(feed_id), world.schedule(feed_id)
    assert feed["enabled"] is enabled
    assert feed["next_fetch_at"] == (at if enabled else None)
    found: datetime | None = feed["next_fetch_at"]
    return found


@pytest.mark.parametrize("switch", [by_sql, by_the_control_plane])
async def test_it_follows_operators_who_disable_and_enable_the_row(world: World, web: Site, switch: Act) -> None:
    feed_id = await world.subscribe(web.put("/feed", rss("a")))
    await world.work()
    at, name = next_fetch(world, feed_id), f"fetch_feed/feed:{feed_id}"
    await switch(world, name)
    assert (next_fetch(world, feed_id), world.feed(feed_id)["health"]) == (None, "off")
    assert [(each.health, each.next_fetch_at) for each in await world.feeds.list(world.aconn, health="off")] == [("off", None)]
    assert (await world.feeds.summary(world.aconn))["off"]["count"] == 1
    await switch(world, name)
    assert (next_fetch(world, feed_id), world.feed(feed_id)["health"]) == (at, "ok")


async def test_it_is_the_rows_time_after_a_success_and_after_a_backoff(world: World, web: Site) -> None:
    feed_id = await world.subscribe(web.put("/feed", rss("a")))
    await world.work()
    first = next_fetch(world, feed_id)
    assert first is not None
    web.put("/feed", status=500)
    await world.later(timedelta(days=1))
    after_failure = next_fetch(world, feed_id)
    assert after_failure is not None
    assert timedelta(minutes=5) <= after_failure - world.clock.now() < timedelta(minutes=6)


async def test_it_moves_with_the_row_and_with_the_transaction(world: World) -> None:
    feed_id = await world.subscribe("https://example.org/feed")
    before = next_fetch(world, feed_id)
    with world.conn.transaction(force_rollback=True):
        world.conn.execute("UPDATE rota.schedule SET next_run_at = rota.now() + interval '3 hours' WHERE task = 'fetch_feed'")
        assert next_fetch(world, feed_id) == world.clock.now() + timedelta(hours=3)
    assert next_fetch(world, feed_id) == before


async def test_while_the_job_waits_it_is_when_that_was_due(world: World) -> None:
    feed_id = await world.subscribe("https://example.org/feed")
    due = world.clock.now()
    await Scheduler(Events()).tick(world.aconn)
    world.clock.move(timedelta(minutes=1))
    assert world.schedule(feed_id) == (True, None)
    assert world.feed(feed_id)["next_fetch_at"] == due
    assert (await world.feeds.summary(world.aconn))["late_s"] == 60


async def test_lists_join_the_rows_by_their_index(world: World) -> None:
    world.conn.execute("SET enable_seqscan = off")
    values = {"health": None, "q": None, "subscriber": None, "after": 0, "limit": 50}
    for statement, given in ((_LIST, values), (_LIST, values | {"health": "ok"}), (_COUNT, None)):
        plan = str(world.conn.execute(f"EXPLAIN {statement}".encode(), given).fetchall())
        assert "schedule_by_key" in plan
        assert "Function Scan on recurring" not in plan
