"""Who reads what: one transaction, whoever comes and goes meanwhile."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.feeds.world import Site, World, gather, rss

from rota.errors import NotFound, UsageError

URL = "https://example.org/feed.xml"
ROUNDS = 200


@pytest.fixture
async def conns(dsn: str) -> AsyncIterator[list[psycopg.AsyncConnection[Any]]]:
    """Connections of several who act at once."""
    async with AsyncExitStack() as stack:
        connect = psycopg.AsyncConnection.connect
        yield [await stack.enter_async_context(await connect(dsn, autocommit=True)) for _ in range(8)]


def counts(world: World) -> tuple[int, ...]:
    """How many feeds, addresses, subscriptions and rows there are."""
    row = world.conn.execute(
        """SELECT (SELECT count(*) FROM feeds.feed), (SELECT count(*) FROM feeds.address),
                  (SELECT count(*) FROM feeds.subscription), (SELECT count(*) FROM rota.schedule WHERE task = 'fetch_feed')"""
    ).fetchone()
    assert row is not None
    return row


@pytest.mark.req("W01")
async def test_a_new_feed_is_there_with_its_row_and_its_subscription(world: World) -> None:
    done = await world.feeds.subscribe(world.aconn, URL, "ann")
    assert (done.created, done.subscribed) == (True, True)
    assert counts(world) == (1, 1, 1, 1)
    now = world.clock.now()
    assert world.schedule(done.feed_id) == (True, now)
    assert world.feed(done.feed_id)["next_fetch_at"] == now
    payload = world.conn.execute("SELECT payload FROM rota.schedule WHERE task = 'fetch_feed'").fetchone()
    assert payload == ({"feed_id": done.feed_id, "host": "example.org"},)

    again = await world.feeds.subscribe(world.aconn, URL, "ann")
    assert (again.feed_id, again.created, again.subscribed) == (done.feed_id, False, False)
    assert counts(world) == (1, 1, 1, 1)


@pytest.mark.req("W01")
async def test_all_of_it_or_nothing(world: World, dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        await world.feeds.subscribe(conn, URL, "ann")
        await conn.rollback()
    assert counts(world) == (0, 0, 0, 0)

    with pytest.raises(UsageError, match="scheme"):
        await world.feeds.subscribe_many(world.aconn, [URL, "ftp://example.org/"], "ann")
    assert counts(world) == (0, 0, 0, 0)

    world.conn.execute("ALTER TABLE feeds.subscription ADD CHECK (subscriber <> 'bob')")
    with pytest.raises(psycopg.errors.CheckViolation):
        await world.feeds.subscribe(world.aconn, URL, "bob")
    assert counts(world) == (0, 0, 0, 0)


@pytest.mark.req("W01")
async def test_a_known_feed_is_enabled_and_keeps_its_time(world: World, web: Site) -> None:
    feed_id = await world.subscribe(web.put("/feed", rss("a")))
    await world.work()
    at = world.feed(feed_id)["next_fetch_at"]
    assert at > world.clock.now()
    assert await world.feeds.unsubscribe(world.aconn, feed_id, "ann") is False
    assert (world.feed(feed_id)["health"], world.feed(feed_id)["next_fetch_at"]) == ("off", None)
    assert world.schedule(feed_id)[0] is False

    await world.subscribe(web.url("/feed"), "bob")
    assert (world.feed(feed_id)["health"], world.feed(feed_id)["next_fetch_at"]) == ("ok", at)
    assert world.schedule(feed_id) == (True, at)

    await world.feeds.unsubscribe(world.aconn, feed_id, "bob")
    assert await world.later(timedelta(days=2)) == 0
    await world.subscribe(web.url("/feed"), "bob")  # its time has passed: at once
    assert await world.work() == 1


@pytest.mark.req("W01")
async def test_unsubscribing_deletes_nothing(world: World) -> None:
    feed_id = await world.subscribe(URL)
    await world.subscribe(URL, "bob")
    assert await world.feeds.unsubscribe(world.aconn, feed_id, "ann") is True
    assert world.feed(feed_id)["enabled"] is True
    with pytest.raises(NotFound, match="ann is not subscribed"):
        await world.feeds.unsubscribe(world.aconn, feed_id, "ann")
    assert await world.feeds.unsubscribe(world.aconn, feed_id, "bob") is False
    left = world.conn.execute("SELECT subscriber, unsubscribed_at IS NULL FROM feeds.subscription ORDER BY id").fetchall()
    assert left == [("ann", False), ("bob", False)]
    with pytest.raises(NotFound):
        await world.feeds.unsubscribe(world.aconn, 4711, "ann")


@pytest.mark.req("W01")
async def test_a_row_that_an_operator_has_deleted_comes_back_with_the_next_reader(world: World) -> None:
    feed_id = await world.subscribe(URL)
    world.conn.execute("DELETE FROM rota.schedule WHERE task = 'fetch_feed'")
    assert await world.feeds.unsubscribe(world.aconn, feed_id, "ann") is False
    assert world.feed(feed_id)["health"] == "off"
    await world.subscribe(URL)
    assert (world.schedule(feed_id)[0], world.feed(feed_id)["health"]) == (True, "new")


@pytest.mark.req("W01")
async def test_the_last_two_leave_and_one_joins_at_once(world: World, conns: list[psycopg.AsyncConnection[Any]]) -> None:
    for number in range(ROUNDS):
        url = f"https://example.org/{number}"
        feed_id = await world.subscribe(url, "ann")
        await world.subscribe(url, "bob")
        joins = number % 2 == 0
        acts = [world.feeds.unsubscribe(conns[0], feed_id, "ann"), world.feeds.unsubscribe(conns[1], feed_id, "bob")]
        if joins:
            acts.append(world.feeds.subscribe(conns[2], url, "cid"))
        random.shuffle(acts)
        came = await gather(*acts)
        assert not [each for each in came if isinstance(each, BaseException)], came
        feed, (enabled, _) = world.feed(feed_id), world.schedule(feed_id)
        assert (enabled, feed["enabled"], feed["next_fetch_at"] is not None) == (joins, joins, joins), f"round {number}"


@pytest.mark.req("W01")
async def test_whatever_many_do_at_once_the_rows_say_what_the_subscriptions_say(
    world: World, web: Site, conns: list[psycopg.AsyncConnection[Any]]
) -> None:
    urls = [web.put(f"/{number}", rss("a")) for number in range(3)]
    dice = random.Random(7)

    async def act(conn: psycopg.AsyncConnection[Any], who: str) -> None:
        for _ in range(15):
            url = dice.choice(urls)
            if dice.random() < 0.5:
                await world.feeds.subscribe(conn, url, who)
            else:
                await gather(leave(conn, url, who))

    async def leave(conn: psycopg.AsyncConnection[Any], url: str, who: str) -> None:
        await world.feeds.unsubscribe(conn, await world.feeds.find(conn, url), who)

    async def fetch() -> None:
        for _ in range(5):
            await world.later(timedelta(hours=2))

    for url in urls:
        await world.subscribe(url, "nobody")
    came = await gather(fetch(), *(act(conn, f"reader {number}") for number, conn in enumerate(conns)))
    assert not [each for each in came if isinstance(each, BaseException)], came
    wrong = world.conn.execute(
        """SELECT f.id, f.enabled, s.enabled FROM feeds.feeds f JOIN rota.schedule s ON s.key = 'feed:' || f.id
           WHERE s.task = 'fetch_feed' AND (f.enabled <> s.enabled OR f.enabled <> EXISTS (
               SELECT FROM feeds.subscription b WHERE b.feed_id = f.id AND b.unsubscribed_at IS NULL))"""
    ).fetchall()
    assert wrong == []


@pytest.mark.req("W01")
async def test_many_who_find_a_feed_at_once_find_the_same(world: World, conns: list[psycopg.AsyncConnection[Any]]) -> None:
    for number in range(20):
        url = f"https://example.org/{number}"
        came = await gather(*(world.feeds.subscribe(conn, url, f"reader {each}") for each, conn in enumerate(conns)))
        assert len({each.feed_id for each in came}) == 1
        assert sum(each.created for each in came) == 1
    assert counts(world) == (20, 20, 160, 20)


@pytest.mark.req("W01")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("HTTP://Example.ORG/Feed#top", "http://example.org/Feed"),
        (" https://example.org:443/a?b=c ", "https://example.org/a?b=c"),
        ("feed://example.org/a", "http://example.org/a"),
        ("feed:https://example.org/a", "https://example.org/a"),
        ("http://bücher.example/ä", "http://xn--bcher-kva.example/%C3%A4"),
        ("https://example.org", "https://example.org/"),
    ],
)
async def test_an_address_has_one_form(world: World, given: str, expected: str) -> None:
    assert (await world.feeds.subscribe(world.aconn, given, "ann")).url == expected


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org/feed",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "http://u:p@example.org/",
        "http://a b/",
        "http://0x7f.1/",
        "http://10.1.2.3/feed",
        "http://[fd00::1]/feed",
        "http://169.254.169.254/latest/meta-data",
        "http://0.0.0.0:8000/api/admin/jobs",
    ],
)
async def test_what_is_no_address_is_refused(world: World, url: str) -> None:
    with pytest.raises(UsageError):
        await world.feeds.subscribe(world.aconn, url, "ann")
    assert counts(world) == (0, 0, 0, 0)


@pytest.mark.parametrize("who", ["", "a" * 301, "a\nb", "\0"])
async def test_who_has_no_name_is_refused(world: World, who: str) -> None:
    with pytest.raises(UsageError, match="subscriber"):
        await world.feeds.subscribe(world.aconn, URL, who)
