"""From what the caller has, a session or an alias, to the driver's connection underneath."""

from __future__ import annotations

from typing import Any

import psycopg

from rota.db.carriers.drivers import AsyncpgCarrier, AsyncPsycopgCarrier, Psycopg2Carrier, PsycopgCarrier
from rota.db.steps import AsyncCarrier, Carrier
from rota.errors import UsageError

_KINDS = "a connection of psycopg, asyncpg or Django (or its alias), a Session or Connection of SQLAlchemy"


def carrier_of(conn: Any) -> Carrier:
    """The carrier for a sync connection."""
    if isinstance(conn, psycopg.Connection):
        return PsycopgCarrier(conn)
    if is_async(conn):
        raise UsageError(f"conn={_name(conn)} is async: use aenqueue or aenqueue_many with it")
    if isinstance(conn, str) or _library(conn) == "django":
        driver = _of_django(conn)
    elif _library(conn) == "sqlalchemy":
        driver = _of_sqlalchemy(conn)
    else:
        driver = conn
    if isinstance(driver, psycopg.Connection):
        return PsycopgCarrier(driver)
    if _library(driver) == "psycopg2" and hasattr(driver, "cursor"):
        return Psycopg2Carrier(driver)
    raise _refusal(conn, driver)


async def async_carrier_of(conn: Any) -> AsyncCarrier:
    """The carrier for an async connection."""
    if isinstance(conn, psycopg.AsyncConnection):
        return AsyncPsycopgCarrier(conn)
    if not is_async(conn):
        if isinstance(conn, str) or _library(conn):
            raise UsageError(f"conn={_name(conn)} is sync: use enqueue or enqueue_many with it")
        raise _refusal(conn, conn)
    driver = await _of_async_sqlalchemy(conn) if _library(conn) == "sqlalchemy" else conn
    if isinstance(driver, psycopg.AsyncConnection):
        return AsyncPsycopgCarrier(driver)
    if _library(driver) == "asyncpg":
        return AsyncpgCarrier(driver)
    raise _refusal(conn, driver)


def is_async(conn: Any) -> bool:
    """Whether this is a connection for the event loop."""
    library = _library(conn)
    if library == "sqlalchemy":
        return any(kind.__module__.startswith("sqlalchemy.ext.asyncio") for kind in type(conn).__mro__)
    return isinstance(conn, psycopg.AsyncConnection) or (library == "asyncpg" and hasattr(conn, "is_in_transaction"))


def _of_django(conn: Any) -> Any:
    if isinstance(conn, str):
        from django.db import connections
        from django.utils.connection import ConnectionDoesNotExist

        try:
            conn = connections[conn]
        except ConnectionDoesNotExist:
            raise UsageError(f"conn={conn!r} is no alias of settings.DATABASES: {', '.join(connections)}") from None
    if not hasattr(conn, "ensure_connection"):
        raise _refusal(conn, conn)
    conn.ensure_connection()
    return conn.connection


def _of_sqlalchemy(conn: Any) -> Any:
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session, scoped_session

    if isinstance(conn, scoped_session):
        conn = conn()
    core = conn.connection() if isinstance(conn, Session) else conn
    if not isinstance(core, Connection):
        raise _refusal(conn, conn)
    if not core.in_transaction():
        core.begin()  # what its first statement would have done; without it, its commit() would not commit ours
    return core.connection.driver_connection


async def _of_async_sqlalchemy(conn: Any) -> Any:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

    if isinstance(conn, async_scoped_session):
        conn = conn()
    core = await conn.connection() if isinstance(conn, AsyncSession) else conn
    if not isinstance(core, AsyncConnection):
        raise _refusal(conn, conn)
    driver: Any = (await core.get_raw_connection()).driver_connection
    if not core.in_transaction() or (_library(driver) == "asyncpg" and not driver.is_in_transaction()):
        # It opens its transaction with its first statement; ours, which it does not see, must not come before.
        await core.exec_driver_sql("SELECT 1")
    return driver


def _library(conn: Any) -> str:
    known = ("psycopg", "psycopg2", "asyncpg", "sqlalchemy", "django")
    roots = (kind.__module__.partition(".")[0] for kind in type(conn).__mro__)
    return next((root for root in roots if root in known), "")


def _name(conn: Any) -> str:
    return repr(conn) if isinstance(conn, str) else f"{type(conn).__module__}.{type(conn).__qualname__}"


def _refusal(conn: Any, driver: Any) -> UsageError:
    through = "" if driver is conn else f" over {_name(driver)}"
    return UsageError(f"conn={_name(conn)}{through} is not a connection that Rota can use: give {_KINDS}")
