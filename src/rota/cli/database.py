"""The connection of commands that look at the database and change it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from psycopg import AsyncConnection

from rota.config import DatabaseSettings, load_settings
from rota.db.carriers import AsyncPsycopgCarrier
from rota.db.connection import AsyncConn
from rota.db.steps import Steps, atomically, carry_out_async

T = TypeVar("T")

# A person waits for the answer, and other people's locks and big tables are no reason to wait for long. Each statement has
# its index: tables that have grown since their last ANALYZE must not be read from end to end.
LIMITS = "-c lock_timeout=3s -c statement_timeout=30s -c enable_seqscan=off -c enable_bitmapscan=off -c jit=off"


def run(operation: Callable[[AsyncConn], Awaitable[T]]) -> T:
    """Connects by the settings, does it, and gives what comes of it."""
    database = load_settings().database
    dsn = database.dsn
    options: dict[str, Any] = {"application_name": "rota cli", "connect_timeout": round(database.connect_timeout_s)}
    # A transaction pooler has no sessions that settings or prepared statements could belong to.
    options |= {"prepare_threshold": None} if database.pooled else {"options": LIMITS}

    async def connected() -> T:
        async with await AsyncConnection.connect(dsn, autocommit=True, **options) as conn:
            return await operation(conn)

    return asyncio.run(connected())


def transact(steps: Steps[T]) -> T:
    """Connects by the settings and does all of the steps or none."""
    return run(lambda conn: carry_out_async(AsyncPsycopgCarrier(conn), atomically(steps, autocommits=True)))


def check_schema(database: DatabaseSettings) -> None:
    """Refuses a database that lacks migrations; one that is away is the business of who works on it, and waits for it."""
    import psycopg

    from rota.db import migrations

    try:
        with psycopg.connect(database.dsn, connect_timeout=round(database.connect_timeout_s), autocommit=True) as conn:
            states = migrations.status(conn)
    except psycopg.OperationalError:
        return
    migrations.require_current(states)
