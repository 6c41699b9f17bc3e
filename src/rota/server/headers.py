"""Headers that every answer carries, errors included: what a browser must not do with it.

The defaults suit JSON: nothing of it may be loaded, framed, sniffed or kept. A route that answers with a page puts `PAGE` on it,
and keeps the rest. A header that a route sets itself stays as it is.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY = "content-security-policy"

# For pages of our own: scripts, styles and calls from here only, nothing inline, and no text that becomes markup or a script.
PAGE = {
    _POLICY: "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
}
DEFAULTS = {
    _POLICY: "default-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not `no-referrer`: with that, browsers send `Origin: null` with our own forms, and we could not tell them from others'.
    "referrer-policy": "same-origin",
    "permissions-policy": "accelerometer=(), camera=(), geolocation=(), gyroscope=(), microphone=(), payment=(), usb=()",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "cache-control": "no-store",
}
HTTPS = {"strict-transport-security": "max-age=31536000"}


def encode(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers as they are in ASGI's messages."""
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]


class SecurityHeaders:
    """Adds the defaults to every answer that does not say otherwise."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._plain = encode(DEFAULTS)
        self._secure = encode({**DEFAULTS, **HTTPS})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers with the headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        defaults = self._secure if scope.get("scheme") == "https" else self._plain

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = list(message.get("headers", ()))
                named = {name.lower() for name, _ in own}
                message["headers"] = own + [header for header in defaults if header[0] not in named]
            await send(message)

        await self._app(scope, receive, send_with_headers)
