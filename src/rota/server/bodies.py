"""Requests that are too long are refused before they are in memory."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.server.problem import problem
from rota.server.scope import REQUEST_ID

FRAMING = frozenset({b"content-length", b"transfer-encoding"})
CLOSE = {"connection": "close"}  # what is still to come of the body is not read


class BodyTooLong(HTTPException):
    """A body without a length turned out to be too long while it was read."""

    def __init__(self, most: int) -> None:
        super().__init__(413, _words(most), CLOSE)


class BodyLimit:
    """Refuse bodies over a number of bytes, by Content-Length and by counting what comes, and those whose end is ambiguous."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request pass, and counts its body on the way."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if (words := _ambiguous(scope["headers"])) is not None:
            await problem(400, detail=words, request_id=scope.get(REQUEST_ID), headers=CLOSE)(scope, receive, send)
            return
        lengths = {value for name, value in scope["headers"] if name == b"content-length"}
        if lengths:
            length = _length(lengths)
            if length is None or length > self._most:
                words = "Content-Length must be one whole number" if length is None else _words(self._most)
                refusal = problem(400 if length is None else 413, detail=words, request_id=scope.get(REQUEST_ID), headers=CLOSE)
                await refusal(scope, receive, send)
                return
        elif not any(name == b"transfer-encoding" for name, _ in scope["headers"]):
            await self._app(scope, receive, send)  # no body
            return
        read = 0

        async def receive_some() -> Message:
            nonlocal read
            message = await receive()
            if message["type"] == "http.request":
                read += len(message.get("body", b""))
                if read > self._most:
                    raise BodyTooLong(self._most)
            return message

        await self._app(scope, receive_some, send)


def _ambiguous(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Say why it is not clear where a body ends: servers that disagree on that take part of it for another request."""
    names = {name for name, _ in headers}
    if names >= FRAMING:
        return "a request has Content-Length or Transfer-Encoding, not both"
    for name in names - FRAMING:
        if (meant := name.replace(b"_", b"-")) in FRAMING:
            return f"the header {name.decode()} is not allowed: other servers may take it for {meant.decode()}"
    return None


def _length(values: set[bytes]) -> int | None:
    value = values.pop()
    return int(value) if not values and value.isdigit() and len(value) < 20 else None


def _words(most: int) -> str:
    return f"the body is longer than {most:,} bytes, which is what server.max_body_bytes allows"
