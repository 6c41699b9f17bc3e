"""The address of a feed, in the one form by which feeds are told apart. Its query, where tokens are, is stored encrypted."""

from __future__ import annotations

import hashlib
from typing import NamedTuple
from urllib.parse import urlsplit

from rota import seal, unseal
from rota.config import Settings
from rota.errors import UsageError

_SCHEMES = {
    "feed://": "http://",
    "feed:https://": "https://",
    "feed:http://": "http://",
}  # which some readers made up


class Address(NamedTuple):
    """Where a feed is."""

    url: str
    host: str

    @property
    def base(self) -> str:
        """The address without its query, as it is stored and shown."""
        return self.url.partition("?")[0]

    @property
    def digest(self) -> str:
        """The address as it is looked up, which does not tell a token."""
        return digest(self.url)

    def seal_query(self, feed_id: int) -> str | None:
        """Return the query as it is stored with a feed; None if there is none."""
        query = self.url.partition("?")[2]
        return seal(query, **_bound(feed_id, self.url), key_needed=False) if query else None


def read_address(text: str, settings: Settings | None = None) -> Address:
    """Return the address that somebody has written. UsageError if it is none, or by these settings may not be called."""
    from rota.outbound.address import check_target  # here, since many processes never need them
    from rota.outbound.client import Request

    url = text.strip().partition("#")[0] if isinstance(text, str) else ""
    for prefix, scheme in sorted(_SCHEMES.items(), key=lambda each: -len(each[0])):
        if url.lower().startswith(prefix):
            url = scheme + url[len(prefix) :]
            break
    try:
        target = Request.to(url).target
    except UsageError as error:
        error.field = "url"
        raise
    if settings is not None:
        check_target(target, settings)
    return Address(_without_port(target.whole), target.host)


def whole_url(feed_id: int, url: str, query: str | None) -> str:
    """Return the address of a feed from what is stored of it."""
    return url if query is None else f"{url}?{unseal(query, **_bound(feed_id, url))}"


def digest(text: str) -> str:
    """Return what a text with a secret in it is looked up by."""
    return hashlib.sha256(text.encode()).hexdigest()


def _bound(feed_id: int, url: str) -> dict[str, str]:
    """Name the record and the server that a query is for: copied to another feed, or with another server, it cannot be read."""
    parts = urlsplit(url)
    return {"kind": "feed", "id": str(feed_id), "field": "query", "origin": f"{parts.scheme}://{parts.netloc}"}


def _without_port(url: str) -> str:
    """The port that a scheme has anyway says nothing."""
    scheme, _, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    usual = {"http": ":80", "https": ":443"}[scheme]
    return f"{scheme}://{place.removesuffix(usual)}{slash}{path}"
