"""After a restore of the database: what runs again, what waits, and that workers of before change nothing."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.support.engine import Engine
from tests.support.scheduling import Scheduling
from tests.support.wait import PATIENCE_S, until

from rota import Context, cron
from rota.errors import LeaseLost

pytestmark = pytest.mark.req("X03")

Conn = psycopg.Connection[Any]

TABLES = """
SELECT c.relname, (SELECT array_agg(a.attname ORDER BY a.attnum) FROM pg_attribute a
                   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '')
FROM pg_class c WHERE c.relnamespace = 'rota'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
"""


class Backup:
    """The rows of all of Rota's tables, as a dump has them."""

    def __init__(self, conn: Conn) -> None:
        self._rows: dict[str, tuple[sql.Composed, bytes]] = {}
        with conn.transaction():
            conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            for table, columns in conn.execute(TABLES).fetchall():
                names = sql.SQL(", ").join(map(sql.Identifier, columns))
                with conn.cursor().copy(sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT").format(names, _in_rota(table))) as copy:
                    self._rows[table] = names, b"".join(map(bytes, copy))

    def restore(self, conn: Conn) -> None:
        """Bring the database back to the time of the backup."""
        with conn.transaction():
            conn.execute("SET LOCAL session_replication_role = replica")
            conn.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(map(_in_rota, self._rows))))
            for table, (names, rows) in self._rows.items():
                with conn.cursor().copy(sql.SQL("COPY {} ({}) FROM STDIN").format(_in_rota(table), names)) as copy:
                    copy.write(rows)


def _in_rota(table: str) -> sql.Identifier:
    return sql.Identifier("rota", table)


async def test_what_ran_since_the_backup_runs_again_and_what_was_enqueued_since_is_gone(engine: Engine, conn: Conn) -> None:
    ran: list[str] = []

    @engine.task
    async def send(to: str) -> None:
        ran.append(to)

    old = engine.enqueue("send", {"to": "ann"})
    backup = Backup(conn)
    new = engine.enqueue("send", {"to": "bob"})
    async with engine.worker():
        await engine.ended(old, new)
    backup.restore(conn)
    assert (engine.state(old), engine.job(new)) == ("queued", None)
    async with engine.worker():
        await engine.ended(old)
    assert sorted(ran) == ["ann", "ann", "bob"]


async def test_a_queue_that_is_paused_before_workers_start_does_not_run(engine: Engine, conn: Conn) -> None:
    @engine.task
    async def pay() -> None: ...

    paid, other = engine.enqueue("pay", queue="payments"), engine.enqueue("pay")
    backup = Backup(conn)
    async with engine.worker(queues={"payments": 1, "default": 1}):
        await engine.ended(paid, other)
    backup.restore(conn)
    conn.execute("INSERT INTO rota.queue (name) VALUES ('payments') ON CONFLICT DO NOTHING")
    conn.execute("UPDATE rota.queue SET paused_at = rota.now() WHERE name = 'payments'")
    async with engine.worker(queues={"payments": 1, "default": 1}):
        await engine.ended(other)
        assert engine.state(paid) == "queued"
        conn.execute("UPDATE rota.queue SET paused_at = NULL WHERE name = 'payments'")
        conn.execute("SELECT rota.wake()")
        await engine.ended(paid)


async def test_a_worker_of_before_the_restore_changes_nothing(engine: Engine, conn: Conn) -> None:
    """Its claim has the token that the next claim of the restored job has too: the worker's id tells them apart."""
    conn.execute("CREATE TABLE note (who text)")
    begun, proceed, refused = threading.Event(), threading.Event(), threading.Event()
    restored = False

    @engine.task
    def work(ctx: Context) -> None:
        again = restored
        begun.set()
        try:
            with ctx.transaction() as inner:
                inner.execute("INSERT INTO note VALUES (%s)", ["again" if again else "before"])
                assert (refused if again else proceed).wait(PATIENCE_S)
        except LeaseLost:
            refused.set()
            raise

    id = engine.enqueue("work")
    backup = Backup(conn)
    async with engine.worker(concurrency=1):
        await until(begun.is_set)  # claimed is not begun
        before = engine.row(id)
        restored = True
        await asyncio.to_thread(backup.restore, conn)  # it waits for transactions of the worker in this event loop
        async with engine.worker(concurrency=1):
            await until(lambda: engine.state(id) == "running")
            now = engine.row(id)
            assert (now.token, now.attempt, now.worker_id == before.worker_id) == (before.token, before.attempt, False)
            proceed.set()
            await engine.ended(id)
    assert conn.execute("SELECT who FROM note").fetchall() == [("again",)]
    assert engine.outcomes(id) == ["completed"]


async def test_a_schedule_whose_time_has_passed_fires_once(scheduling: Scheduling, clock: Any, conn: Conn) -> None:
    scheduling.create("hourly", cron("0 * * * *"))
    backup = Backup(conn)
    clock.move(timedelta(hours=1))
    assert await scheduling.tick() == 1
    backup.restore(conn)  # the test's clock too
    clock.move(timedelta(days=1))
    assert await scheduling.tick() == 1
    assert await scheduling.tick() == 0
