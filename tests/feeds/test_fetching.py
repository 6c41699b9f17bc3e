"""One fetch after the other: what is asked, what is stored, and when the next one is."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web as http
from tests.feeds.world import Site, World, document, rss

from rota.apps.feeds.timing import BACKOFF

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@pytest.mark.req("W01", "W02")
async def test_it_works(world: World, web: Site) -> None:
    feed_id = await world.subscribe(web.put("/feed", document("rss20.xml"), kind="application/rss+xml"))
    assert world.feed(feed_id)["health"] == "new"
    assert world.schedule(feed_id) == (True, world.clock.now())

    assert await world.work() >= 1

    feed = world.feed(feed_id)
    assert (feed["title"], feed["site_url"], feed["health"]) == ("Harbour & Tide", "https://harbour.example/", "ok")
    assert world.titles(feed_id) == ["Low water at noon", "The big ship has left"]
    assert world.schedule(feed_id) == (True, feed["next_fetch_at"])
    assert timedelta(minutes=90) <= feed["next_fetch_at"] - world.clock.now() <= DAY
    got = web.asked("/feed")[0]
    assert "application/atom+xml" in got.headers["accept"]
    assert got.headers["user-agent"] == "rota-feeds"


@pytest.mark.req("W02")
async def test_the_second_question_is_a_conditional_one(world: World, web: Site) -> None:
    body = rss("a")

    async def answer(request: http.Request) -> http.Response:
        validators = {"ETag": '"1"', "Last-Modified": "Tue, 10 Nov 2026 08:00:00 GMT"}
        if request.headers.get("If-None-Match") == '"1"':
            return http.Response(status=304, headers={"ETag": '"1"'})
        return http.Response(body=body, headers=validators)

    web.pages["/feed"] = answer
    feed_id = await world.subscribe(web.url("/feed"))
    await world.work()
    assert "if-none-match" not in web.asked("/feed")[0].headers

    await world.later(DAY)
    again = web.asked("/feed")[1].headers
    assert (again["if-none-match"], again["if-modified-since"]) == ('"1"', "Tue, 10 Nov 2026 08:00:00 GMT")
    assert (world.feed(feed_id)["last_status"], world.feed(feed_id)["health"]) == (304, "ok")

    await world.later(DAY)  # a 304 without Last-Modified does not take it away
    assert web.asked("/feed")[2].headers["if-modified-since"] == "Tue, 10 Nov 2026 08:00:00 GMT"
    assert world.titles(feed_id) == ["a"]


@pytest.mark.req("W02")
async def test_only_what_is_new_is_added_and_what_has_changed_is_changed(world: World, web: Site) -> None:
    feed_id = await world.subscribe(web.put("/feed", rss("a", "b")))
    await world.work()
    web.put("/feed", rss("c", "a", "b").replace(b"<title>a<", b"<title>A, as it should be<"))
    await world.later(DAY)

    assert world.titles(feed_id) == ["b", "A, as it should be", "c"]
    assert world.feed(feed_id)["entry_count"] == 3
    [changed] = world.conn.execute("SELECT uid FROM feeds.entry WHERE updated_at IS NOT NULL").fetchall()
    assert changed == ("a",)


@pytest.mark.req("W02")
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Cache-Control": "public, max-age=7200"}, 2 * HOUR),
        ({"Cache-Control": "max-age=99999999"}, DAY),
        ({"Cache-Control": "max-age=1"}, HOUR),
        ({"Cache-Control": "no-cache, max-age=7200"}, HOUR),
        ({"Cache-Control": "max-age=7200", "Age": "1800"}, 1.5 * HOUR),
        ({}, HOUR),
    ],
)
async def test_the_server_says_how_long_its_answer_is_fresh(
    world: World, web: Site, headers: dict[str, str], expected: timedelta
) -> None:
    feed_id = await world.subscribe(web.put("/feed", rss("a"), **{name.replace("-", "_"): each for name, each in headers.items()}))
    await world.work()
    interval = world.feed(feed_id)["fetch_interval"]
    assert expected <= interval <= min(expected * 1.051, DAY)


@pytest.mark.req("W02")
async def test_a_busy_feed_is_fetched_often_and_a_quiet_one_seldom(world: World, web: Site) -> None:
    def dated(gap: timedelta) -> bytes:
        now = world.clock.now()
        items = "".join(
            f"<item><guid>{n}</guid><title>{n}</title><pubDate>{now - gap * n:%a, %d %b %Y %H:%M:%S} GMT</pubDate></item>"
            for n in range(10)
        )
        return f"<rss version='2.0'><channel><title>t</title>{items}</channel></rss>".encode()

    world.clock.freeze(datetime(2026, 11, 16, tzinfo=UTC))
    busy = await world.subscribe(web.put("/busy", dated(timedelta(minutes=2))))
    usual = await world.subscribe(web.put("/usual", dated(timedelta(hours=8))))
    quiet = await world.subscribe(web.put("/quiet", dated(timedelta(days=30))))
    await world.work()
    intervals = [world.feed(each)["fetch_interval"] for each in (busy, usual, quiet)]
    for interval, expected in zip(intervals, [timedelta(minutes=15), 4 * HOUR, DAY], strict=True):
        assert expected <= interval <= expected * 1.051


@pytest.mark.req("W02")
async def test_failures_back_off_on_the_feed_and_a_success_ends_that(world: World, web: Site) -> None:
    feed_id = await world.subscribe(web.put("/feed", status=500))
    await world.work()
    for failures in range(1, 5):
        feed = world.feed(feed_id)
        delay = feed["next_fetch_at"] - world.clock.now()
        assert (feed["consecutive_failures"], feed["health"]) == (failures, "failing")
        assert (feed["last_status"], feed["last_error"]) == (500, "it answered 500")
        assert BACKOFF * 2 ** (failures - 1) <= delay <= BACKOFF * 2 ** (failures - 1) * 1.051
        enabled, at = world.schedule(feed_id)
        assert enabled
        assert abs(at - feed["next_fetch_at"]) < timedelta(seconds=1)
        assert await world.later(delay - timedelta(seconds=2)) == 0
        await world.later(timedelta(seconds=3))
    for _ in range(12):
        await world.later(DAY)
    assert timedelta(hours=23) < world.feed(feed_id)["next_fetch_at"] - world.clock.now() <= DAY

    web.put("/feed", rss("a"))
    await world.later(DAY)
    feed = world.feed(feed_id)
    assert (feed["consecutive_failures"], feed["last_error"], feed["health"]) == (0, None, "ok")


@pytest.mark.req("W02")
@pytest.mark.parametrize(
    ("after", "expected"), [("1800", timedelta(minutes=30)), ("99999999", HOUR), ("5", BACKOFF), ("soon", BACKOFF)]
)
async def test_a_server_that_is_busy_is_left_alone_as_long_as_it_asks(
    world: World, web: Site, after: str, expected: timedelta
) -> None:
    feed_id = await world.subscribe(web.put("/feed", status=429, Retry_After=after))
    await world.work()
    delay = world.feed(feed_id)["next_fetch_at"] - world.clock.now()
    assert expected <= delay <= expected * 1.051


@pytest.mark.req("W01", "W02")
async def test_a_feed_that_is_gone_is_switched_off_until_somebody_wants_it_again(world: World, web: Site) -> None:
    feed_id = await world.subscribe(web.put("/feed", status=410))
    await world.subscribe(web.url("/feed"), "bob")
    await world.work()
    feed = world.feed(feed_id)
    assert (feed["health"], feed["next_fetch_at"], feed["enabled"]) == ("gone", None, False)
    assert world.schedule(feed_id)[0] is False
    assert await world.later(30 * DAY) == 0

    assert await world.feeds.unsubscribe(world.aconn, feed_id, "bob") is False  # others read it, and it is gone all the same
    assert world.feed(feed_id)["health"] == "gone"

    web.put("/feed", rss("back"))
    await world.subscribe(web.url("/feed"), "cid")
    await world.work()
    assert (world.feed(feed_id)["health"], world.titles(feed_id)) == ("ok", ["back"])


@pytest.mark.req("W02")
@pytest.mark.parametrize("status", [301, 308])
async def test_a_feed_that_has_moved_is_fetched_from_there(world: World, web: Site, status: int) -> None:
    web.put("/new", rss("a"))
    feed_id = await world.subscribe(web.put("/old", status=status, Location="/new"))
    await world.work()
    assert world.feed(feed_id)["url"] == web.url("/new")

    await world.later(DAY)
    assert (len(web.asked("/old")), len(web.asked("/new"))) == (1, 2)
    assert await world.subscribe(web.url("/old"), "bob") == feed_id  # by its old address it is still the same
    detail = await world.feeds.get(world.aconn, feed_id)
    assert (detail.addresses, detail.subscribers) == ([web.url("/old")], 2)


@pytest.mark.req("W02")
async def test_a_detour_is_not_a_move(world: World, web: Site) -> None:
    web.put("/there", rss("a"))
    web.put("/via", status=302, Location="/there")
    plain = await world.subscribe(web.put("/plain", status=307, Location="/there"))
    mixed = await world.subscribe(web.put("/mixed", status=301, Location="/via"))
    broken = await world.subscribe(web.put("/broken", status=301, Location="/nothing"))
    await world.work()
    assert world.feed(plain)["url"] == web.url("/plain")
    assert world.feed(mixed)["url"] == web.url("/via")  # as far as it is for good
    assert (world.feed(broken)["url"], world.feed(broken)["health"]) == (web.url("/broken"), "failing")


@pytest.mark.req("W02")
async def test_a_feed_that_moves_to_where_another_is_becomes_that_one(world: World, web: Site) -> None:
    old = await world.subscribe(web.put("/old", rss("a", "b")))
    await world.subscribe(web.url("/old"), "bob")
    new = await world.subscribe(web.put("/new", rss("b", "c")))
    await world.work()
    web.put("/old", status=301, Location="/new")
    await world.later(DAY)

    assert world.conn.execute("SELECT merged_into, enabled FROM feeds.feeds WHERE id = %s", [old]).fetchone() == (new, False)
    assert world.schedule(old)[0] is False
    assert sorted(world.titles(new)) == ["a", "b", "c"]
    assert world.feed(new)["entry_count"] == 3
    detail = await world.feeds.get(world.aconn, new)
    assert [each.subscriber for each in detail.subscriptions] == ["ann", "bob"]
    assert await world.subscribe(web.url("/old"), "cid") == new
    assert [each.id for each in await world.feeds.list(world.aconn)] == [new]
    fetched = len(web.asked("/old"))
    await world.later(30 * DAY)
    assert len(web.asked("/old")) == fetched


@pytest.mark.req("W02")
async def test_what_is_too_long_is_not_read(world: World, web: Site) -> None:
    packed = gzip.compress(b"<rss version='2.0'><channel><title>" + b"a" * 50_000_000)
    bomb = await world.subscribe(web.put("/bomb", packed, Content_Encoding="gzip"))
    long = await world.subscribe(web.put("/long", rss("a") + b" " * 6_000_000))
    fine = await world.subscribe(web.put("/fine", gzip.compress(rss("a")), Content_Encoding="gzip"))
    await world.work()
    assert world.feed(bomb)["last_error"] == world.feed(long)["last_error"] == "it is longer than 5,242,880 bytes"
    assert world.feed(fine)["health"] == "ok"


@pytest.mark.req("W02")
async def test_what_is_no_feed_and_what_may_not_be_called_is_said(world: World, web: Site) -> None:
    page = await world.subscribe(web.put("/page", b"<!doctype html><html><body>hello</body></html>", kind="text/html"))
    closed = await world.subscribe(web.put("/closed", status=302, Location="http://10.1.2.3/feed"))
    nobody = await world.subscribe("http://127.0.0.1:1/feed")
    await world.work()
    assert world.feed(page)["last_error"] == "it is a page, not a feed"
    assert "may not be called" in world.feed(closed)["last_error"]
    assert world.feed(nobody)["last_error"].startswith("no connection")


@pytest.mark.req("W01", "W02")
async def test_a_fetch_that_ends_after_the_last_one_has_left_sets_no_next_time(world: World, web: Site) -> None:
    async def answer(_: http.Request) -> http.Response:
        await world.feeds.unsubscribe(world.aconn, feed_id, "ann")
        return http.Response(body=rss("a"))

    web.pages["/feed"] = answer
    feed_id = await world.subscribe(web.url("/feed"))
    await world.work()
    feed = world.feed(feed_id)
    assert (feed["health"], feed["next_fetch_at"]) == ("off", None)
    assert world.titles(feed_id) == ["a"]
    assert await world.later(30 * DAY) == 0
