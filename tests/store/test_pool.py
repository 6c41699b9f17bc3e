"""The application's own connections, when the network is slow and the program short."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import psycopg
import pytest
from psycopg_pool.base import AttemptWithBackoff
from tests.support.postgres import Databases
from tests.support.proxy import Proxy
from tests.support.wait import NEVER_S, PATIENCE_S, until, wait_until

from rota.config import load_settings
from rota.db import pool as module
from rota.db.pool import Pools
from rota.errors import DatabaseError


@pytest.mark.req("Q03")
@pytest.mark.fault(8)
def test_an_event_loop_ends_while_its_pool_opens_a_connection(postgres: Databases, conn) -> None:
    with Proxy(postgres.tcp_dsn(conn.info.dbname)) as proxy:
        pools = Pools(load_settings(database_url=proxy.dsn).database)

        async def take() -> None:
            async with pools.async_connection():
                raise AssertionError("nobody answers")

        async def main() -> None:
            async with pools.async_connection():
                proxy.hold_new()
                waiting = asyncio.create_task(take())
                await asyncio.to_thread(wait_until, lambda: proxy.accepted == 2, what="a second connection")
                waiting.cancel()

        program = threading.Thread(target=asyncio.run, args=[main()], daemon=True)
        program.start()
        program.join(PATIENCE_S)
        assert not program.is_alive()


@pytest.mark.req("Q03")
def test_who_waits_for_the_only_connection_gets_it_from_the_one_before(dsn) -> None:
    pools = Pools(load_settings(database_url=dsn, database_pool_max=1, database_connect_timeout_s=PATIENCE_S).database)

    def use(_: int) -> int:
        with pools.connection() as conn:
            return conn.execute("SELECT pg_backend_pid() FROM pg_sleep(0.01)").fetchone()[0]

    async def ause() -> int:
        async with pools.async_connection() as conn:
            return (await (await conn.execute("SELECT pg_backend_pid() FROM pg_sleep(0.01)")).fetchone())[0]

    async def main() -> list[int]:
        found = await asyncio.gather(*(ause() for _ in range(8)))
        await pools.aclose()
        return found

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(use, range(8)))) == 1
    pools.close()
    assert len(set(asyncio.run(main()))) == 1


@pytest.mark.req("Q03")
def test_who_is_alone_has_one_connection(dsn, conn) -> None:
    pools = Pools(load_settings(database_url=dsn).database)

    def connections() -> int:
        mine = "application_name = 'rota enqueue' AND datname = current_database()"
        [(number,)] = conn.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {mine}").fetchall()
        return number

    async def main() -> None:
        for _ in range(3):
            async with pools.async_connection() as mine:
                await mine.execute("SELECT")
        assert connections() == 1
        await pools.aclose()

    for _ in range(3):
        with pools.connection() as mine:
            mine.execute("SELECT")
    assert connections() == 1
    pools.close()
    wait_until(lambda: connections() == 0)
    asyncio.run(main())


MANY = 6
CUT = """SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
         WHERE application_name = 'rota enqueue' AND datname = current_database()"""


def pools_at(dsn: str, **settings: Any) -> Pools:
    return Pools(load_settings(database_url=dsn, database_connect_timeout_s=PATIENCE_S, **settings).database)


def pid_of(conn: psycopg.Connection[Any]) -> int:
    [(pid,)] = conn.execute("SELECT pg_backend_pid()").fetchall()
    return int(pid)


async def apid_of(conn: psycopg.AsyncConnection[Any]) -> int:
    [(pid,)] = await (await conn.execute("SELECT pg_backend_pid()")).fetchall()
    return int(pid)


@pytest.fixture
def no_retries_by_psycopg(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let psycopg's pools wait for ever where they would wait before another try."""
    monkeypatch.setattr(AttemptWithBackoff, "INITIAL_DELAY", NEVER_S)


@pytest.mark.req("H09")
@pytest.mark.usefixtures("no_retries_by_psycopg")
class TestLostConnections:
    def test_threads_get_connections_that_work(self, dsn, conn) -> None:
        pools = pools_at(dsn)
        for _ in range(3):
            with ExitStack() as stack:
                lost = {pid_of(stack.enter_context(pools.connection())) for _ in range(MANY)}
            assert len(lost) == MANY
            conn.execute(CUT)
            with ExitStack() as stack:
                assert lost.isdisjoint(pid_of(stack.enter_context(pools.connection())) for _ in range(MANY))
        pools.close()

    async def test_event_loops_get_connections_that_work(self, dsn, conn) -> None:
        pools = pools_at(dsn)
        for _ in range(3):
            async with AsyncExitStack() as stack:
                lost = {await apid_of(await stack.enter_async_context(pools.async_connection())) for _ in range(MANY)}
            assert len(lost) == MANY
            conn.execute(CUT)
            async with AsyncExitStack() as stack:
                for _ in range(MANY):
                    assert await apid_of(await stack.enter_async_context(pools.async_connection())) not in lost
        await pools.aclose()

    async def test_the_first_caller_after_an_outage_waits_and_succeeds(self, postgres: Databases, conn) -> None:
        with Proxy(postgres.tcp_dsn(conn.info.dbname)) as proxy:
            pools = pools_at(proxy.dsn)

            async def use() -> int:
                async with pools.async_connection() as mine:
                    return await apid_of(mine)

            def use_in_thread() -> int:
                with pools.connection() as mine:
                    return pid_of(mine)

            uses: list[Callable[[], Awaitable[int]]] = [use, lambda: asyncio.to_thread(use_in_thread)]
            for each in uses:
                before = await each()
                proxy.refuse()
                first = asyncio.create_task(each())
                await until(lambda: _failed(pools), what="for an attempt to connect that fails")
                proxy.accept()
                assert await first != before
            await pools.aclose()

    async def test_callers_who_gave_up_keep_nobody_from_connecting(self, postgres: Databases, conn) -> None:
        with Proxy(postgres.tcp_dsn(conn.info.dbname)) as proxy:
            pools = Pools(load_settings(database_url=proxy.dsn, database_connect_timeout_s=1).database)
            proxy.refuse()
            for _ in range(2):
                with pytest.raises(DatabaseError, match="PostgreSQL cannot be reached: connection failed"):
                    async with pools.async_connection():
                        pass
            proxy.accept()
            async with pools.async_connection() as mine:
                assert await apid_of(mine)
            await pools.aclose()


@pytest.mark.req("H09")
class TestKeptConnections:
    def test_a_message_is_no_goodbye(self, dsn, conn) -> None:
        pools = pools_at(dsn)
        with pools.connection() as mine:
            before = pid_of(mine)
            mine.execute("LISTEN hello")
        conn.execute("NOTIFY hello")
        with pools.connection() as mine:
            assert pid_of(mine) == before
        pools.close()

    def test_one_that_was_idle_for_long_is_asked(self, postgres: Databases, conn, monkeypatch: pytest.MonkeyPatch) -> None:
        """A network may drop a connection without a word, and then the socket says nothing."""
        with Proxy(postgres.tcp_dsn(conn.info.dbname)) as proxy:
            pools = pools_at(proxy.dsn)
            with pools.connection() as mine:
                before = pid_of(mine)
            monkeypatch.setattr(pools._pool, "_ask_after_s", 0)
            proxy.cut_after(b"\x00\x00", "enqueue")  # what every message has
            with pools.connection() as mine:
                assert pid_of(mine) != before
            pools.close()

    def test_one_that_goes_from_hand_to_hand_is_replaced_when_it_is_old(self, dsn, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "POOLED_EVERY_S", 0)
        pools = pools_at(dsn)
        with pools.connection() as mine:
            before = pid_of(mine)
        with pools.connection() as mine:
            assert pid_of(mine) == before
            mine._expire_at = 0  # type: ignore[attr-defined]
        with pools.connection() as mine:
            assert pid_of(mine) != before
        pools.close()


def _failed(pools: Pools) -> bool:
    return any(pool is not None and pool.connect_error is not None for pool in [pools._pool, *pools._async_pools.values()])
