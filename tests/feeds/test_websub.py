"""WebSub, with a hub, a server that it calls, and a worker: from finding the hub to the entry that it sends."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
from aiohttp import web as http
from multidict import CIMultiDict
from tests.feeds.hub import Hub, hub
from tests.feeds.world import Site, World, document, rss
from tests.support.serving import Serving, serving
from tests.support.wait import until
from tests.support.working import working as run_worker

from rota.apps.feeds.fetching import read_links
from rota.apps.feeds.websub import MAX_WAITING, is_signed
from rota.db.carriers import PsycopgCarrier
from rota.db.steps import carry_out
from rota.errors import Conflict
from rota.store import schedule_sync

DAY = timedelta(days=1)
working = asynccontextmanager(run_worker)


@pytest.fixture
async def server(world: World) -> AsyncIterator[Serving]:
    """The server that hubs reach."""
    async with serving(world.app) as running:
        world.feeds.options = replace(world.feeds.options, callback_url=running.url)
        yield running


@pytest.fixture
async def centre() -> AsyncIterator[Hub]:
    """A hub."""
    async with hub() as running:
        yield running


async def follow(world: World, web: Site, centre: Hub) -> int:
    """Subscribe to a feed that has a hub, and have the hub confirm it."""
    head = f"<atom:link xmlns:atom='http://www.w3.org/2005/Atom' rel='hub' href='{centre.url}'/>"
    feed_id = await world.subscribe(web.put("/feed", rss("a", head=head)))
    await world.work()
    await centre.settle()
    return feed_id


def state(world: World, feed_id: int) -> tuple[str, timedelta | None]:
    """How it is between the hub and us, and for how long yet."""
    row = world.conn.execute("SELECT state, until - rota.now() FROM feeds.websub WHERE feed_id = %s", [feed_id]).fetchone()
    assert row is not None
    return row


@pytest.mark.req("W02", "W03")
async def test_it_works(world: World, web: Site, server: Serving, centre: Hub) -> None:
    feed_id = await follow(world, web, centre)
    assert centre.answers == [200]
    assert state(world, feed_id) == ("active", timedelta(days=10))
    [asked] = centre.asked
    assert (asked["hub.mode"], asked["hub.topic"]) == ("subscribe", web.url("/feed"))
    assert asked["hub.callback"].startswith(f"{server.url}/websub/")

    assert await centre.publish(web.url("/feed"), rss("b", "a")) == [202]
    await world.work()
    assert world.titles(feed_id) == ["a", "b"]
    assert world.conn.execute("SELECT count(*) FROM feeds.delivery").fetchone() == (0,)

    await world.later(DAY)  # one that is told of news is asked less often
    assert world.feed(feed_id)["fetch_interval"] >= timedelta(hours=6)


async def test_a_hub_is_found_in_headers_too(world: World, web: Site, server: Serving, centre: Hub) -> None:
    link = f'<{centre.url}>; rel="hub", <https://example.org/topic>; rel=self'
    feed_id = await world.subscribe(web.put("/feed", rss("a"), Link=link))
    await world.work()
    await centre.settle()
    assert (centre.asked[0]["hub.topic"], state(world, feed_id)[0]) == ("https://example.org/topic", "active")


async def test_a_hub_is_found_in_one_of_several_headers(world: World, web: Site, server: Serving, centre: Hub) -> None:
    async def answer(_: http.Request) -> http.Response:
        headers = CIMultiDict([("Link", f"<{centre.url}>; rel=hub"), ("Link", "<https://example.org/topic>; rel=self")])
        return http.Response(body=rss("a"), headers=headers)

    web.pages["/feed"] = answer
    await world.subscribe(web.url("/feed"))
    await world.work()
    assert [each["hub.topic"] for each in centre.asked] == ["https://example.org/topic"]


async def test_no_hub_is_asked_where_none_could_reach_us(world: World, web: Site, centre: Hub) -> None:
    head = f"<atom:link xmlns:atom='http://www.w3.org/2005/Atom' rel='hub' href='{centre.url}'/>"
    await world.subscribe(web.put("/feed", rss("a", head=head)))
    await world.work()
    assert (centre.asked, world.conn.execute("SELECT count(*) FROM feeds.websub").fetchone()) == ([], (0,))


@pytest.mark.parametrize("method", ["sha1", "sha256", "sha384", "sha512"])
async def test_what_is_signed_is_taken(world: World, web: Site, server: Serving, centre: Hub, method: str) -> None:
    feed_id = await follow(world, web, centre)
    await centre.publish(web.url("/feed"), rss("b"), method=method)
    await world.work()
    assert world.titles(feed_id) == ["a", "b"]


async def test_what_is_not_signed_by_our_secret_is_passed_over(world: World, web: Site, server: Serving, centre: Hub) -> None:
    feed_id = await follow(world, web, centre)
    assert await centre.publish(web.url("/feed"), rss("b"), signed=False) == [202]  # the sender is not told
    assert await centre.publish(web.url("/feed"), rss("b"), secret="guessed") == [202]
    assert await centre.publish(web.url("/feed"), rss("b"), method="md5") == [202]
    assert world.conn.execute("SELECT count(*) FROM feeds.delivery").fetchone() == (0,)
    await world.work()
    assert world.titles(feed_id) == ["a"]

    async with server.client.post("/websub/nobody-knows-this", data=rss("b")) as answer:
        assert (answer.status, answer.content_type) == (410, "application/problem+json")


async def test_what_is_signed_and_of_no_use_is_thrown_away(world: World, web: Site, server: Serving, centre: Hub) -> None:
    feed_id = await follow(world, web, centre)
    assert await centre.publish(web.url("/feed"), b"\0\1\2") == [202]
    assert await centre.publish(web.url("/feed"), document("jsonfeed.json"), kind="application/feed+json") == [202]
    await world.work()
    assert world.conn.execute("SELECT count(*) FROM feeds.delivery").fetchone() == (0,)
    assert len(world.titles(feed_id)) == 3


async def test_a_hub_that_floods_us_is_told_to_wait(world: World, web: Site, server: Serving, centre: Hub) -> None:
    await follow(world, web, centre)
    came = [(await centre.publish(web.url("/feed"), rss(str(number))))[0] for number in range(MAX_WAITING + 2)]
    assert came == [202] * MAX_WAITING + [503] * 2


async def test_nobody_confirms_what_we_have_not_asked_for(world: World, web: Site, server: Serving, centre: Hub) -> None:
    feed_id = await follow(world, web, centre)
    callback, topic = centre.asked[0]["hub.callback"], web.url("/feed")
    before = state(world, feed_id)
    assert (await centre.verify(callback, "subscribe", "https://example.org/other", challenge="x"))[0] == 404
    assert (await centre.verify(callback, "unsubscribe", topic, challenge="x"))[0] == 404
    assert (await centre.verify(callback, "nonsense", topic, challenge="x"))[0] == 404
    assert (await centre.verify(f"{server.url}/websub/another", "subscribe", topic, challenge="x"))[0] == 404
    assert (await centre.verify(callback, "subscribe", topic, challenge="x" * 2000))[0] == 422
    assert (await centre.verify(callback, "subscribe", "a\0b", challenge="x"))[0] == 422
    assert state(world, feed_id) == before


async def test_a_challenge_is_text_and_nothing_else(world: World, web: Site, server: Serving, centre: Hub) -> None:
    await follow(world, web, centre)
    path = centre.asked[0]["hub.callback"].removeprefix(server.url)
    query = {"hub.mode": "subscribe", "hub.topic": web.url("/feed"), "hub.challenge": "<script>alert(1)</script>"}
    async with server.client.get(path, params=query) as answer:
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert await answer.text() == "<script>alert(1)</script>"


async def test_a_hub_that_denies_is_not_asked_again_for_a_week(world: World, web: Site, server: Serving, centre: Hub) -> None:
    centre.denies = "not today"
    feed_id = await follow(world, web, centre)
    assert state(world, feed_id)[0] == "denied"
    assert world.conn.execute("SELECT reason FROM feeds.websub").fetchone() == ("not today",)
    for number in range(6):
        web.put("/feed", rss("a", str(number), head=hub_link(centre)))
        await world.later(DAY)
    assert len(centre.asked) == 1
    web.put("/feed", rss("z", head=hub_link(centre)))
    await world.later(2 * DAY)
    await centre.settle()
    assert len(centre.asked) == 2


def hub_link(centre: Hub) -> str:
    """What a feed says of its hub."""
    return f"<atom:link xmlns:atom='http://www.w3.org/2005/Atom' rel='hub' href='{centre.url}'/>"


async def test_a_hub_that_fails_is_asked_again(world: World, web: Site, server: Serving, centre: Hub) -> None:
    centre.status = 500
    feed_id = await follow(world, web, centre)
    assert world.conn.execute("SELECT reason FROM feeds.websub").fetchone() == ("the hub answered 500",)
    centre.status = 202
    await world.later(timedelta(minutes=5))
    await centre.settle()
    assert (len(centre.asked), state(world, feed_id)[0]) == (2, "active")


@pytest.mark.req("W03")
async def test_renewal_is_there_once_and_always_on_and_renews_what_ends_within_a_day(
    world: World, web: Site, server: Serving, centre: Hub
) -> None:
    centre.lease_s = 3 * 86_400
    feed_id = await follow(world, web, centre)
    rows = "SELECT key, enabled, every FROM rota.schedule WHERE task = 'renew_websub'"
    assert world.conn.execute(rows).fetchall() == [("all", True, DAY)]

    for expected in (1, 1, 2, 2, 3):  # asked for three days: renewed when less than one is left
        assert len(centre.asked) == expected
        await world.later(DAY + timedelta(seconds=1))
        await centre.settle()
        assert state(world, feed_id)[0] == "active"
    assert {each["hub.secret"] for each in centre.asked} == {centre.asked[0]["hub.secret"]}
    assert world.conn.execute(rows).fetchall() == [("all", True, DAY)]


def begin(world: World) -> None:
    """Do what each start of a worker does."""
    carry_out(PsycopgCarrier(world.conn), schedule_sync.sync(world.app.tasks.values()))


ROWS = "SELECT key, enabled FROM rota.schedule WHERE task = 'renew_websub'"


@pytest.mark.req("W03")
async def test_renewal_is_there_before_the_first_hub(world: World) -> None:
    begin(world)
    assert world.conn.execute(ROWS).fetchall() == [("all", True)]
    assert await world.work() == 1
    assert await world.later(DAY - timedelta(minutes=1)) == 0
    assert await world.later(timedelta(minutes=2)) == 1


@pytest.mark.req("W03")
async def test_each_start_of_a_worker_or_server_makes_sure_of_renewal(world: World) -> None:
    async with working(world.app):
        assert world.conn.execute(ROWS).fetchall() == [("all", True)]
    world.conn.execute("DELETE FROM rota.schedule WHERE task = 'renew_websub'")
    async with serving(world.app):
        await until(lambda: world.conn.execute(ROWS).fetchall() == [("all", True)], what="for the row")


@pytest.mark.req("W03")
async def test_renewal_cannot_be_switched_off_by_accident(world: World) -> None:
    begin(world)
    for switch_off in (world.app.control.disable_schedule("renew_websub/all"), world.feeds.renew_websub.adisable()):
        with pytest.raises(Conflict, match=r"needs it always on.* disable its task: `rota tasks disable renew_websub"):
            await switch_off
    with pytest.raises(psycopg.errors.CheckViolation, match="schedule_always"):
        world.conn.execute("UPDATE rota.schedule SET enabled = false WHERE task = 'renew_websub'")
    assert world.conn.execute("SELECT enabled FROM rota.set_recurring('renew_websub', 'all', false)").fetchone() == (True,)
    assert world.conn.execute(ROWS).fetchall() == [("all", True)]


@pytest.mark.req("W03")
async def test_disabling_its_task_is_the_deliberate_way_to_stop_renewal(world: World) -> None:
    begin(world)
    await world.app.control.disable("renew_websub", reason="the hub is being moved")
    assert await world.later(DAY) == 0
    assert world.conn.execute(ROWS).fetchall() == [("all", True)]


async def test_the_last_who_leaves_ends_it_with_the_hub_too(world: World, web: Site, server: Serving, centre: Hub) -> None:
    feed_id = await follow(world, web, centre)
    await world.feeds.unsubscribe(world.aconn, feed_id, "ann")
    assert state(world, feed_id)[0] == "leaving"
    await world.work()
    await centre.settle()
    assert (centre.asked[1]["hub.mode"], state(world, feed_id)[0], centre.confirmed) == ("unsubscribe", "ended", {})

    await world.subscribe(web.url("/feed"))
    web.put("/feed", rss("c", head=hub_link(centre)))
    await world.later(DAY)
    await centre.settle()
    assert (state(world, feed_id)[0], centre.asked[2]["hub.secret"] != centre.asked[0]["hub.secret"]) == ("active", True)


def test_signatures() -> None:
    assert not is_signed("s", None, b"")
    assert not is_signed("s", "sha256", b"")
    assert not is_signed("s", "sha256=é", b"")
    assert is_signed("s", " SHA1=" + hmac.new(b"s", b"body", "sha1").hexdigest().upper(), b"body")
    assert not is_signed("s", "sha1=" + hmac.new(b"s", b"body", "sha1").hexdigest(), b"other")


def test_links_of_headers() -> None:
    header = '<a>; rel="hub other"; title="a, <b>", </self>;rel=SELF, <javascript:x>; rel=hub, <broken'
    assert read_links({"link": header}, "https://example.org/x") == {
        "hub": "https://example.org/a", "other": "https://example.org/a", "self": "https://example.org/self",
    }  # fmt: skip
    assert read_links({}, "https://example.org/") == {}
