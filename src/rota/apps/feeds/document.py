"""What a feed says, in whatever dialect: the same few things of each, checked and bounded."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from rota.apps.feeds.text import one_line, plain, storable
from rota.errors import RotaError

MAX_UID = 500
MAX_TITLE = 500
MAX_AUTHOR = 200
MAX_SUMMARY = 500
MAX_CONTENT = 262_144

_OLDEST = datetime(1990, 1, 1, tzinfo=UTC)


class NotAFeed(RotaError):
    """What was found at the address of a feed is none."""

    code = "not_a_feed"


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that a feed tells of."""

    uid: str
    url: str | None
    title: str
    author: str | None
    content: str
    summary: str
    published_at: datetime | None

    @property
    def digest(self) -> str:
        """Says whether it has changed."""
        return _digest(self.url or "", self.title, self.author or "", self.content)


@dataclass(frozen=True, slots=True)
class Document:
    """One feed as it was read."""

    title: str = ""
    site_url: str | None = None
    hub: str | None = None  # who tells of news at once, by WebSub
    topic: str | None = None  # what the hub knows the feed as
    ttl: timedelta | None = None  # that its author asks for
    entries: Sequence[Entry] = field(default_factory=tuple)
    more: bool = False  # there were more entries than are taken


def make_entry(
    *, id: str | None, url: str | None, title: str, author: str | None, content: str, published_at: datetime | None,
    summary: str | None = None,
) -> Entry:  # fmt: skip
    """An entry of what a feed says of it; one without an id is known by its link, or else by what it says."""
    shown = one_line(title, MAX_TITLE)
    kept = storable(content, MAX_CONTENT)
    uid = storable((id or "").strip(), 100_000) or url or "sha256:" + _digest(shown, kept)
    return Entry(
        uid=uid if len(uid.encode()) <= MAX_UID else "sha256:" + _digest(uid),
        url=url,
        title=shown,
        author=one_line(author, MAX_AUTHOR) or None if author else None,
        content=kept,
        summary=plain(summary or kept, MAX_SUMMARY),
        published_at=_sane(published_at),
    )


def distinct(entries: Iterable[Entry]) -> list[Entry]:
    """Each entry once. An id that several of them share, with links of their own, is no id: then the link tells them apart."""
    given = list(entries)
    links: dict[str, set[str]] = {}
    for each in given:
        links.setdefault(each.uid, set()).add(each.url or "")
    shared = Counter({uid: len(found) for uid, found in links.items()})
    told = [replace(each, uid="sha256:" + _digest(each.uid, each.url or "")) if shared[each.uid] > 1 else each for each in given]
    return list({each.uid: each for each in reversed(told)}.values())[::-1]  # of two the first: the newer one, by custom


def _sane(at: datetime | None) -> datetime | None:
    """A date that can be true; clocks of strangers are set to anything."""
    if at is None:
        return None
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    try:
        at = at.astimezone(UTC)
    except (OverflowError, ValueError):
        return None
    return at if _OLDEST <= at <= datetime(2200, 1, 1, tzinfo=UTC) else None


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()
