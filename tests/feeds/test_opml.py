"""Lists of feeds, as readers export them and as nobody should."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.feeds.world import World
from tests.support.effort import effort_bounded

from rota.apps.feeds.opml import read_opml
from rota.errors import UsageError

LIST = b"""<?xml version="1.0" encoding="UTF-8"?>
<opml version="2.0"><head><title>Mine</title></head><body>
  <outline text="News">
    <outline type="rss" text="One" xmlUrl="https://one.example/feed?a=1&amp;b=2" htmlUrl="https://one.example/"/>
    <outline type="rss" text="One again" xmlUrl="HTTPS://One.example:443/feed?a=1&amp;b=2"/>
    <outline type="rss" text="Two" xmlUrl="feed://two.example/"/>
  </outline>
  <outline text="bad" xmlUrl="javascript:alert(1)"/><outline text="bad" xmlUrl="ftp://three.example/"/>
</body></opml>"""


def test_it_works() -> None:
    found = read_opml(LIST)
    assert found.urls == ["https://one.example/feed?a=1&b=2", "http://two.example/"]
    assert [each.url for each in found.refused] == ["javascript:alert(1)", "ftp://three.example/"]
    assert "scheme" in found.refused[0].reason


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1", "utf-8-sig"])
def test_encodings(encoding: str) -> None:
    body = f"<?xml version='1.0' encoding='{encoding}'?><opml><outline text='ä' xmlUrl='http://a.example/ä'/></opml>"
    assert read_opml(body.encode(encoding)).urls == ["http://a.example/%C3%A4"]


def test_what_is_not_quite_xml() -> None:
    body = b"<opml><body><outline text='R & B' xmlUrl=http://a.example/><outline title='<b>' XMLURL='http://b.example/'>"
    assert read_opml(body).urls == ["http://a.example/", "http://b.example/"]


@pytest.mark.parametrize("body", [b"", b"hello", b"<html><a href='x'></html>", b"\0" * 100, b"{}"])
def test_what_is_no_list_is_refused(body: bytes) -> None:
    with pytest.raises(UsageError, match="not OPML"):
        read_opml(body)


def test_an_empty_list_is_one() -> None:
    assert read_opml(b"<opml><body/></opml>").urls == []


@pytest.mark.parametrize(
    "body",
    [
        b"<opml>" + b"<outline>" * 300_000,
        b'<!DOCTYPE opml [<!ENTITY a "' + b"x" * 100_000 + b'">]><opml><outline xmlUrl="http://a.example/' + b"&a;" * 1000 + b'"/>',
        b"<opml><outline xmlUrl='" + b"a" * 1_000_000 + b"'/>",
        b"<opml>" + b"<!--" * 100_000,
        b"<opml>" + b"<outline xmlUrl='" * 50_000,
    ],
)
def test_what_is_meant_to_do_harm_does_none(body: bytes) -> None:
    with effort_bounded():
        found = read_opml(body)
    assert all(len(each) <= 4096 for each in found.urls)
    assert all(len(each.url) <= 200 for each in found.refused)


def test_what_is_too_much_is_refused() -> None:
    with pytest.raises(UsageError, match="at most"):
        read_opml(b" " * 11_000_000)
    many = b"".join(b"<outline xmlUrl='http://a.example/%d'/>" % number for number in range(50_001))
    with pytest.raises(UsageError, match="at most 50,000"):
        read_opml(b"<opml>" + many)


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_anything_is_a_list_or_is_refused(body: bytes) -> None:
    for each in (body, b"<opml><outline xmlUrl='" + body):
        try:
            found = read_opml(each)
        except UsageError:
            continue
        assert len(found.urls) <= 1


async def test_a_job_subscribes_and_says_how_far_it_is(world: World) -> None:
    body = b"<opml>" + b"".join(b"<outline xmlUrl='https://a.example/%d'/>" % number for number in range(250)) + b"</opml>"
    world.feeds.download = None  # type: ignore[assignment, method-assign]  # nothing is to be fetched here
    job_id, opml = await world.feeds.take_opml(world.aconn, body, "ann")
    assert len(opml.urls) == 250
    world.conn.execute("UPDATE rota.schedule SET enabled = false WHERE task = 'fetch_feed'")
    said: list[str] = []
    ran = await run_import(world, said)
    assert ran == {"feeds": 250, "created": 250}
    assert said == ["0/250", "100/250", "200/250", "250/250"]
    assert world.conn.execute("SELECT count(*) FROM feeds.subscription WHERE subscriber = 'ann'").fetchone() == (250,)
    assert world.conn.execute("SELECT count(*) FROM feeds.opml").fetchone() == (0,)
    assert world.conn.execute("SELECT state FROM rota.jobs WHERE id = %s", [job_id]).fetchone() == ("completed",)


async def run_import(world: World, said: list[str]) -> object:
    """Run the job of an import, and take down what it says of its progress."""
    from rota.engine.context import Context

    real = Context.progress

    def progress(self: Context, done: float, total: float | None = None, message: str = "") -> None:
        said.append(f"{done}/{total}")
        real(self, done, total, message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Context, "progress", progress)
        patch.setattr("rota.engine.scheduler.Scheduler.tick", _nothing)
        await world.work()
    row = world.conn.execute("SELECT result FROM rota.jobs WHERE task = 'import_opml'").fetchone()
    return None if row is None else row[0]


async def _nothing(*_: object) -> int:
    return 0
