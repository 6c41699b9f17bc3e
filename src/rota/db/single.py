"""Connections without pools, for tests: few, opened when first used, and closed from wherever the test ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg

from rota.db.connection import has_unread

_PARAMETERS: dict[str, Any] = {"autocommit": True, "application_name": "rota enqueue", "connect_timeout": 10}


def _is_lost(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    return conn.closed or has_unread(conn.fileno())


class SingleConnections:
    """One connection for all threads and one for each event loop, used by one caller at a time.

    A pool lives in its event loop and can only be closed there. These can be closed when the loop is long gone, which is
    what a test needs whose loop belongs to somebody else.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._lock = threading.Lock()
        self._conn: psycopg.Connection[Any] | None = None
        self._async_locks: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}
        self._async_conns: dict[asyncio.AbstractEventLoop, psycopg.AsyncConnection[Any]] = {}

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """The connection of threads for a moment."""
        with self._lock:
            if self._conn is None or _is_lost(self._conn):
                self._conn = psycopg.connect(self._dsn, **_PARAMETERS)
            yield self._conn

    @asynccontextmanager
    async def async_connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """The connection of the running event loop for a moment."""
        loop = asyncio.get_running_loop()
        async with self._async_locks.setdefault(loop, asyncio.Lock()):
            conn = self._async_conns.get(loop)
            if conn is None or _is_lost(conn):
                conn = self._async_conns[loop] = await psycopg.AsyncConnection.connect(self._dsn, **_PARAMETERS)
            yield conn

    def close(self) -> None:
        """Closes all of them; the next use opens one again."""
        if self._conn is not None:
            self._conn.close()
        for conn in self._async_conns.values():
            conn.pgconn.finish()  # what close() would do, without the event loop
        self._async_conns.clear()

    async def aclose(self) -> None:
        """Closes all of them."""
        self.close()
