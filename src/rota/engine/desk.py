"""What handlers need of the process they run in: the worker's identity, threads and connections of their own."""

from __future__ import annotations

import threading
from typing import Any
from uuid import UUID

from rota.db.connection import AsyncConn, connect_async
from rota.db.pool import AsyncPool, Pool
from rota.engine.threads import Threads
from rota.events import Events


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
            "conninfo": dsn, "kwargs": parameters, "min_size": 0, "max_size": max(size, 1), "max_idle": 60.0, "ask": True,
        }  # fmt: skip
        self._async_pool: AsyncPool | None = None
        self._pool: Pool | None = None

    async def async_pool(self) -> AsyncPool:
        """Connections for async handlers."""
        if self._async_pool is None:
            self._async_pool = AsyncPool(**self._pool_parameters)
            await self._async_pool.open()
        return self._async_pool

    def pool(self) -> Pool:
        """Connections for synchronous handlers."""
        with self._lock:  # handlers ask from several threads
            if self._pool is None:
                self._pool = Pool(**self._pool_parameters)
            return self._pool

    async def connect(self, name: str) -> AsyncConn:
        """A connection like those of the worker's own services, for handlers that do the engine's work."""
        return await connect_async(self._dsn, name, pooled=self.pooled)

    async def close(self) -> None:
        """Closes the pools and lets the threads end."""
        self.threads.close()
        if self._async_pool is not None:
            await self._async_pool.close(timeout=2)
        if self._pool is not None:
            self._pool.close(timeout=2)
