"""A part of the engine with a line of its own to the database, and what keeps it at work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Protocol, TypeVar

from rota.db.connection import AsyncConn, Backoff, close_quietly, connect_async
from rota.events import DatabaseBack, DatabaseLost, Events

Line = TypeVar("Line")
Line_contra = TypeVar("Line_contra", contravariant=True)


class Service(Protocol[Line_contra]):
    """What needs a line, a connection or a session of the transport, to do its work."""

    name: str

    async def serve(self, line: Line_contra, /) -> None:
        """Works on this line until it breaks."""


async def keep_serving(service: Service[AsyncConn], dsn: str, events: Events, *, pooled: bool = False) -> None:
    """Gives a service a connection, and another one when that breaks, until it is cancelled."""
    await keep_supplied(service, lambda: connect_async(dsn, service.name, pooled=pooled), close_quietly, events)


async def keep_supplied(
    service: Service[Line], open: Callable[[], Awaitable[Line]], close: Callable[[Line], Awaitable[None]], events: Events
) -> None:
    """Gives a service what `open` opens, and another one when that breaks, until it is cancelled."""
    backoff = Backoff()
    away_since: float | None = None
    while True:
        line: Line | None = None
        started = monotonic()
        try:
            line = await open()
            if away_since is not None:
                events.emit(DatabaseBack(service.name, monotonic() - away_since))
                away_since = None
            await service.serve(line)
        except Exception as error:  # whatever it is, a service that stops in silence is worse
            if monotonic() - started > 5:
                backoff.reset()
            wait_s = backoff.next()
            away_since = away_since or monotonic()
            events.emit(DatabaseLost(service.name, error, wait_s))
            if line is not None:
                await close(line)
            await asyncio.sleep(wait_s)
        finally:
            if line is not None:
                await close(line)
