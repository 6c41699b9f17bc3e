"""Documents as the world has them: every dialect, every encoding, and what is meant to do harm."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.feeds.world import document, rss
from tests.support.effort import effort_bounded
from tests.support.outside import Memory

from rota.apps.feeds.document import Document, NotAFeed
from rota.apps.feeds.parsing import parse
from rota.apps.feeds.text import decode, defused, one_line, plain, web_url

BASE = "https://feeds.example/all/feed.xml"


def read(body: bytes, kind: str = "application/xml", most: int = 1000) -> Document:
    """Read a document."""
    return parse(body, kind, BASE, max_entries=most)


def test_rss_2() -> None:
    found = read(document("rss20.xml"))
    assert (found.title, found.site_url, found.ttl) == ("Harbour & Tide", "https://harbour.example/", timedelta(minutes=90))
    assert found.topic == "https://harbour.example/rss.xml"
    ship, tide = found.entries
    assert (ship.uid, ship.url, ship.title, ship.author) == (
        "harbour-2", "https://harbour.example/ship", "The big ship has left", "Ida Quay",
    )  # fmt: skip
    assert ship.published_at == datetime(2026, 11, 10, 8, tzinfo=UTC)
    assert "<p>" in ship.content
    assert "alert" not in ship.summary
    assert ship.summary == "At last. More"
    assert (tide.uid, tide.published_at) == ("https://harbour.example/tide", datetime(2026, 11, 9, 19, tzinfo=UTC))
    assert tide.summary == "Mind the mud & the gulls."


def test_rss_1_and_its_module_for_syndication() -> None:
    found = read(document("rss10.xml"))
    assert (found.title, found.ttl) == ("Triples", timedelta(hours=12))
    [entry] = found.entries
    assert (entry.url, entry.published_at) == ("http://rdf.example/a", datetime(2026, 11, 8, 12, tzinfo=UTC))


def test_entries_without_ids_are_known_by_their_links_or_by_what_they_say() -> None:
    found = read(document("rss091.xml"))
    assert [each.uid for each in found.entries][:2] == ["http://old.example/1", "http://old.example/2"]
    assert found.entries[2].uid.startswith("sha256:")
    assert read(document("rss091.xml")).entries == found.entries  # and by the same the next time


def test_atom_1() -> None:
    found = read(document("atom10.xml"))
    assert (found.title, found.site_url) == ("Particles <3", "https://atom.example/blog/")
    assert (found.hub, found.topic) == ("https://hub.example/", "https://atom.example/blog/atom.xml")
    three, two = found.entries
    assert (three.uid, three.url, three.title) == ("tag:atom.example,2026:3", "https://atom.example/blog/2026/three", "1 < 2")
    assert (three.summary, three.author) == ("Spin up .", "Bo")
    assert (two.title, two.url, two.summary) == ("Колесо и 輪", "https://atom.example/2", "Only a summary.")


def test_atom_before_it_was_a_standard() -> None:
    [entry] = read(document("atom03.xml")).entries
    assert (entry.uid, entry.url, entry.content) == ("tag:three.example,2004:1", "http://three.example/1", "<p>Escaped.</p>")
    assert entry.published_at is not None
    assert entry.published_at.year == 2004


@pytest.mark.parametrize("kind", ["application/feed+json", "application/json; charset=utf-8", "text/plain", ""])
def test_json_feed(kind: str) -> None:
    found = read(document("jsonfeed.json"), kind)
    assert (found.title, found.hub, found.topic) == ("Braces", "https://hub.example/json", "https://json.example/feed.json")
    two, one = found.entries
    assert (two.uid, two.author, two.summary) == ("2", "Jo, Mo", "Second thing")
    assert two.published_at == datetime(2026, 11, 10, 9, tzinfo=UTC)
    assert (one.uid, one.url, one.content) == ("1", "https://elsewhere.example/1", "First & plain")


WORDS = {
    "utf-8": "Größe и 輪", "utf-16": "Größe и 輪", "utf-32": "Größe и 輪", "utf-8-sig": "Größe и 輪", "utf-16-le": "Größe и 輪",
    "iso-8859-1": "Größe", "windows-1252": "Größe – “ja”", "windows-1251": "Колесо", "koi8-r": "Колесо", "shift_jis": "車輪",
    "euc-jp": "車輪", "iso-2022-jp": "車輪", "gb18030": "车轮", "big5": "車輪",
}  # fmt: skip


@pytest.mark.parametrize("encoding", list(WORDS))
@pytest.mark.parametrize("said", ["by the document", "by the server"])
def test_encodings(encoding: str, said: str) -> None:
    declared = f" encoding='{encoding}'" if said == "by the document" else ""
    words = WORDS[encoding]
    text = f"<?xml version='1.0'{declared}?><rss version='2.0'><channel><title>{words}</title></channel></rss>"
    kind = "application/rss+xml" if declared else f"text/xml; charset={encoding}"
    assert read(text.encode(encoding), kind).title == words


@pytest.mark.parametrize("encoding", ["utf-8", "windows-1252"])
@pytest.mark.parametrize("said", ["us-ascii", "iso-8859-1", "no-such-code", "utf-7", "hex", "cp037", "punycode"])
def test_what_is_said_of_the_encoding_may_be_wrong(encoding: str, said: str) -> None:
    body = f"<?xml version='1.0' encoding='{said}'?>".encode() + rss("a", title="Größe").decode().encode(encoding)
    assert read(body, f"text/xml; charset={said}").title == "Größe"


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "ha" * 50}">' for n in range(10))
HOSTILE = {
    "a billion laughs": f"<!DOCTYPE rss [{LAUGHS}]><rss version='2.0'><channel><title>&l9;</title></channel></rss>".encode(),
    "one long entity, often": b'<!DOCTYPE rss [<!ENTITY a "' + b"a" * 100_000 + b'">]><rss version="2.0"><channel><title>'
    + b"&a;" * 100_000 + b"</title></channel></rss>",
    "laughs in UTF-16": f"<!DOCTYPE rss [{LAUGHS}]><rss version='2.0'><channel><title>&l9;".encode("utf-16"),
    "a file": b'<!DOCTYPE rss [<!ENTITY f SYSTEM "file:///etc/passwd">]><rss version="2.0"><channel><title>&f;</title></channel>',
    "depth": b"<rss version='2.0'><channel>" + b"<a>" * 200_000,
    "depth in JSON": b'{"version": "https://jsonfeed.org/version/1", "items": ' + b"[" * 200_000,
    "the name of a file": b"/etc/passwd",
    "an address": b"http://127.0.0.1:1/",
    "nothing": b"",
    "NUL": b"\0" * 1000,
    "half a pair": b'{"version": "https://jsonfeed.org/version/1", "title": "\\ud800\\u0000", "items": [{"id": "\\udfff"}]}',
    "a number without end": b'{"version": "https://jsonfeed.org/version/1", "items": [{"id": ' + b"9" * 100_000 + b"}]}",
    "attributes": b"<rss version='2.0' " + b"a='1' " * 100_000 + b"><channel><title>t</title></channel></rss>",
    "unclosed comments": b"<rss version='2.0'><channel><title>t</title>" + b"<!-- <!" * 20_000,
    "unclosed comments within": b"<rss version='2.0'><channel><item><description>" + b"&lt;!--" * 60_000
    + b"</description></item></channel></rss>",
    "one long entity in what is broken": b'<!DOCTYPE rss [<!ENTITY a "' + b"a" * 50_000 + b'">]><rss><channel></b><title>'
    + b"&a;" * 10_000,
    "unclosed entities": b"<rss version='2.0'><channel><title>t</title>" + b'<!ENTITY "\'' * 20_000,
}  # fmt: skip


@pytest.mark.parametrize("name", list(HOSTILE))
def test_what_is_meant_to_do_harm_is_read_fast_and_small_or_not_at_all(name: str) -> None:
    with Memory() as memory, effort_bounded():
        try:
            found = read(HOSTILE[name])
        except NotAFeed:
            found = Document()
    assert memory.grown < 300_000_000
    assert len(found.title) <= 500
    assert "root:" not in found.title
    for each in found.entries:
        assert_storable(each.uid, each.title, each.content, each.summary)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32-be", "utf-16-le"])
def test_no_declaration_of_an_entity_reaches_the_parser(encoding: str) -> None:
    text = f"""<!DOCTYPE rss [{LAUGHS}<!entity % a SYSTEM 'b>c'> <!ENTITY "never ends]><rss/>"""
    assert "<!entity" not in defused(text.encode(encoding)).lower()


def assert_storable(*texts: str) -> None:
    """Fail on text that PostgreSQL does not take."""
    for text in texts:
        assert "\0" not in text
        text.encode()


def test_the_name_of_a_file_is_no_feed_even_if_the_file_is(tmp_path: Path) -> None:
    (tmp_path / "feed").write_bytes(rss("secret"))
    with pytest.raises(NotAFeed):
        read(str(tmp_path / "feed").encode())


def test_broken_xml_is_read_as_far_as_it_goes() -> None:
    items = b"<item><title>a<br>b</title><guid isPermaLink='false'>1</guid><item><guid>2"
    body = b"<rss version='2.0'><channel><title>Fish & Chips</title>" + items
    found = read(body)
    assert found.title.startswith("Fish")
    assert [each.uid for each in found.entries][:1] == ["1"]


def test_the_same_id_twice() -> None:
    same = b"<item><guid>1</guid><title>newer</title></item><item><guid>1</guid><title>older</title></item>"
    [entry] = read(b"<rss version='2.0'><channel>" + same + b"</channel></rss>").entries
    assert entry.title == "newer"

    def item(number: int) -> bytes:
        return f"<item><guid isPermaLink='false'>x</guid><link>https://a.example/{number}</link></item>".encode()

    both = read(b"<rss version='2.0'><channel>" + item(1) + item(2) + b"</channel></rss>").entries
    again = read(b"<rss version='2.0'><channel>" + item(3) + item(2) + item(1) + b"</channel></rss>").entries
    assert len({each.uid for each in both}) == 2
    assert {each.uid for each in both} < {each.uid for each in again}


def test_dates_of_clocks_that_are_set_to_anything() -> None:
    dates = ["Thu, 01 Jan 0001 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 -1200", "31 Feb 2026", "yesterday", "1985-10-26T01:21:00Z"]
    items = "".join(f"<item><guid>{n}</guid><pubDate>{each}</pubDate></item>" for n, each in enumerate(dates))
    found = read(f"<rss version='2.0'><channel>{items}</channel></rss>".encode())
    assert [each.published_at for each in found.entries] == [None] * len(dates)


def test_no_more_entries_than_are_asked_for() -> None:
    found = read(rss(*map(str, range(50))), most=10)
    assert (len(found.entries), found.more) == (10, True)
    assert read(rss("a"), most=10).more is False


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", "http://u@a/", "//[", "http://a/\nb", "x" * 5000, 7, None, ""]
)
def test_links_that_lead_nowhere_good(url: object) -> None:
    assert web_url(url, "" if url == "" else BASE) is None


@given(st.binary(max_size=400), st.sampled_from(["application/xml", "application/json", "text/html; charset=utf-16", ""]))
@settings(max_examples=300, deadline=None)
def test_anything_is_a_document_or_is_not(body: bytes, kind: str) -> None:
    try:
        found = read(body, kind)
    except NotAFeed:
        return
    for each in found.entries:
        assert_storable(each.uid, each.title, each.content, each.summary)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)
FIELDS = ["id", "url", "title", "content_html", "content_text", "summary", "date_published", "author", "authors", "external_url"]
ITEMS = st.lists(st.dictionaries(st.sampled_from(FIELDS), VALUES))


@given(
    st.lists(st.dictionaries(st.sampled_from(FIELDS), VALUES)),
    st.dictionaries(st.sampled_from(["title", "hubs", "feed_url"]), VALUES),
)
@settings(max_examples=50, deadline=None)
def test_any_json_feed_is_read(items: list[dict[str, object]], feed: dict[str, object]) -> None:
    body = json.dumps({**feed, "version": "https://jsonfeed.org/version/1.1", "items": items}).encode()
    found = read(body)
    assert len(found.entries) <= len(items)
    for each in found.entries:
        assert_storable(each.uid, each.title, each.content, each.summary, each.author or "")
        assert each.uid
        assert len(each.uid.encode()) <= 500


@given(st.binary(max_size=200), st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_anything_can_be_decoded(body: bytes, kind: str) -> None:
    decode(body, kind)


@given(st.text(max_size=300))
@settings(deadline=None)
def test_plain_text_has_no_tags_and_no_control_characters(html: str) -> None:
    text = plain(html, 50)
    assert len(text) <= 50
    assert text == one_line(text, 50)


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>a<b>b</b></p>c", "a b c"),
        ("a<script>alert(1)</script>b<style>p {}</style>c", "a b c"),
        ("<script>never ends", ""),
        ("1 < 2 &amp; 3 &gt; 2 &lt;b&gt;", "1 < 2 & 3 > 2 <b>"),
        ("<!-- no --><br/>yes", "yes"),
        ("a\u202eb\0c\x1b[31m", "a b c [31m"),
        ("<<<<", "<<<<"),
    ],
)
def test_plain_text(html: str, expected: str) -> None:
    assert plain(html, 50) == expected


@pytest.mark.parametrize("part", ["<", "<a x='", "<!--", "<script>", "&", "<![CDATA[", "</", "<?"])
def test_plain_text_is_found_fast(part: str) -> None:
    with effort_bounded():
        for _ in range(20):
            plain(part * 20_000, 500)
