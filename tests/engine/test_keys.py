"""Idempotency keys that protect nothing any more are removed; all others stay."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.support.engine import Engine
from tests.support.jobs import declare
from tests.support.wait import until

from rota.contrib.testing.clock import Clock
from rota.db.connection import connect_async
from rota.engine import upkeep
from rota.store import runs as store

EXPIRED = "INSERT INTO rota.job_key (task, key, job_id, payload_hash, expires_at) SELECT 'work', n::text, rota.uuid7(), '', now()"


def keys(conn: psycopg.Connection[Any]) -> list[str]:
    return [row[0] for row in conn.execute("SELECT key FROM rota.job_key ORDER BY key")]


@pytest.mark.req("Q03")
async def test_only_expired_keys_of_ended_jobs_are_removed(engine: Engine, clock: Clock) -> None:
    declare(engine.conn, "work")
    for key, ttl, delay in (("ended", "1 h", None), ("live", "1 h", "9 h"), ("lasting", "9 h", None)):
        engine.conn.execute("SELECT rota.enqueue('work', key => %s, key_ttl => %s, delay => %s)", [key, ttl, delay])

    @engine.task
    async def work() -> None: ...

    async with engine.worker():
        await until(lambda: engine.count("rota.run") == 2)
    assert keys(engine.conn) == ["ended", "lasting", "live"]
    clock.move(timedelta(hours=2))
    async with engine.worker():
        await until(lambda: keys(engine.conn) == ["lasting", "live"])


async def test_a_key_that_is_being_taken_over_is_passed_by(engine: Engine) -> None:
    engine.conn.execute(f"{EXPIRED} FROM generate_series(1, 3) n")
    with psycopg.connect(engine.dsn) as other:
        other.execute("SELECT FROM rota.job_key WHERE key = '2' FOR UPDATE")
        async with await connect_async(engine.dsn, "test") as conn:
            assert await store.forget_keys(conn, limit=10) == 2
    assert keys(engine.conn) == ["2"]


async def test_many_are_removed_in_batches(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "KEY_BATCH", 10)
    monkeypatch.setattr(upkeep, "KEY_BATCHES", 3)
    engine.conn.execute(f"{EXPIRED} FROM generate_series(1, 45) n")
    async with engine.worker():
        await until(lambda: engine.count("rota.job_key") < 45)
        await until(lambda: engine.count("rota.job_key") == 15)
