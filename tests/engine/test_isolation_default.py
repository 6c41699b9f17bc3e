"""A database whose own default is another isolation than the engine counts on."""

from __future__ import annotations

import psycopg
import pytest
from tests.support.engine import Engine


@pytest.mark.req("S09", "Q04")
async def test_the_engine_reads_what_is_committed(engine: Engine) -> None:
    database = engine.conn.info.dbname
    engine.conn.execute(f'ALTER DATABASE "{database}" SET default_transaction_isolation = serializable'.encode())
    with psycopg.connect(engine.dsn, autocommit=True) as check:
        assert check.execute("SHOW transaction_isolation").fetchone() == ("serializable",)

    @engine.task(max_concurrency=1)
    async def work() -> None: ...

    async with engine.worker():
        await engine.ended(*[engine.enqueue(work) for _ in range(5)])
