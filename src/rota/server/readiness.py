"""Whether the server can answer: its database is there and has the schema of this version."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING

import psycopg

from rota.db import migrations
from rota.errors import RotaError

if TYPE_CHECKING:
    from rota.server.state import State

LOOK_EVERY_S = 1.0  # whoever asks more often is told the same again
LOOK_WITHIN_S = 5.0

log = logging.getLogger("rota.server")


class Readiness:
    """Looks, and remembers for a moment."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._lock = asyncio.Lock()
        self._looked_at = 0.0
        self._wrong: str | None = None

    async def check(self) -> str | None:
        """What is wrong; None if nothing is."""
        if self._state.draining:
            return "the server is stopping"
        async with self._lock:
            if not self._looked_at or monotonic() - self._looked_at > LOOK_EVERY_S:
                self._wrong = await self._look()
                self._looked_at = monotonic()
        return self._wrong

    async def _look(self) -> str | None:
        try:
            async with asyncio.timeout(LOOK_WITHIN_S), self._state.connection() as conn:
                lacking = await migrations.lacking(conn, self._state.app.migrations)
        except (RotaError, psycopg.Error, TimeoutError) as error:
            log.warning("not ready: %s", error or type(error).__name__)
            return "the database cannot be reached"
        if lacking:
            return f"{migrations.describe_missing(lacking)}: run `rota migrate up`"
        return None
