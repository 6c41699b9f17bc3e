"""What handlers need of the process they run in: the worker's identity, threads and connections of their own."""

from __future__ import annotations

import threading
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from rota.db.connection import AsyncConn, connect_async
from rota.engine.postgres import PostgresSession
from rota.engine.threads import Threads
from rota.events import Events
from rota.model.run import Run


class Desk:
    """Shared by all handlers of a process. Its pools open on first use, so a worker whose handlers never ask pays nothing."""

    def __init__(self, dsn: str, worker_id: UUID, *, size: int, pooled: bool = False, events: Events | None = None) -> None:
        self.worker_id = worker_id
        self.pooled = pooled
        self.events = events or Events()
        self._dsn = dsn
        self.threads = Threads()
        self._lock = threading.Lock()
        parameters: dict[str, Any] = {"application_name": "rota handler", "connect_timeout": 5}
        if pooled:
            parameters["prepare_threshold"] = None
        self._pool_parameters: dict[str, Any] = {
            "conninfo": dsn, "kwargs": parameters, "min_size": 0, "max_size": max(size, 1), "max_idle": 60.0, "open": False,
        }  # fmt: skip
        self._async_pool: AsyncConnectionPool[AsyncConnection[tuple[Any, ...]]] | None = None
        self._pool: ConnectionPool[Connection[tuple[Any, ...]]] | None = None

    async def async_pool(self) -> AsyncConnectionPool[AsyncConnection[tuple[Any, ...]]]:
        """Connections for async handlers."""
        if self._async_pool is None:
            self._async_pool = AsyncConnectionPool(**self._pool_parameters, check=AsyncConnectionPool.check_connection)
            await self._async_pool.open()
        return self._async_pool

    def pool(self) -> ConnectionPool[Connection[tuple[Any, ...]]]:
        """Connections for synchronous handlers."""
        with self._lock:  # handlers ask from several threads
            if self._pool is None:
                pool = ConnectionPool(**self._pool_parameters, check=ConnectionPool.check_connection)
                pool.open()
                self._pool = pool
            return self._pool

    async def connect(self, name: str) -> AsyncConn:
        """A connection like those of the worker's own services, for handlers that do the engine's work."""
        return await connect_async(self._dsn, name, pooled=self.pooled)

    async def other_worker_knows(self, run: Run) -> bool:
        """Whether another live worker could run this task."""
        async with (await self.async_pool()).connection() as conn:
            return await PostgresSession(conn, self.worker_id).other_worker_knows(run.task, run.queue)

    async def close(self) -> None:
        """Closes the pools and lets the threads end."""
        self.threads.close()
        if self._async_pool is not None:
            await self._async_pool.close(timeout=2)
        if self._pool is not None:
            self._pool.close(timeout=2)
