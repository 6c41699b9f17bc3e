"""Whom credentials stand for: looked up for all requests of a moment at once, and anew for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeVar
from uuid import UUID

from rota.db.connection import AsyncConn
from rota.server.reading import repeat_read
from rota.server.together import Together
from rota.store import accounts, api_tokens
from rota.store.accounts import Holder

Credential = TypeVar("Credential", bytes, UUID)


class Holders:
    """Three ways to be known: by a session's cookie, by a JWT, by a token of a program."""

    def __init__(self, connection: Callable[[], AbstractAsyncContextManager[AsyncConn]]) -> None:
        self._connection = connection
        self.by_cookie = self._together(accounts.by_cookies)  # asked by its hash
        self.by_jwt = self._together(accounts.by_jwts)  # by its session's id
        self.by_token = self._together(api_tokens.use_all)  # by its hash

    def _together(
        self, look_up: Callable[[AsyncConn, Sequence[Credential]], Awaitable[dict[Credential, Holder]]]
    ) -> Together[Credential, Holder | None]:
        async def do(asked: Sequence[Credential]) -> list[Holder | None]:
            async def read() -> dict[Credential, Holder]:
                async with self._connection() as conn:
                    return await look_up(conn, list(set(asked)))

            found = await repeat_read(read)
            return [found.get(each) for each in asked]

        return Together(do)
