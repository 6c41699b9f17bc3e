"""Connections of the engine: how they are opened, when they count as lost, and how long to wait before the next try."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import select
import socket
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection

from rota.config import DatabaseSettings
from rota.config.dsn import alogin, login

AsyncConn = AsyncConnection[tuple[Any, ...]]
Conn = Connection[tuple[Any, ...]]

# A peer that has vanished without a word is noticed in about ten seconds.
SOCKET = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "connect_timeout": 5,
}

# The engine's statements are few and each has one right plan, by index. A plan made when the tables were empty must not
# outlive that, and one made from stale statistics must not scan a million rows.
_PLANS = " ".join(
    f"-c {setting}"
    for setting in (
        "enable_seqscan=off",
        "enable_bitmapscan=off",
        "enable_hashjoin=off",
        "enable_mergejoin=off",
        "plan_cache_mode=force_generic_plan",
        "jit=off",  # the cost that stands for "off" above would make it compile every statement
    )
)


def _parameters(name: str, pooled: bool) -> dict[str, Any]:
    parameters: dict[str, Any] = {**SOCKET, "application_name": f"rota {name}", "autocommit": True}
    if pooled:
        # A transaction pooler hands every transaction to another session: no session settings, no prepared statements.
        return {**parameters, "prepare_threshold": None}
    # A lock that somebody's transaction holds is not waited for: not for long, and less than the second after which a deadlock
    # is looked for, so that it is never the user who is refused.
    limits = "-c statement_timeout=60s -c lock_timeout=500ms"
    # Whoever waits for a row must then see what was committed meanwhile, whatever the database's own default is.
    isolation = r"-c default_transaction_isolation=read\ committed"
    return {**parameters, "prepare_threshold": 0, "options": f"{_PLANS} {limits} {isolation}"}


async def connect_async(dsn: str, name: str, *, pooled: bool = False) -> AsyncConn:
    """An autocommit connection for the event loop."""
    return await AsyncConnection.connect(dsn, **_parameters(name, pooled), **await alogin(dsn))


def connect(dsn: str, name: str, *, pooled: bool = False) -> Conn:
    """An autocommit connection for a thread."""
    return Connection.connect(dsn, **_parameters(name, pooled), **login(dsn))


def connect_plainly(database: DatabaseSettings) -> Conn:
    """Connect for a command, without the engine's session settings."""
    dsn, timeout_s = database.dsn, round(database.connect_timeout_s)
    return Connection.connect(dsn, autocommit=True, connect_timeout=timeout_s, **login(dsn))


def has_unread(descriptor: int) -> bool:
    """Say whether something came on an idle connection's socket: the server's last words, or the end. Costs no round trip."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def is_disconnect(error: BaseException) -> bool:
    """Whether the connection is of no more use: broken, or to a server that has become a standby."""
    return isinstance(
        error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.errors.ReadOnlySqlTransaction
    ) and not isinstance(error, psycopg.errors.LockNotAvailable | psycopg.errors.QueryCanceled)


class Backoff:
    """Jittered waits that double up to a cap, so that many workers do not come back in step."""

    def __init__(self, first_s: float = 0.1, cap_s: float = 2.0) -> None:
        self._first_s = first_s
        self._cap_s = cap_s
        self._tries = 0

    def next(self) -> float:
        """Seconds to wait before the next try."""
        wait = min(self._first_s * 2.0**self._tries, self._cap_s)
        self._tries = min(self._tries + 1, 30)
        return wait * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """The last try worked."""
        self._tries = 0


async def close_quietly(conn: AsyncConn | None) -> None:
    """Closes a connection that may be broken already, without waiting for a peer that may be gone."""
    if conn is not None:
        try:
            await asyncio.wait_for(conn.close(), 2)
        except Exception:
            conn.pgconn.finish()


def cut(conn: AsyncConn | Conn) -> None:
    """Shuts the socket down under a statement that waits for an answer: it fails at once, as on a lost connection."""
    with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(conn.fileno())) as handle:
        handle.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def answer_within(conn: AsyncConn, seconds: float) -> Iterator[None]:
    """Cuts the connection unless the block ends in time: a half-open connection must not hold a service for ever.

    Cancelling the statement instead would wait for the same peer that does not answer.
    """
    is_late = False

    def give_up() -> None:
        nonlocal is_late
        is_late = True
        cut(conn)

    timer = asyncio.get_running_loop().call_later(seconds, give_up)
    try:
        yield
    except psycopg.OperationalError as error:
        if is_late:
            raise psycopg.errors.ConnectionTimeout(f"no answer within {seconds:g} s") from error
        raise
    finally:
        timer.cancel()
