"""OPML, the list of feeds that readers export: read leniently, since many are not quite XML, and without trusting it."""

from __future__ import annotations

import re
from html import unescape
from typing import NamedTuple

from rota.apps.feeds.addresses import read_address
from rota.apps.feeds.text import defused, one_line
from rota.config import Settings
from rota.errors import UsageError

MAX_BYTES = 10 * 1_048_576
MAX_FEEDS = 50_000

# Neither a parser of XML, which stops at the first mistake, nor one of HTML, which is slow where quotes and comments do not end.
_OPML = re.compile(r"<(?:\w{1,20}:)?(?:opml|outline)\b", re.IGNORECASE)
_ADDRESS = re.compile(r"""\bxmlurl\s*=\s*(?:"([^"]{1,8192})"|'([^']{1,8192})'|([^\s"'<>]{1,8192}))""", re.IGNORECASE)


class Refused(NamedTuple):
    """An address in a list that cannot be subscribed to."""

    url: str
    reason: str


class Opml(NamedTuple):
    """What is in a list: addresses, each once and in their order, and what was no address."""

    urls: list[str]
    refused: list[Refused]


def read_opml(body: bytes, settings: Settings | None = None) -> Opml:
    """The feeds of a list, without those that by these settings may not be called; UsageError if it is none."""
    if len(body) > MAX_BYTES:
        raise UsageError(f"the list has {len(body):,} bytes: at most {MAX_BYTES:,}; split it")
    text = _without_comments(defused(body))
    if not _OPML.search(text):
        raise UsageError("this is not OPML: a list of feeds has <opml> and an <outline xmlUrl=…> for each of them")
    urls: dict[str, None] = {}
    refused: dict[str, Refused] = {}
    for match in _ADDRESS.finditer(text):
        given = unescape(next(filter(None, match.groups())))
        try:
            urls[read_address(given, settings).url] = None
        except UsageError as error:
            shown = one_line(given, 200)
            refused[shown] = Refused(shown, str(error))
    if len(urls) > MAX_FEEDS:
        raise UsageError(f"the list has {len(urls):,} feeds: at most {MAX_FEEDS:,}; split it")
    return Opml(list(urls), list(refused.values()))


def _without_comments(text: str) -> str:
    """What is commented out is not meant. By hand: a pattern would look for the end of each to the end of all."""
    kept, at = [], 0
    while (start := text.find("<!--", at)) >= 0:
        kept.append(text[at:start])
        end = text.find("-->", start + 4)
        if end < 0:
            return "".join(kept)
        at = end + 3
    return "".join([*kept, text[at:]])
