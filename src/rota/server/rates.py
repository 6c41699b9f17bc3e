"""How often somebody may ask: so many requests a minute for each user, token or address, in each process.

Each has a bucket of tokens that fills up evenly. Who asks is known after the guard has looked; so that nobody gets a new bucket by
making up another token, a request counts against its address until the same credentials have passed once. Nothing is shared
between processes: with several, the limit is as many times as high.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from time import monotonic

from starlette.types import ASGIApp, Receive, Scope, Send

from rota.errors import RateLimited
from rota.server.problem import of_error
from rota.server.scope import PRINCIPAL, REQUEST_ID, own_path

MOST_BUCKETS = 20_000
UNLIMITED = frozenset({"/healthz", "/readyz"})  # asked for by whoever keeps the process alive


class Buckets:
    """Buckets of tokens by key; those that were not used for longest are forgotten first."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = monotonic) -> None:
        self._size = float(per_minute)
        self._per_s = per_minute / 60
        self._clock = clock
        self._buckets: OrderedDict[bytes, tuple[float, float]] = OrderedDict()  # tokens, and when that was

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: bytes) -> float:
        """Takes a token, and gives 0; or, if there is none, the seconds until there will be one."""
        tokens = self._tokens(key)
        if tokens >= 1:
            self._buckets[key] = (tokens - 1, self._clock())
            self._buckets.move_to_end(key)
            if len(self._buckets) > MOST_BUCKETS:
                self._buckets.popitem(last=False)
            return 0.0
        return (1 - tokens) / self._per_s

    def _tokens(self, key: bytes) -> float:
        tokens, at = self._buckets.get(key, (self._size, 0.0))
        return min(self._size, tokens + (self._clock() - at) * self._per_s)


class RateLimit:
    """Refuses requests of who asks too often."""

    def __init__(self, app: ASGIApp, per_minute: int) -> None:
        self._app = app
        self._per_minute = per_minute
        self._buckets = Buckets(per_minute)
        self._known: OrderedDict[bytes, bytes] = OrderedDict()  # whose credentials these are, by their hash

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request pass, or not yet."""
        if scope["type"] != "http" or own_path(scope) in UNLIMITED:
            await self._app(scope, receive, send)
            return
        credentials = _credentials(scope)
        address = (scope["client"][0] if scope.get("client") else "").encode()
        wait_s = self._buckets.take(self._known.get(credentials, address))
        if wait_s:
            error = RateLimited(f"more than {self._per_minute:,} requests a minute: wait {wait_s:.0f} s or more", wait_s)
            await of_error(error, scope.get(REQUEST_ID))(scope, receive, send)
            return
        await self._app(scope, receive, send)
        if (principal := scope.get(PRINCIPAL)) is not None and credentials not in self._known:
            of_token = principal.via == "token"
            self._known[credentials] = f"{of_token} {principal.credential if of_token else principal.account_id}".encode()
            if len(self._known) > MOST_BUCKETS:
                self._known.popitem(last=False)


def _credentials(scope: Scope) -> bytes:
    """What a request is known by, as a hash: secrets are not kept."""
    digest = blake2b(digest_size=16)
    for name, value in scope["headers"]:
        if name in (b"authorization", b"cookie"):
            digest.update(value)
    return digest.digest()
