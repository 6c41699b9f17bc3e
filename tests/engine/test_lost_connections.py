"""Handlers that keep connections of their own, when PostgreSQL has closed those: the next job succeeds."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import psycopg
import pytest
from tests.support import wait
from tests.support.callers import django_connection
from tests.support.processes import WorkerProcess, until

from rota import Context, Rota
from rota.contrib.testing.harness import harness
from rota.engine import django_connections

pytestmark = pytest.mark.req("T03")

Conn = psycopg.Connection[Any]

CUT_HANDLERS = """SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                  WHERE application_name IN ('orm', 'rota handler') AND datname = current_database()"""
CUT_ALL = """SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()"""

TASKS = [
    "by_django",
    "by_django_isolated",
    "by_sqlalchemy",
    "by_pool",
    "by_context",
    "by_async_django",
    "by_async_django_isolated",
    "by_async_sqlalchemy",
    "by_async_pool",
    "by_async_context",
]


def worker(dsn: str, max_age: str) -> WorkerProcess:
    # One slot, so that each job comes to the thread, and the connections, that the last one has left.
    return WorkerProcess("tests.support.orm_app:app", dsn, env={"TEST_CONN_MAX_AGE": max_age}, concurrency=1, heartbeat_s=1.0)


def run(conn: Conn, task: str) -> None:
    """Run a job, which has one attempt."""
    (job,) = conn.execute("SELECT rota.enqueue(%s, '{}'::jsonb)", [task]).fetchone() or (None,)
    query = "SELECT outcome, error->>'message' FROM rota.run WHERE final AND job_id = %s"
    assert until(lambda: conn.execute(query, [job]).fetchone(), why=f"for {task}") == ("completed", None)


@pytest.mark.parametrize(
    ("max_age", "cut"), [("null", CUT_ALL), ("600", CUT_HANDLERS), ("0", CUT_HANDLERS)], ids=["never, all", "old", "each run"]
)
def test_the_next_job_succeeds(dsn: str, conn: Conn, max_age: str, cut: str) -> None:
    with worker(dsn, max_age) as process:
        process.wait_ready()
        for task in TASKS:
            run(conn, task)
        for _ in range(2):
            conn.execute(cut)
            for task in TASKS:
                run(conn, task)


@pytest.mark.req("H09")
async def test_async_handlers_have_connections_that_work_when_all_were_lost(dsn: str, conn: Conn) -> None:
    app = Rota(dsn)
    together = asyncio.Barrier(4)  # so that the pools have several connections

    @app.task
    async def note(n: int) -> None:
        pass

    @app.task(max_attempts=1)
    async def work(ctx: Context) -> None:
        async with ctx.connection() as own:
            await own.execute("SELECT 1")
            await together.wait()
        await asyncio.gather(*(note.aenqueue(n) for n in range(4)))
        async with ctx.transaction() as own:
            await note.using(conn=own).aenqueue(4)

    worker = app.worker(concurrency=4)
    running = asyncio.create_task(worker.run())
    for n in range(4):
        await app.aenqueue_many([work.job()] * 4)
        await wait.until(lambda n=n: completed(conn, "work") == 4 * (n + 1))  # type: ignore[misc]
        conn.execute(CUT_ALL)
    await wait.until(lambda: completed(conn, "note") == 4 * 4 * 5)
    worker.stop()
    await running
    await app.aclose()


def completed(conn: Conn, task: str) -> int:
    query = "SELECT outcome FROM rota.run WHERE final AND task = %s"
    outcomes = [outcome for (outcome,) in conn.execute(query, [task]).fetchall()]
    assert set(outcomes) <= {"completed"}
    return len(outcomes)


def test_connections_end_with_the_run_unless_django_keeps_them(dsn: str, conn: Conn) -> None:
    def sessions() -> int:
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'orm' AND datname = current_database()"
        return int((conn.execute(query).fetchone() or (0,))[0])

    with worker(dsn, "0") as process:
        process.wait_ready()
        run(conn, "by_django")
        until(lambda: sessions() == 0, why="for both to be closed")
    with worker(dsn, "null") as process:
        process.wait_ready()
        run(conn, "by_django")
        assert sessions() == 2
        run(conn, "by_django")
        assert sessions() == 2


class TestInThisThread:
    def test_a_transaction_of_a_test_goes_on(self, dsn: str) -> None:
        from django.db import transaction

        with django_connection(dsn) as connection, transaction.atomic(using=connection.alias):
            before = backend(connection)
            django_connections.renew()
            assert connection.in_atomic_block
            assert backend(connection) == before

    def test_a_connection_that_works_is_kept(self, dsn: str) -> None:
        with django_connection(dsn) as connection:
            connection.settings_dict["CONN_MAX_AGE"] = None
            before = backend(connection)
            django_connections.renew()
            assert backend(connection) == before

    def test_a_transaction_that_a_handler_left_open_is_given_up(self, dsn: str) -> None:
        from django.db import transaction

        with django_connection(dsn) as connection:
            connection.settings_dict["CONN_MAX_AGE"] = None
            transaction.set_autocommit(False, using=connection.alias)
            backend(connection)
            django_connections.renew()
            assert connection.connection is None

    def test_drain_runs_beside_the_transaction_of_a_test(self, dsn: str) -> None:
        from django.db import transaction

        app = Rota()

        @app.task
        def work() -> None:
            pass

        @app.task
        async def wait() -> None:
            pass

        with harness(app, dsn) as rota, django_connection(dsn) as connection:
            work.enqueue()
            wait.enqueue()
            with transaction.atomic(using=connection.alias):
                before = backend(connection)
                assert rota.drain_sync() == {"completed": 2}
                assert backend(connection) == before


def test_nothing_is_imported_without_django() -> None:
    code = """if True:
        import asyncio, contextvars, sys
        from rota.engine.threads import Threads

        async def main():
            await Threads().run(contextvars.copy_context(), lambda: None)

        asyncio.run(main())
        print([name for name in sys.modules if name.partition(".")[0] in ("django", "asgiref")])
    """
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def backend(connection: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])
