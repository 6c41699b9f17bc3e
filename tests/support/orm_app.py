"""Handlers that use Django, SQLAlchemy and pools of their own, as applications do; the database is ROTA_DATABASE_URL."""

from __future__ import annotations

import json
import os
from typing import Any

import django
import psycopg
from asgiref.sync import sync_to_async
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from rota import Context, Rota

DSN = os.environ["ROTA_DATABASE_URL"]
NAME = "orm"  # the application_name of all sessions that the handlers open
MINE = "SELECT pg_backend_pid()"

_place = conninfo_to_dict(DSN)
_own = {"application_name": NAME}
_database = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": _place["dbname"],
    "HOST": _place.get("host", ""),
    "PORT": str(_place.get("port", "")),
    "USER": _place.get("user", ""),
    "PASSWORD": _place.get("password", ""),
    "CONN_MAX_AGE": json.loads(os.environ.get("TEST_CONN_MAX_AGE", "null")),
    "OPTIONS": _own,
}
settings.configure(DATABASES={"default": _database, "other": dict(_database)}, INSTALLED_APPS=[])
django.setup()

from django.db import connections, models, transaction  # noqa: E402 (Django has its settings only now)


class Namespace(models.Model):
    """A table that every database has."""

    oid = models.BigIntegerField(primary_key=True)

    class Meta:
        app_label = "orm_app"
        db_table = "pg_namespace"
        managed = False


app = Rota()
pool = ConnectionPool(DSN, kwargs=_own, min_size=1, max_size=3, check=ConnectionPool.check_connection, open=False)
_async_pool: AsyncConnectionPool[Any] | None = None


def _ask(alias: str) -> int:
    with connections[alias].cursor() as cursor:
        cursor.execute(MINE)
        return int(cursor.fetchone()[0])


@app.task(max_attempts=1)
def by_django() -> list[int]:
    """Ask both databases, by the ORM and by hand; the sessions that answered."""
    assert Namespace.objects.count()
    with transaction.atomic(using="other"):
        assert Namespace.objects.using("other").count()
    return [_ask("default"), _ask("other")]


@app.task(max_attempts=1, isolate=True)
def by_django_isolated() -> list[int]:
    """The same in a process of its own."""
    return [_ask("default"), _ask("other")]


@app.task(max_attempts=1)
async def by_async_django() -> list[int]:
    """Ask by the asynchronous ORM."""
    assert await Namespace.objects.acount()
    return [await sync_to_async(_ask)("default"), await sync_to_async(_ask)("other")]


@app.task(max_attempts=1, isolate=True)
async def by_async_django_isolated() -> list[int]:
    """The same in a process of its own."""
    assert await Namespace.objects.acount()
    return [await sync_to_async(_ask)("default")]


@app.task(max_attempts=1)
def by_sqlalchemy() -> list[int]:
    """Ask by an engine that tests its connections, as the documentation says."""
    with _engine().connect() as conn:
        return [conn.exec_driver_sql(MINE).scalar_one()]


@app.task(max_attempts=1)
async def by_async_sqlalchemy() -> list[int]:
    """The same in the event loop."""
    async with _async_engine().connect() as conn:
        return [(await conn.exec_driver_sql(MINE)).scalar_one()]


@app.task(max_attempts=1)
def by_pool() -> list[int]:
    """Ask by a pool of psycopg that tests its connections, as the documentation says."""
    if pool.closed:
        pool.open()
    with pool.connection() as conn:
        return [_first(conn.execute(MINE).fetchone())]


@app.task(max_attempts=1)
async def by_async_pool() -> list[int]:
    """The same in the event loop."""
    global _async_pool
    if _async_pool is None:
        check = AsyncConnectionPool.check_connection
        _async_pool = AsyncConnectionPool(DSN, kwargs=_own, min_size=1, max_size=3, check=check, open=False)
        await _async_pool.open()
    async with _async_pool.connection() as conn:
        return [_first(await (await conn.execute(MINE)).fetchone())]


@app.task(max_attempts=1)
def by_context(ctx: Context) -> list[int]:
    """Ask by a connection of the worker's."""
    with ctx.connection() as conn:
        return [_first(conn.execute(MINE).fetchone())]


@app.task(max_attempts=1)
async def by_async_context(ctx: Context) -> None:
    """Ask in the transaction that completes the job."""
    async with ctx.transaction() as conn:
        ctx.result = [_first(await (await conn.execute(MINE)).fetchone())]


def _first(row: psycopg.rows.TupleRow | None) -> int:
    assert row is not None
    return int(row[0])


_engines: dict[str, Any] = {}


def _engine() -> Any:
    from sqlalchemy import create_engine

    if "sync" not in _engines:
        _engines["sync"] = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(DSN, **_own), pool_pre_ping=True)
    return _engines["sync"]


def _async_engine() -> Any:
    from sqlalchemy.ext.asyncio import create_async_engine

    async def connect() -> Any:
        return await psycopg.AsyncConnection.connect(DSN, **_own)

    if "async" not in _engines:
        _engines["async"] = create_async_engine("postgresql+psycopg://", async_creator=connect, pool_pre_ping=True)
    return _engines["async"]
