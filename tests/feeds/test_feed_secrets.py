"""Tokens in addresses and what hubs know are stored encrypted, and shown to nobody."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.feeds.hub import hub
from tests.feeds.world import Site, World, rss
from tests.support.serving import serving

from rota.control import rotation
from rota.errors import ConfigError
from rota.model import secret as secret_module

pytestmark = pytest.mark.req("H11")

TOKEN = "hunter2canary"
KEY = "k" * 40


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key for this test only."""
    monkeypatch.setattr(secret_module, "_keys", ())
    monkeypatch.setattr(secret_module, "_required", None)
    secret_module.use_keys(KEY)


def everything(world: World) -> str:
    """All tables, as text."""
    tables = world.conn.execute(
        "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname IN ('rota', 'feeds')"
    ).fetchall()
    return "".join(str(world.conn.execute(f"SELECT t::text FROM {table} t".encode()).fetchall()) for (table,) in tables)


async def test_a_token_in_an_address_is_sent_and_neither_stored_nor_shown(world: World, web: Site) -> None:
    url = f"{web.put('/feed', rss('a'))}?token={TOKEN}"
    feed_id = await world.subscribe(url)
    await world.work()
    assert [got.query for got in web.asked("/feed")] == [f"token={TOKEN}"]
    assert world.titles(feed_id) == ["a"]
    feed = await world.feeds.get(world.aconn, feed_id)
    assert (feed.url, feed.addresses) == (f"{web.url('/feed')}?…", [])
    assert TOKEN not in everything(world) + str(feed) + str(await world.feeds.list(world.aconn))


async def test_by_its_query_a_feed_is_told_from_others(world: World) -> None:
    ids = [await world.subscribe(f"https://example.org/feed?token={n}") for n in (1, 2)]
    assert len(set(ids)) == 2
    assert await world.subscribe("https://example.org/feed?token=1", "bob") == ids[0]
    assert await world.feeds.find(world.aconn, "https://example.org/feed?token=2") == ids[1]


async def test_a_query_cannot_be_read_at_another_feed_or_server(world: World, web: Site) -> None:
    first = await world.subscribe(f"{web.put('/first', rss('a'))}?token={TOKEN}")
    second = await world.subscribe(f"{web.put('/second', rss('b'))}?token=other")
    world.conn.execute("UPDATE feeds.feed SET query = (SELECT query FROM feeds.feed WHERE id = %s) WHERE id = %s", [first, second])
    world.conn.execute("UPDATE feeds.feed SET url = 'http://127.0.0.1:1/steal' WHERE id = %s", [first])
    await world.work()
    assert web.outside.got == []
    [*errors] = world.conn.execute("SELECT error ->> 'message' FROM rota.run").fetchall()
    assert len(errors) == 2
    assert all("sealed for another record" in message for (message,) in errors)


async def test_a_feed_moves_with_its_token(world: World, web: Site) -> None:
    to = f"{web.put('/new', rss('a'))}?token={TOKEN}"
    feed_id = await world.subscribe(web.put("/old", status=301, Location=to))
    await world.work()
    assert (await world.feeds.get(world.aconn, feed_id)).url == f"{web.url('/new')}?…"
    assert await world.feeds.find(world.aconn, to) == feed_id
    assert TOKEN not in everything(world)


async def test_lists_that_wait_for_their_import_tell_no_token(world: World, web: Site) -> None:
    opml = f"<opml><outline xmlUrl='{web.put('/feed', rss('a'))}?token={TOKEN}'/></opml>"
    await world.feeds.take_opml(world.aconn, opml.encode(), "ann")
    assert TOKEN not in everything(world)
    await world.work()
    assert [got.query for got in web.asked("/feed")] == [f"token={TOKEN}"]


async def test_what_a_hub_knows_is_stored_nowhere(world: World, web: Site) -> None:
    async with serving(world.app) as server, hub() as centre:
        world.feeds.options = replace(world.feeds.options, callback_url=server.url)
        head = f"<atom:link xmlns:atom='http://www.w3.org/2005/Atom' rel='hub' href='{centre.url}'/>"
        url = f"{web.put('/feed', rss('a', head=head))}?token={TOKEN}"
        feed_id = await world.subscribe(url)
        await world.work()
        await centre.settle()
        [subscription] = centre.confirmed.values()
        stored = everything(world)
        for known in (TOKEN, subscription.secret, subscription.callback.rpartition("/")[2]):
            assert known not in stored
        assert await centre.publish(url, rss("b")) == [202]
        await world.work()
        assert world.titles(feed_id) == ["a", "b"]


async def test_a_hub_that_may_not_be_called_is_left_alone(world: World, web: Site) -> None:
    world.feeds.options = replace(world.feeds.options, callback_url="https://example.org")
    head = "<atom:link xmlns:atom='http://www.w3.org/2005/Atom' rel='hub' href='http://10.1.2.3/hub'/>"
    feed_id = await world.subscribe(web.put("/feed", rss("a", head=head)))
    await world.work()
    assert world.feed(feed_id)["health"] == "ok"
    assert world.conn.execute("SELECT count(*) FROM feeds.websub").fetchone() == (0,)


async def test_without_a_key_a_query_is_refused_and_hubs_are_left_alone(
    world: World, web: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_module, "_keys", ())
    monkeypatch.setattr(secret_module, "_required", True)  # as where app.env is not local
    world.feeds.options = replace(world.feeds.options, callback_url="https://example.org")
    with pytest.raises(ConfigError, match="no key to encrypt it with"):
        await world.subscribe(f"https://example.org/?token={TOKEN}")
    head = "<atom:link xmlns:atom='http://www.w3.org/2005/Atom' rel='hub' href='https://example.org/hub'/>"
    feed_id = await world.subscribe(web.put("/feed", rss("a", head=head)))
    await world.work()
    assert world.feed(feed_id)["health"] == "ok"
    assert world.conn.execute("SELECT count(*) FROM feeds.websub").fetchone() == (0,)


async def test_a_rotation_of_keys_reaches_them(world: World, web: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    feed_id = await world.subscribe(f"{web.put('/feed', rss('a'))}?token={TOKEN}")
    await world.feeds.take_opml(world.aconn, b"<opml><outline xmlUrl='https://example.org/?a'/></opml>", "ann")
    secret_module.use_keys(f"{'n' * 40},{KEY}")
    assert (await rotation.rotate(world.aconn, world.app.sealed_columns)).changed == 2
    monkeypatch.setattr(secret_module, "_keys", ("n" * 40,))
    await world.work()
    assert world.titles(feed_id) == ["a"]
