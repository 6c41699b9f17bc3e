"""The address of a feed, in the one form by which feeds are told apart."""

from __future__ import annotations

from typing import NamedTuple

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


def read_address(text: str) -> Address:
    """The address that somebody has written; UsageError if it is none that may be called."""
    from rota.outbound.client import Request  # here, since it loads a client, which many processes never need

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
    return Address(_without_port(target.whole), target.host)


def _without_port(url: str) -> str:
    """The port that a scheme has anyway says nothing."""
    scheme, _, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    usual = {"http": ":80", "https": ":443"}[scheme]
    return f"{scheme}://{place.removesuffix(usual)}{slash}{path}"
