"""How commands that operators use get at jobs and everything else: over the API of a server, or over the database itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from rota.config import DatabaseSettings, load_settings
from rota.db.connection import AsyncConn
from rota.errors import UsageError

if TYPE_CHECKING:
    from rota.app import Rota
    from rota.cli.remote import RemoteControl
    from rota.control.plane import ControlPlane

    Control = ControlPlane | RemoteControl

T = TypeVar("T")

URL_VARIABLE = "ROTA_URL"
TOKEN_VARIABLE = "ROTA_TOKEN"

# A person waits for the answer, and other people's locks and big tables are no reason to wait for long. Each statement has
# its index: tables that have grown since their last ANALYZE must not be read from end to end.
LIMITS = "-c lock_timeout=3s -c statement_timeout=30s -c enable_seqscan=off -c enable_bitmapscan=off -c jit=off"


def run(operation: Callable[[Control], Awaitable[T]], application: Rota | None = None) -> T:
    """Does it over the API where a server is named, else over a connection by the settings; gives what comes of it.

    Tasks and payloads are checked by the code of the application where there is one, else by what the database knows of them.
    """
    if url := os.environ.get(URL_VARIABLE):
        from rota.cli.remote import ask

        return ask(url, os.environ.get(TOKEN_VARIABLE), operation)
    from rota.cli.local import control_on  # here, since a command over the API needs none of it

    return connect(lambda conn: operation(control_on(conn, application)))


def connect(operation: Callable[[AsyncConn], Awaitable[T]]) -> T:
    """Connects by the settings, does it, and gives what comes of it."""
    from psycopg import AsyncConnection

    from rota.config.dsn import alogin

    database = load_settings().database
    dsn = database.dsn
    options: dict[str, Any] = {"application_name": "rota cli", "connect_timeout": round(database.connect_timeout_s)}
    # A transaction pooler has no sessions that settings or prepared statements could belong to.
    options |= {"prepare_threshold": None} if database.pooled else {"options": LIMITS}

    async def connected() -> T:
        async with await AsyncConnection.connect(dsn, autocommit=True, **options, **await alogin(dsn)) as conn:
            return await operation(conn)

    return asyncio.run(connected())


def is_remote() -> bool:
    """Whether a server is named, over whose API commands work."""
    return bool(os.environ.get(URL_VARIABLE))


def need_database(command: str) -> None:
    """Refuses a command that works on the database itself where a server is named."""
    if is_remote():
        raise UsageError(
            f"`rota {command}` works on the database itself, not over the API: leave out --url, or unset {URL_VARIABLE}"
        )


def check_schema(database: DatabaseSettings, folders: Mapping[str, str] | None = None) -> None:
    """Refuse a database that lacks migrations of Rota, or of the included applications whose folders are given.

    One that is away is the business of who works on it, and waits for it.
    """
    import psycopg

    from rota.db import migrations
    from rota.db.connection import connect_plainly

    try:
        with connect_plainly(database) as conn:
            states = migrations.status(conn, folders or {})
    except psycopg.OperationalError:
        return
    migrations.require_current(states)
