"""Applications with a connection of their own, one for each library: what `conn=` must be able to take part in.

All of them look the same to a test, sync or async: they write a row of their own, enqueue, and commit or roll back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from rota import Enqueued, NewJob, Rota
from rota.recurring import BoundRecurring
from rota.task import BoundTask

NOTE = "INSERT INTO note (text) VALUES ('mine')"


class Caller:
    """A sync connection; `conn` is what is given to Rota."""

    def __init__(self, conn: Any, run: Callable[[str], Any], commit: Callable[[], Any], rollback: Callable[[], Any]) -> None:
        self.conn = conn
        self._run = run
        self._commit = commit
        self._rollback = rollback

    def write(self, statement: str = NOTE) -> None:
        """A statement of the application's own."""
        self._run(statement)

    def commit(self) -> None:
        self._commit()

    def rollback(self) -> None:
        self._rollback()

    def enqueue(self, task: BoundTask[..., Any], *args: Any) -> Enqueued:
        return task.using(conn=self.conn).enqueue(*args)

    def enqueue_many(self, app: Rota, jobs: list[NewJob]) -> list[Enqueued]:
        return app.enqueue_many(jobs, conn=self.conn)

    def call(self, task: BoundRecurring[..., Any], verb: str, *args: Any) -> Any:
        return getattr(task.using(conn=self.conn), verb)(*args)


class AsyncCaller(Caller):
    """An async connection, in an event loop that runs while we wait for it."""

    def __init__(self, runner: asyncio.Runner, *args: Any) -> None:
        super().__init__(*args)
        self._runner = runner

    def _await(self, answer: Any) -> Any:
        async def wait() -> Any:
            return await answer

        return self._runner.run(wait())

    def write(self, statement: str = NOTE) -> None:
        self._await(self._run(statement))

    def commit(self) -> None:
        self._await(self._commit())

    def rollback(self) -> None:
        self._await(self._rollback())

    def enqueue(self, task: BoundTask[..., Any], *args: Any) -> Enqueued:
        return self._await(task.using(conn=self.conn).aenqueue(*args))

    def enqueue_many(self, app: Rota, jobs: list[NewJob]) -> list[Enqueued]:
        return self._await(app.aenqueue_many(jobs, conn=self.conn))

    def call(self, task: BoundRecurring[..., Any], verb: str, *args: Any) -> Any:
        return self._await(super().call(task, f"a{verb}", *args))


@contextmanager
def psycopg_sync(dsn: str) -> Iterator[Caller]:
    # Another row factory and cursor than ours, which must stay as they are.
    conn = psycopg.connect(dsn, row_factory=dict_row, cursor_factory=psycopg.RawCursor)
    with conn:
        yield Caller(conn, conn.execute, conn.commit, conn.rollback)
        assert conn.row_factory is dict_row
        assert conn.cursor_factory is psycopg.RawCursor
        assert not conn.autocommit
        conn.rollback()


@contextmanager
def psycopg_async(dsn: str) -> Iterator[Caller]:
    with asyncio.Runner() as runner:
        conn = runner.run(psycopg.AsyncConnection.connect(dsn, row_factory=dict_row))
        yield AsyncCaller(runner, conn, conn.execute, conn.commit, conn.rollback)
        runner.run(conn.close())


@contextmanager
def psycopg2(dsn: str) -> Iterator[Caller]:
    driver = pytest.importorskip("psycopg2")
    conn = driver.connect(dsn)
    yield Caller(conn, lambda sql: conn.cursor().execute(sql), conn.commit, conn.rollback)
    conn.close()


@contextmanager
def asyncpg(dsn: str) -> Iterator[Caller]:
    driver = pytest.importorskip("asyncpg")
    with asyncio.Runner() as runner:
        conn = runner.run(driver.connect(dsn))
        transaction = conn.transaction()
        runner.run(transaction.start())
        yield AsyncCaller(runner, conn, conn.execute, transaction.commit, transaction.rollback)
        runner.run(conn.close())


@contextmanager
def asyncpg_pool(dsn: str) -> Iterator[Caller]:
    driver = pytest.importorskip("asyncpg")

    async def connect() -> tuple[Any, Any, Any]:
        pool = await driver.create_pool(dsn, min_size=1, max_size=1)
        conn = await pool.acquire()
        transaction = conn.transaction()
        await transaction.start()
        return pool, conn, transaction

    async def close() -> None:
        await pool.release(conn)
        await pool.close()

    with asyncio.Runner() as runner:
        pool, conn, transaction = runner.run(connect())
        yield AsyncCaller(runner, conn, conn.execute, transaction.commit, transaction.rollback)
        runner.run(close())


def sqlalchemy(kind: str, driver: str) -> Callable[[str], Any]:
    @contextmanager
    def caller(dsn: str) -> Iterator[Caller]:
        library = pytest.importorskip("sqlalchemy")
        orm = pytest.importorskip("sqlalchemy.orm")
        module = pytest.importorskip(driver)
        engine = library.create_engine(f"postgresql+{driver}://", creator=lambda: module.connect(dsn), poolclass=library.NullPool)
        if kind == "connection":
            conn = engine.connect()
        else:
            conn = orm.scoped_session(orm.sessionmaker(engine)) if kind == "scoped session" else orm.Session(engine)
        yield Caller(conn, lambda sql: conn.execute(library.text(sql)), conn.commit, conn.rollback)
        conn.close()

    return caller


def async_sqlalchemy(kind: str, driver: str) -> Callable[[str], Any]:
    @contextmanager
    def caller(dsn: str) -> Iterator[Caller]:
        pytest.importorskip("greenlet")
        library = pytest.importorskip("sqlalchemy")
        ext = pytest.importorskip("sqlalchemy.ext.asyncio")
        module = pytest.importorskip(driver)
        connect = module.AsyncConnection.connect if driver == "psycopg" else module.connect
        with asyncio.Runner() as runner:
            engine = ext.create_async_engine(
                f"postgresql+{driver}://", async_creator=lambda: connect(dsn), poolclass=library.NullPool
            )
            if kind == "session":
                conn = ext.AsyncSession(engine)
            else:

                async def open() -> Any:
                    return await engine.connect()

                conn = runner.run(open())
            yield AsyncCaller(runner, conn, lambda sql: conn.execute(library.text(sql)), conn.commit, conn.rollback)
            runner.run(conn.close())

    return caller


def django(by_alias: bool) -> Callable[[str], Any]:
    @contextmanager
    def caller(dsn: str) -> Iterator[Caller]:
        pytest.importorskip("django")
        from django.db import transaction

        with django_connection(dsn) as connection:
            transaction.set_autocommit(False, using=connection.alias)
            yield Caller(
                connection.alias if by_alias else connection,
                lambda sql: connection.cursor().execute(sql),
                connection.commit,
                connection.rollback,
            )
            connection.rollback()

    return caller


@contextmanager
def django_connection(dsn: str) -> Iterator[Any]:
    """A connection of Django under an alias of its own."""
    import django
    from django.conf import settings
    from django.db import connections

    if not settings.configured:
        settings.configure(DATABASES={}, USE_TZ=False)
        django.setup()
    where = conninfo_to_dict(dsn)
    alias = "rota_tests"
    options = {"ENGINE": "django.db.backends.postgresql", "NAME": where["dbname"], "USER": where.get("user", "")}
    options |= {"HOST": where.get("host", ""), "PORT": where.get("port", ""), "PASSWORD": where.get("password", "")}
    connections.settings |= connections.configure_settings({"default": {}, alias: options})
    try:
        yield connections[alias]
    finally:
        connections[alias].close()
        del connections[alias]


CALLERS: dict[str, Callable[[str], Any]] = {
    "psycopg": psycopg_sync,
    "psycopg async": psycopg_async,
    "psycopg2": psycopg2,
    "asyncpg": asyncpg,
    "asyncpg pool": asyncpg_pool,
    "sqlalchemy session, psycopg": sqlalchemy("session", "psycopg"),
    "sqlalchemy scoped session, psycopg": sqlalchemy("scoped session", "psycopg"),
    "sqlalchemy connection, psycopg": sqlalchemy("connection", "psycopg"),
    "sqlalchemy session, psycopg2": sqlalchemy("session", "psycopg2"),
    "sqlalchemy async session, psycopg": async_sqlalchemy("session", "psycopg"),
    "sqlalchemy async connection, psycopg": async_sqlalchemy("connection", "psycopg"),
    "sqlalchemy async session, asyncpg": async_sqlalchemy("session", "asyncpg"),
    "sqlalchemy async connection, asyncpg": async_sqlalchemy("connection", "asyncpg"),
    "django alias": django(by_alias=True),
    "django connection": django(by_alias=False),
}
