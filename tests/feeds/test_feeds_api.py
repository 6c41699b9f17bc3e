"""`/api/admin/feeds`: what operators and the dashboard see and do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from tests.feeds.world import Site, World, document, make_app, rss
from tests.support import people
from tests.support.people import Headers
from tests.support.serving import Serving, serving

URL = "https://example.org/feed.xml"
FEEDS = "/api/admin/feeds"


@pytest.fixture
async def server(world: World) -> AsyncIterator[Serving]:
    """The server of an application with feeds."""
    async with serving(world.app) as running:
        yield running


@pytest.fixture
async def admin(server: Serving) -> Headers:
    """What an admin sends."""
    await people.make(server, "ada@example.org", "admin")
    return await people.api_token(server, "ada@example.org")


async def test_it_works(world: World, web: Site, server: Serving, admin: Headers) -> None:
    url = web.put("/feed", document("rss20.xml"))
    status, made = await people.call(server, admin, "POST", FEEDS, {"url": url})
    assert (status, made["created"], made["subscribed"]) == (201, True, True)
    feed_id = made["feed"]["id"]
    assert [each["subscriber"] for each in made["feed"]["subscriptions"]] == ["ada@example.org"]
    await world.work()

    _, page = await people.call(server, admin, "GET", FEEDS)
    [feed] = page["items"]
    assert (feed["health"], feed["title"], feed["entries"], feed["subscribers"]) == ("ok", "Harbour & Tide", 2, 1)
    assert feed["schedule"] == f"fetch_feed/feed:{feed_id}"
    assert feed["next_fetch_at"] is not None
    assert feed["interval_s"] > 0

    _, entries = await people.call(server, admin, "GET", f"{FEEDS}/{feed_id}/entries")
    assert [each["title"] for each in entries["items"]] == ["The big ship has left", "Low water at noon"]
    assert "<" not in entries["items"][0]["text"]
    _, entry = await people.call(server, admin, "GET", f"{FEEDS}/entries/{entries['items'][0]['id']}")
    assert "<p>" in entry["content"]
    assert await people.call(server, admin, "GET", f"{FEEDS}/entries") == (200, entries)

    status, feed = await people.call(server, admin, "DELETE", f"{FEEDS}/{feed_id}")
    assert (status, feed["health"], feed["next_fetch_at"], feed["subscribers"]) == (200, "off", None, 0)
    assert (await people.call(server, admin, "DELETE", f"{FEEDS}/{feed_id}"))[0] == 404


async def test_lists_come_in_pages_and_can_be_narrowed(world: World, server: Serving, admin: Headers) -> None:
    for number in range(5):
        await world.subscribe(f"https://example.org/{number}", "bob" if number % 2 else "ann")
    seen, cursor = [], ""
    while True:
        _, page = await people.call(server, admin, "GET", f"{FEEDS}?limit=2{cursor}")
        seen += [each["url"][-1] for each in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert seen == list("01234")
    for query, expected in [("q=ORG/3", "3"), ("subscriber=bob", "13"), ("health=new", "01234"), ("health=ok", "")]:
        _, page = await people.call(server, admin, "GET", f"{FEEDS}?{query}")
        assert "".join(each["url"][-1] for each in page["items"]) == expected


async def test_how_they_do_in_numbers(world: World, web: Site, server: Serving, admin: Headers) -> None:
    await world.subscribe(web.put("/ok", rss("a")))
    await world.subscribe(web.put("/bad", status=500))
    await world.subscribe(web.put("/gone", status=410))
    await world.work()
    await world.subscribe(URL)
    world.clock.move(timedelta(seconds=90))
    _, summary = await people.call(server, admin, "GET", f"{FEEDS}/summary")
    assert {name: summary[name]["count"] for name in ("ok", "failing", "gone", "new", "off")} == {
        "ok": 1, "failing": 1, "gone": 1, "new": 1, "off": 0,
    }  # fmt: skip
    assert summary["late_s"] == 90


async def test_a_feed_is_fetched_when_asked_for(world: World, web: Site, server: Serving, admin: Headers) -> None:
    feed_id = await world.subscribe(web.put("/feed", rss("a")))
    await world.work()
    assert await people.call(server, admin, "POST", f"{FEEDS}/{feed_id}/fetch") == (200, {"feed_id": feed_id})
    assert world.feed(feed_id)["next_fetch_at"] == world.clock.now()
    assert await world.work() == 1
    await world.feeds.unsubscribe(world.aconn, feed_id, "ann")
    status, problem = await people.call(server, admin, "POST", f"{FEEDS}/{feed_id}/fetch")
    assert (status, problem["code"]) == (409, "conflict")


async def test_a_list_is_imported_by_a_job(world: World, server: Serving, admin: Headers) -> None:
    opml = "<opml><outline xmlUrl='https://example.org/a'/><outline xmlUrl='http://10.1.2.3/'/></opml>"
    status, taken = await people.call(server, admin, "POST", f"{FEEDS}/import", {"opml": opml, "subscriber": "bob"})
    assert (status, taken["feeds"], [each["url"] for each in taken["refused"]]) == (202, 1, ["http://10.1.2.3/"])
    _, job = await people.call(server, admin, "GET", f"/api/admin/jobs/{taken['job_id']}")
    assert job["job"]["task"] == "import_opml"
    assert (await people.call(server, admin, "POST", f"{FEEDS}/import", {"opml": "<html>"}))[0] == 422


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"url": "ftp://example.org/"}, "url"),
        ({"url": "http://10.1.2.3/feed"}, "url"),
        ({"url": ""}, "body.url"),
        ({}, "body.url"),
        ({"url": URL, "subscriber": "a\0"}, None),
    ],
)
async def test_what_does_not_fit_is_refused_with_the_field(
    world: World, server: Serving, admin: Headers, body: dict[str, str], field: str | None
) -> None:
    status, problem = await people.call(server, admin, "POST", FEEDS, body)
    assert status == 422
    assert field is None or problem["errors"][0]["field"] == field
    assert world.conn.execute("SELECT count(*) FROM feeds.feed").fetchone() == (0,)


async def test_who_may_do_what(world: World, server: Serving) -> None:
    expected = {"read_only": (200, 403), "operator": (200, 201), "user": (403, 403)}
    for role, (read, change) in expected.items():
        await people.make(server, f"{role}@example.org", role)
        headers = await people.api_token(server, f"{role}@example.org")
        assert (await people.call(server, headers, "GET", FEEDS))[0] == read
        assert (await people.call(server, headers, "POST", FEEDS, {"url": URL}))[0] == change
    assert (await people.call(server, {}, "GET", FEEDS))[0] == 401


@pytest.mark.req("T05")
async def test_missing_tables_are_named(dsn: str) -> None:
    async with serving(make_app(dsn, app_apps="rota.apps.feeds")) as server:
        await people.make(server, "ada@example.org", "admin")
        admin = await people.api_token(server, "ada@example.org")
        status, problem = await people.call(server, admin, "GET", FEEDS)
        assert (status, problem["code"]) == (503, "not_migrated")
        assert problem["detail"] == 'relation "feeds.feeds" does not exist: run `rota migrate up`'
        status, said = await people.call(server, {}, "GET", "/readyz")
        assert (status, said["wrong"]) == (503, "the database lacks 1 migration: feeds 0001 feeds: run `rota migrate up`")


async def test_the_document_has_them(server: Serving, admin: Headers) -> None:
    _, document = await people.call(server, {}, "GET", "/openapi.json")
    assert document["paths"][FEEDS]["get"]["x-rota-rule"] == "schedules.read"
    assert document["paths"]["/websub/{token}"]["post"]["x-rota-rule"] == "public"
