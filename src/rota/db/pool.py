"""Pools of connections: an application's own, for enqueues that are not part of a caller's transaction, and those of handlers.

They are psycopg's, with what it takes to get over a database that was away for a moment:

- A connection is looked at each time it is handed out: PostgreSQL says goodbye on the socket, and to look there is no round trip.
  That misses connections that are ending just now. Where a round trip costs little, the server is asked each time; an application's
  enqueues ask after a second.
- Lost connections are replaced at once. psycopg's own check waits a second after the first, two after the next.
- While a caller waits, connecting is tried again several times a second. psycopg waits twice as long each time, up to minutes; the
  database may be back long before.

All that Rota knows of psycopg_pool's internals is in this file: `_waiting`, `_lock`, `_connect`, `_maybe_grow_pool` and `worker`.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, cast
from weakref import WeakKeyDictionary, WeakSet

import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

from rota.config import DatabaseSettings
from rota.config.dsn import alogin, login
from rota.db.connection import SOCKET, answer_within, has_unread
from rota.errors import ConfigError, DatabaseError

ASK_AFTER_S = 1.0  # a connection that was idle for longer is asked: a network may have dropped it without a word
POOLED_EVERY_S = 30.0  # the pool sees a connection that goes from hand to hand so often, to replace it when it is old
RETRY_S = (0.1, 0.3)  # between attempts to connect while a caller waits


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
    used_at = 0.0
    pooled_at = 0.0

    @classmethod
    def connect(cls, conninfo: str = "", **options: Any) -> Any:
        """Connect with the password of now."""
        return super().connect(conninfo, **options, **login(conninfo))


class _AsyncConn(psycopg.AsyncConnection[tuple[Any, ...]]):
    used_at = 0.0
    pooled_at = 0.0
    answer_s: float | None = None

    @classmethod
    async def connect(cls, conninfo: str = "", **options: Any) -> Any:
        """Connect with the password of now."""
        return await super().connect(conninfo, **options, **await alogin(conninfo))

    async def wait(self, *args: Any, **options: Any) -> Any:
        """Waits for an answer; not for ever, if somebody is in haste."""
        if self.answer_s is None:
            return await super().wait(*args, **options)
        with answer_within(self, self.answer_s):
            return await super().wait(*args, **options)


def _is_silent(conn: _Conn | _AsyncConn, ask_after_s: float) -> bool:
    """Whether a connection was used lately and its server has said nothing since: then it works."""
    try:
        return time.monotonic() - conn.used_at < ask_after_s and not has_unread(conn.fileno())
    except psycopg.OperationalError:  # closed on our side
        return False


class Pool(ConnectionPool[_Conn]):
    """A pool for threads. Keeps the connection that was used last at hand, so that most enqueues do without the work of a pool."""

    def __init__(self, *, ask: bool = False, **options: Any) -> None:
        self._ask_after_s = 0.0 if ask else ASK_AFTER_S
        self._at_hand: list[_Conn] = []
        self.connect_error: Exception | None = None  # of the last attempt to connect, if that failed
        super().__init__(connection_class=_Conn, open=True, reconnect_timeout=0, **options)

    def take(self) -> _Conn:
        """Return a connection that works, as far as one can know."""
        with suppress(IndexError):
            conn = self._at_hand.pop()
            if time.monotonic() - conn.pooled_at < POOLED_EVERY_S and _is_silent(conn, self._ask_after_s):
                return conn
            super().putconn(conn)
        return self.getconn()

    def give_back(self, conn: _Conn) -> None:
        """Keeps a connection after good use."""
        if self._at_hand or self._waiting or self.closed:
            self.putconn(conn)
        else:
            conn.used_at = time.monotonic()
            self._at_hand.append(conn)

    def getconn(self, timeout: float | None = None) -> _Conn:
        """Return a connection that works, and discard those that do not."""
        end = time.monotonic() + (self.timeout if timeout is None else timeout)
        while True:
            conn = super().getconn(end - time.monotonic())
            conn.pooled_at = time.monotonic()
            if _is_silent(conn, self._ask_after_s):
                return conn
            try:
                self.check_connection(conn)
            except psycopg.Error:
                conn.close()
                super().putconn(conn)  # which replaces it
            else:
                return conn

    def putconn(self, conn: _Conn) -> None:
        """Take a connection back."""
        conn.used_at = time.monotonic()
        super().putconn(conn)

    def close(self, timeout: float = 5.0) -> None:
        """Closes all connections."""
        while self._at_hand:
            super().putconn(self._at_hand.pop())
        super().close(timeout)

    def _connect(self, timeout: float | None = None) -> _Conn:
        try:
            conn = super()._connect(timeout)
        except (psycopg.Error, ConfigError) as error:
            self.connect_error = error
            raise
        self.connect_error = None
        conn.used_at = time.monotonic()
        return conn

    def reconnect_failed(self) -> None:
        """Try again in a moment as long as a caller waits, although the pool has given up."""
        time.sleep(random.uniform(*RETRY_S))
        with self._lock:
            if _is_awaited(self):
                self._maybe_grow_pool()


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


class AsyncPool(AsyncConnectionPool[_AsyncConn]):
    """The same for an event loop."""

    def __init__(self, *, ask: bool = False, answer_s: float | None = None, **options: Any) -> None:
        self._ask_after_s = 0.0 if ask else ASK_AFTER_S
        self._at_hand: list[_AsyncConn] = []
        self._answer_s = answer_s
        self.connect_error: Exception | None = None
        super().__init__(connection_class=_AsyncConn, open=False, reconnect_timeout=0, **options)

    @classmethod
    async def worker(cls, q: Any) -> None:
        """Does what the pool has to do."""
        await super().worker(cast(Any, _Errands(q)))

    async def take(self) -> _AsyncConn:
        """Return a connection that works, as far as one can know."""
        if self._at_hand:
            conn = self._at_hand.pop()
            if time.monotonic() - conn.pooled_at < POOLED_EVERY_S and _is_silent(conn, self._ask_after_s):
                return conn
            await super().putconn(conn)
        if self.closed:  # still, while a neighbour opens it: opening twice is harmless
            await self.open()
        return await self.getconn()

    async def give_back(self, conn: _AsyncConn) -> None:
        """Keeps a connection after good use."""
        if self._at_hand or self._waiting or self.closed:
            await self.putconn(conn)
        else:
            conn.used_at = time.monotonic()
            self._at_hand.append(conn)

    async def getconn(self, timeout: float | None = None) -> _AsyncConn:
        """Return a connection that works, and discard those that do not."""
        end = time.monotonic() + (self.timeout if timeout is None else timeout)
        while True:
            conn = await super().getconn(end - time.monotonic())
            conn.pooled_at = time.monotonic()
            if _is_silent(conn, self._ask_after_s):
                return conn
            try:
                await self.check_connection(conn)
            except psycopg.Error:
                await conn.close()
                await super().putconn(conn)
            except BaseException:
                await super().putconn(conn)
                raise
            else:
                return conn

    async def putconn(self, conn: _AsyncConn) -> None:
        """Take a connection back."""
        conn.used_at = time.monotonic()
        await super().putconn(conn)

    async def close(self, timeout: float = 5.0) -> None:
        """Closes all connections."""
        while self._at_hand:
            await super().putconn(self._at_hand.pop())
        await super().close(timeout)

    async def _connect(self, timeout: float | None = None) -> _AsyncConn:
        try:
            conn = await super()._connect(timeout)
        except (psycopg.Error, ConfigError) as error:
            self.connect_error = error
            raise
        self.connect_error = None
        conn.used_at = time.monotonic()
        conn.answer_s = self._answer_s
        return conn

    async def reconnect_failed(self) -> None:
        """Try again in a moment as long as a caller waits, although the pool has given up."""
        await asyncio.sleep(random.uniform(*RETRY_S))
        async with self._lock:
            if _is_awaited(self):
                self._maybe_grow_pool()


def _is_awaited(pool: Any) -> bool:
    return not pool.closed and any(each.error is None for each in list(pool._waiting))  # callers who gave up are still there


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
        self._pool: Pool | None = None
        self._async_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncPool] = WeakKeyDictionary()

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection for a moment."""
        with self._lock:
            pool = self._pool = self._pool or Pool(**self._options())
        try:
            conn = pool.take()
        except PoolTimeout as error:
            raise self._explain(pool.connect_error) from error
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
            pool = self._async_pools[loop] = AsyncPool(answer_s=answer_s, **self._options())
        try:
            conn = await pool.take()
        except PoolTimeout as error:
            raise self._explain(pool.connect_error) from error
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

    def _explain(self, connect_error: Exception | None) -> DatabaseError:
        """Say why the pool had no connection to give, which it does not say itself."""
        if connect_error is not None:
            return DatabaseError(f"PostgreSQL cannot be reached: {connect_error}")
        wait_s = self._database.connect_timeout_s if self._haste is None else self._haste.wait_s
        return DatabaseError(
            f"no connection was free for {wait_s:g} s: the {self._database.pool_max} of the pool are busy, or PostgreSQL does not "
            "answer; raise database.pool_max, or pass a connection of your own with conn="
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
            "ask": haste is not None,
        }


_pools: WeakSet[Pools] = WeakSet()


def _forget_the_parents() -> None:
    for pools in _pools:
        pools._start_anew()


os.register_at_fork(after_in_child=_forget_the_parents)  # two processes must not talk on one connection
