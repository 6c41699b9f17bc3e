"""ETags: of each answer, so that what has not changed is not sent again, and of what can be edited, so that nobody undoes unseen
what somebody else has changed.

The ETag of something that can be edited has two parts, `"version-digest"`. The version is of what operators can set, the digest of
the whole answer: how a schedule has gone changes with every run and is no reason to refuse an edit, but is a reason to send it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Header, Request, Response
from fastapi.routing import APIRoute

from rota.control.versions import version_of
from rota.errors import UsageError
from rota.server.reading import repeat_read

_TAG = re.compile(r'(?:W/)?"([\x21\x23-\x7e\x80-\xff]*)"')
_LIST = re.compile(r'\s*(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"\s*(?:,\s*(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"\s*)*')


class TaggedRoute(APIRoute):
    """A route whose answers to GET have an ETag, and are not sent to those who have them already."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            response = await (repeat_read(lambda: handle(request)) if request.method == "GET" else handle(request))
            version = response.headers.get("etag")
            if version is not None or (response.status_code == 200 and request.method == "GET"):
                digest = hashlib.sha256(response.body).hexdigest()[:16]
                tag = f"{version}-{digest}" if version is not None else digest
                response.headers["etag"] = f'"{tag}"'
                response.headers.setdefault("cache-control", "private, no-cache")
                if request.method == "GET" and _names(request.headers.get("if-none-match"), tag):
                    kept = {name: response.headers[name] for name in ("etag", "cache-control")}
                    return Response(status_code=304, headers=kept)
            return response

        return answer


def tag(response: Response, record: Any) -> None:
    """Gives an answer the version of what it shows; the route adds the rest."""
    response.headers["etag"] = version_of(record)


async def _read_if_match(
    if_match: Annotated[
        str | None,
        Header(
            max_length=1000,
            description="The ETag of what is to be changed, as it was last seen: 412 if somebody has changed it since.",
        ),
    ] = None,
) -> str | None:
    """The version that the caller has seen; None: any."""
    if if_match is None or if_match.strip() == "*":
        return None
    if (found := _TAG.fullmatch(if_match.strip())) is None:
        error = UsageError('If-Match is not an ETag: send one as it was given, with its quotes, or "*"')
        error.field = "header.If-Match"
        raise error
    return found[1].partition("-")[0]


expected_version = _read_if_match


def _names(header: str | None, tag: str) -> bool:
    if header is None or header.strip() == "*":
        return header is not None
    return _LIST.fullmatch(header) is not None and tag in _TAG.findall(header)
