"""A part of the engine with a connection of its own, and what keeps it at work."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Protocol

from rota.db.connection import AsyncConn, Backoff, close_quietly, connect_async
from rota.events import DatabaseBack, DatabaseLost, Events


class Service(Protocol):
    """What needs a connection to do its work."""

    name: str

    async def serve(self, conn: AsyncConn) -> None:
        """Works on this connection until it breaks."""


async def keep_serving(service: Service, dsn: str, events: Events, *, pooled: bool = False) -> None:
    """Gives a service a connection, and another one when that breaks, until it is cancelled."""
    backoff = Backoff()
    away_since: float | None = None
    while True:
        conn: AsyncConn | None = None
        started = monotonic()
        try:
            conn = await connect_async(dsn, service.name, pooled=pooled)
            if away_since is not None:
                events.emit(DatabaseBack(service.name, monotonic() - away_since))
                away_since = None
            await service.serve(conn)
        except Exception as error:  # whatever it is, a service that stops in silence is worse
            if monotonic() - started > 5:
                backoff.reset()
            wait_s = backoff.next()
            away_since = away_since or monotonic()
            events.emit(DatabaseLost(service.name, error, wait_s))
            await close_quietly(conn)
            await asyncio.sleep(wait_s)
        finally:
            await close_quietly(conn)
