"""The application's own connections, when the network is slow and the program short."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.postgres import Databases
from tests.support.proxy import Proxy
from tests.support.wait import PATIENCE_S, wait_until

from rota.config import load_settings
from rota.db.pool import Pools


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
