"""Reads documents: RSS in its dialects and Atom with feedparser, JSON Feed by itself. Whatever comes, a Document or NotAFeed."""

from __future__ import annotations

import io
import json
from calendar import timegm
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from rota.apps.feeds.document import Document, Entry, NotAFeed, distinct, make_entry
from rota.apps.feeds.text import defused, one_line, plain, web_url

HTML = ("text/html", "application/xhtml+xml")
PERIODS = {"hourly": 1, "daily": 24, "weekly": 168, "monthly": 720, "yearly": 8760}  # hours
MAX_TITLE = 500
MAX_TAGS = 200_000  # of which each takes about 50 µs, and has the length of a document to be many in


def parse(body: bytes, content_type: str, url: str, *, max_entries: int) -> Document:
    """What a document says; links in it are taken as from `url`. Takes seconds for a long one: not for an event loop."""
    start = body[:64].lstrip(b"\xef\xbb\xbf \t\r\n")
    try:
        if start.startswith(b"{") or ("json" in content_type.lower() and not start.startswith(b"<")):
            return _parse_json(body, url, max_entries)
        return _parse_xml(body, content_type, url, max_entries)
    except NotAFeed:
        raise
    except Exception as error:  # of a parser that was fed something nobody has thought of
        raise NotAFeed(f"it cannot be read: {type(error).__name__}") from error


def _parse_xml(body: bytes, content_type: str, url: str, max_entries: int) -> Document:
    import feedparser  # here, since only those who fetch need it

    text = defused(body, content_type)
    if text.count("<") + text.count("&lt;") > MAX_TAGS:
        raise NotAFeed(f"it has more than {MAX_TAGS:,} tags")
    headers = {"content-type": "application/xml; charset=utf-8", "content-location": url}
    # As a file: it would take text for the name of one, or for an address. HTML is left as it came, since it is data here, and to
    # clean it takes feedparser minutes where it is meant to.
    found = feedparser.parse(
        io.BytesIO(text.encode("utf-8", "replace")), response_headers=headers, sanitize_html=False, resolve_relative_uris=False
    )
    if not found.get("version") and not found.get("entries"):
        is_page = any(sign in text[:2000].lower() for sign in ("<html", "<!doctype html"))
        raise NotAFeed("it is a page, not a feed" if is_page else "it is neither RSS, Atom nor JSON Feed")
    feed = found.feed
    links = [link for link in feed.get("links", ()) if isinstance(link, Mapping)]
    return Document(
        title=_title(feed, MAX_TITLE),
        site_url=web_url(feed.get("link"), url),
        hub=next((at for link in links if link.get("rel") == "hub" and (at := web_url(link.get("href"), url))), None),
        topic=next((at for link in links if link.get("rel") == "self" and (at := web_url(link.get("href"), url))), None),
        ttl=_ttl(feed),
        entries=distinct(_entry(entry, url) for entry in found.entries[:max_entries]),
        more=len(found.entries) > max_entries,
    )


def _entry(entry: Any, base: str) -> Entry:
    contents = [each.get("value") for each in entry.get("content", ()) if isinstance(each, Mapping)]
    content = next((each for each in contents if each), None) or entry.get("summary") or ""
    id = entry.get("id")
    link = web_url(entry.get("link"), base) or (web_url(id) if isinstance(id, str) else None)
    return make_entry(
        id=id,
        url=link,
        title=_title(entry, MAX_TITLE),
        author=entry.get("author") or None,
        content=content,
        published_at=_time(dict.get(entry, "published_parsed") or dict.get(entry, "updated_parsed")),  # its own `get` warns
    )


def _title(of: Any, most: int) -> str:
    text = of.get("title") or ""
    kind = (of.get("title_detail") or {}).get("type", "")
    return plain(text, most) if kind in HTML else one_line(text, most)


def _ttl(feed: Any) -> timedelta | None:
    """What RSS calls ttl, in minutes, or what its module for syndication says."""
    minutes = _number(feed.get("ttl"))
    if minutes is not None:
        return timedelta(minutes=minutes)
    hours = PERIODS.get(str(feed.get("sy_updateperiod") or "").strip().lower())
    if hours is None:
        return None
    return timedelta(hours=hours) / max(_number(feed.get("sy_updatefrequency")) or 1, 1)


def _number(text: object) -> int | None:
    value = str(text or "").strip()
    return int(value) if value.isascii() and value.isdigit() and 0 < len(value) <= 6 and int(value) > 0 else None


def _time(parsed: Any) -> datetime | None:
    try:
        return datetime.fromtimestamp(timegm(parsed), UTC) if parsed else None
    except (ValueError, TypeError, OverflowError, OSError):
        return None


def _parse_json(body: bytes, url: str, max_entries: int) -> Document:
    try:
        feed = json.loads(body.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError):
        raise NotAFeed("it is not JSON, though it looks like it") from None
    if not isinstance(feed, dict) or "jsonfeed.org" not in str(feed.get("version")) or not isinstance(feed.get("items"), list):
        raise NotAFeed("it is JSON, but not a JSON Feed")
    hubs = _list(feed.get("hubs"))
    items = [item for item in feed["items"] if isinstance(item, dict)]
    return Document(
        title=one_line(_text(feed.get("title")), MAX_TITLE),
        site_url=web_url(feed.get("home_page_url"), url),
        hub=next(
            (at for hub in hubs if isinstance(hub, dict) and hub.get("type") == "WebSub" and (at := web_url(hub.get("url"), url))),
            None,
        ),
        topic=web_url(feed.get("feed_url"), url),
        entries=distinct(_item(item, url) for item in items[:max_entries]),
        more=len(items) > max_entries,
    )


def _item(item: dict[str, Any], base: str) -> Entry:
    id = item.get("id")
    authors = _list(item.get("authors")) or [item.get("author")]
    names = [_text(each.get("name")) for each in authors if isinstance(each, dict)]
    words = _text(item.get("content_text"))
    return make_entry(
        id=str(id) if isinstance(id, str | int | float) and not isinstance(id, bool) else None,
        url=web_url(item.get("url"), base) or web_url(item.get("external_url"), base),
        title=_text(item.get("title")),
        author=", ".join(filter(None, names)) or None,
        content=_text(item.get("content_html")) or words,
        summary=_text(item.get("summary")) or None,
        published_at=_iso(item.get("date_published") or item.get("date_modified")),
    )


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _iso(value: object) -> datetime | None:
    if not isinstance(value, str) or len(value) > 64:
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return None
