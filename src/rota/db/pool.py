"""The application's own connections, for enqueues that are not part of a caller's transaction."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, cast
from weakref import WeakKeyDictionary, WeakSet

import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

from rota.config import DatabaseSettings
from rota.db.connection import SOCKET, answer_within
from rota.errors import DatabaseError

# How long a connection goes from hand to hand before the pool looks at its health and age again. Looking each time would
# double the round trips of an enqueue.
_TRUSTED_S = 1.0
_ASK_S = 2


@dataclass(frozen=True, slots=True)
class Haste:
    """For callers behind whom somebody waits, who had better be told to come back: how long each thing may take."""

    wait_s: float  # for a free connection
    statement_timeout_ms: int  # in the database; behind a transaction pooler that is for its operator to say
    answer_s: float  # for an answer to one statement: a database may have gone without a word


class Connections(Protocol):
    """Where an enqueue finds a connection that commits each statement."""

    def connection(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        """A connection for a moment."""

    def async_connection(self) -> AbstractAsyncContextManager[psycopg.AsyncConnection[Any]]:
        """A connection of the running event loop for a moment."""

    def close(self) -> None:
        """Closes what threads use."""

    async def aclose(self) -> None:
        """Closes what threads and the running event loop use."""


class _Conn(psycopg.Connection[tuple[Any, ...]]):
    looked_at = 0.0


class _AsyncConn(psycopg.AsyncConnection[tuple[Any, ...]]):
    looked_at = 0.0
    answer_s: float | None = None

    async def wait(self, *args: Any, **options: Any) -> Any:
        """Waits for an answer; not for ever, if somebody is in haste."""
        if self.answer_s is None:
            return await super().wait(*args, **options)
        with answer_within(self, self.answer_s):
            return await super().wait(*args, **options)


class _Pool(ConnectionPool[_Conn]):
    """Keeps the connection that was used last at hand, so that most enqueues have none of the work of a pool."""

    def __init__(self, **options: Any) -> None:
        self._at_hand: list[_Conn] = []
        super().__init__(connection_class=_Conn, check=self.check_connection, open=True, **options)

    def take(self) -> _Conn:
        """A connection that works, as far as one can know."""
        try:
            conn = self._at_hand.pop()
        except IndexError:
            pass
        else:
            if time.monotonic() - conn.looked_at < _TRUSTED_S:
                return conn
            self.putconn(conn)
        conn = self.getconn()
        conn.looked_at = time.monotonic()
        return conn

    def give_back(self, conn: _Conn) -> None:
        """Keeps a connection after good use."""
        if self._at_hand or self._waiting or self.closed:
            self.putconn(conn)
        else:
            self._at_hand.append(conn)

    def close(self, timeout: float = 5.0) -> None:
        """Closes all connections."""
        while self._at_hand:
            self.putconn(self._at_hand.pop())
        super().close(timeout)


class _Errands:
    """What a pool has to do, until its event loop ends.

    The pool takes a cancellation for an error of the connection it is opening, and would go on: asyncio.run(), which cancels
    what is left and waits for it, would never return.
    """

    def __init__(self, errands: Any) -> None:
        self._errands = errands

    async def get(self) -> Any:
        """The next one."""
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
        return await self._errands.get()


class _AsyncPool(AsyncConnectionPool[_AsyncConn]):
    """The same for an event loop."""

    def __init__(self, answer_s: float | None = None, **options: Any) -> None:
        self._at_hand: list[_AsyncConn] = []
        self._answer_s = answer_s
        configure = None if answer_s is None else self._hasten
        super().__init__(connection_class=_AsyncConn, check=self._look_at, configure=configure, open=False, **options)

    async def _look_at(self, conn: _AsyncConn) -> None:
        """Sees whether a connection works, unless that is known already: each look is a question to the server."""
        if time.monotonic() - conn.looked_at >= _TRUSTED_S:
            await self.check_connection(conn)
            conn.looked_at = time.monotonic()

    async def _hasten(self, conn: _AsyncConn) -> None:
        conn.answer_s = self._answer_s

    @classmethod
    async def worker(cls, q: Any) -> None:
        """Does what the pool has to do."""
        await super().worker(cast(Any, _Errands(q)))

    async def take(self) -> _AsyncConn:
        """A connection that works, as far as one can know."""
        if self._at_hand:
            conn = self._at_hand.pop()
            if time.monotonic() - conn.looked_at < _TRUSTED_S:
                return conn
            await self.putconn(conn)
        if self.closed:  # still, while a neighbour opens it: opening twice is harmless
            await self.open()
        return await self.getconn()

    async def give_back(self, conn: _AsyncConn) -> None:
        """Keeps a connection after good use."""
        if self._at_hand or self._waiting or self.closed:
            await self.putconn(conn)
        else:
            self._at_hand.append(conn)

    async def close(self, timeout: float = 5.0) -> None:
        """Closes all connections."""
        while self._at_hand:
            await self.putconn(self._at_hand.pop())
        await super().close(timeout)


class Pools:
    """A pool for threads and one for each event loop, opened when first used. Connections commit each statement."""

    def __init__(
        self,
        database: DatabaseSettings,
        *,
        name: str = "enqueue",
        haste: Haste | None = None,
    ) -> None:
        self._database = database
        self._name = name
        self._haste = haste
        self._start_anew()
        _pools.add(self)

    def _start_anew(self) -> None:
        self._lock = threading.Lock()
        self._pool: _Pool | None = None
        self._async_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, _AsyncPool] = WeakKeyDictionary()

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection for a moment."""
        with self._lock:
            pool = self._pool = self._pool or _Pool(**self._options())
        try:
            conn = pool.take()
        except PoolTimeout as error:
            raise self._explain() from error
        try:
            yield conn
        except BaseException as error:
            if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                conn.close()  # the server has become a standby: the next connection finds the one that took over
            pool.putconn(conn)  # which puts it right, or replaces it
            raise
        pool.give_back(conn)

    @asynccontextmanager
    async def async_connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """A connection of the running event loop's pool for a moment."""
        loop = asyncio.get_running_loop()
        pool = self._async_pools.get(loop)
        if pool is None:
            answer_s = None if self._haste is None else self._haste.answer_s
            pool = self._async_pools[loop] = _AsyncPool(answer_s, **self._options())
        try:
            conn = await pool.take()
        except PoolTimeout as error:
            if self._haste is not None:  # as is who asked: finding out why takes seconds more
                raise DatabaseError(
                    f"no connection to PostgreSQL was free, or could be made, for {self._haste.wait_s:g} s"
                ) from error
            raise await asyncio.to_thread(self._explain) from error
        try:
            yield conn
        except BaseException as error:
            if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                await conn.close()
            await pool.putconn(conn)
            raise
        await pool.give_back(conn)

    def close(self) -> None:
        """Closes the pool for threads; the next use opens it again."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    async def aclose(self) -> None:
        """Closes the running event loop's pool, and the one for threads."""
        pool = self._async_pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.close()
        self.close()

    def _explain(self) -> DatabaseError:
        """Why the pool had no connection to give, which it does not say itself."""
        try:
            psycopg.connect(self._database.dsn, connect_timeout=_ASK_S).close()
        except psycopg.Error as error:
            return DatabaseError(f"PostgreSQL cannot be reached: {error}")
        return DatabaseError(
            f"no connection was free for {self._database.connect_timeout_s:g} s: the {self._database.pool_max} of the pool "
            "are busy; raise database.pool_max, or pass a connection of your own with conn="
        )

    def _options(self) -> dict[str, Any]:
        database, haste = self._database, self._haste
        limits = {}
        if haste is not None and not database.pooled:  # a transaction pooler refuses settings of a session
            limits = {"options": f"-c statement_timeout={haste.statement_timeout_ms}"}
        return {
            "conninfo": database.dsn,
            "kwargs": {
                **SOCKET,
                **limits,
                "autocommit": True,
                "application_name": f"rota {self._name}",
                "connect_timeout": round(database.connect_timeout_s),
                # Behind a transaction pooler the next transaction has another session, without what was prepared.
                "prepare_threshold": None if database.pooled else 1,
            },
            "min_size": database.pool_min,
            "max_size": database.pool_max,
            "timeout": database.connect_timeout_s if haste is None else haste.wait_s,
            "max_lifetime": database.max_lifetime_s,
            "max_idle": database.max_idle_s,
            "name": "rota",
        }


_pools: WeakSet[Pools] = WeakSet()


def _forget_the_parents() -> None:
    for pools in _pools:
        pools._start_anew()


os.register_at_fork(after_in_child=_forget_the_parents)  # two processes must not talk on one connection
