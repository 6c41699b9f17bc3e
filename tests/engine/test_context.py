"""What a handler finds around it: its own run, nothing of its neighbours', and no connection held in its name."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from datetime import UTC
from typing import Any

import psycopg
import pytest
from tests.support.engine import Engine
from tests.support.wait import NEVER_S, PATIENCE_S, until

from rota.engine import completer
from rota.engine.context import Context
from rota.model.outcome import Snooze
from rota.model.run import current_run

SESSIONS = "pg_stat_activity WHERE application_name LIKE 'rota %' AND datname = current_database()"
mark: ContextVar[str] = ContextVar("mark", default="clean")


async def test_it_tells_who_and_when(engine: Engine) -> None:
    told: dict[str, Any] = {}

    @engine.task(name="mail.send")
    async def work(ctx: Context, to: str) -> Snooze | None:
        told[f"run {ctx.attempt}"] = (
            ctx.job_id, ctx.task, ctx.queue, ctx.attempt, ctx.max_attempts, ctx.key, ctx.triggered_by, ctx.scheduled_for,
        )  # fmt: skip
        told["due"] = ctx.run_at
        return Snooze("0s") if ctx.attempt == 1 else None

    async with engine.worker(queues={"letters": 1}, poll_interval_s=0.05):
        id = engine.enqueue("mail.send", {"to": "a"}, queue="letters", max_attempts=7)
        engine.conn.execute("UPDATE rota.job SET key = 'k', triggered_by = '{\"kind\": \"test\"}' WHERE attempt = 0")
        await engine.ended(id)
    assert told["run 2"] == (id, "mail.send", "letters", 2, 7, "k", {"kind": "test"}, None)
    assert told["due"].tzinfo is not None
    assert told["due"].astimezone(UTC) == engine.runs(id)[1].run_at


@pytest.mark.parametrize("sync", [False, True])
async def test_context_variables_do_not_leak_between_jobs(engine: Engine, sync: bool) -> None:
    found: list[str] = []
    runs: list[str] = []

    @engine.task(name="async")
    async def work(n: int) -> None:
        found.append(mark.get())
        mark.set(f"dirty {n}")
        await asyncio.sleep(0)
        assert mark.get() == f"dirty {n}", "kept over a wait"
        await asyncio.gather(_inner(n))
        run = current_run.get()
        assert run is not None
        runs.append(run.id)

    async def _inner(n: int) -> None:
        assert mark.get() == f"dirty {n}", "inherited by tasks of its own"

    @engine.task(name="sync")
    def work_in_thread(n: int) -> None:
        found.append(mark.get())
        mark.set(f"dirty {n}")
        run = current_run.get()
        assert run is not None
        runs.append(run.id)

    async with engine.worker(concurrency=2):
        ids = [engine.enqueue("sync" if sync else "async", {"n": n}, max_attempts=1) for n in range(20)]
        await engine.ended(*ids)
    assert found == ["clean"] * 20
    assert sorted(runs) == sorted(map(str, ids))
    assert current_run.get() is None


@pytest.mark.req("Q16")
@pytest.mark.parametrize("sync", [False, True])
async def test_no_connection_or_transaction_is_held_while_handlers_run(engine: Engine, sync: bool) -> None:
    gate, begun = threading.Event(), []

    @engine.task(name="async")
    async def work() -> None:
        begun.append(1)
        await until(gate.is_set)

    @engine.task(name="sync")
    def work_in_thread() -> None:
        begun.append(1)
        gate.wait(PATIENCE_S)

    async with engine.worker(concurrency=30):
        await until(lambda: engine.count("rota.worker WHERE wants_wake") == 1)
        await until(lambda: engine.count(SESSIONS) == 5)
        engine.fill("sync" if sync else "async", 30)
        await until(lambda: len(begun) == 30)
        # What the worker does now and then ends at once: a transaction that lasts would be seen each time.
        seen = [engine.count(f"{SESSIONS} AND xact_start < clock_timestamp() - interval '100 ms'") for _ in range(20)]
        assert engine.count(SESSIONS) <= 5, "claimer, completer, upkeep, scheduler and heartbeat, and none for the thirty"
        assert min(seen) == 0, "a transaction is open"
        gate.set()
        await engine.drained()


@pytest.mark.req("Q16")
async def test_a_connection_is_given_back_when_its_block_ends(engine: Engine) -> None:
    """Handlers that do use the pool hold a connection for as long as their transaction."""
    gate, done = asyncio.Event(), []

    @engine.task
    async def work(ctx: Context) -> None:
        async with ctx.transaction() as conn:
            await conn.execute("SELECT 1")
        done.append(1)
        await gate.wait()

    async with engine.worker(concurrency=8):
        engine.fill(work, 8)
        await until(lambda: len(done) == 8)
        assert engine.count(f"{SESSIONS} AND application_name = 'rota handler' AND state <> 'idle'") == 0
        gate.set()
        await engine.drained()


@pytest.mark.req("Q16")
@pytest.mark.parametrize("pooled", [False, True])
async def test_handlers_run_while_the_database_is_busy_elsewhere(
    engine: Engine, pooled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of theirs that somebody has locked delays the record of that run, and of no other."""
    monkeypatch.setattr(completer, "ANSWER_WITHIN_S", NEVER_S)  # or it would go on when it has lost its patience with the server
    gate = asyncio.Event()

    @engine.task
    async def work() -> None: ...

    @engine.task
    async def slow() -> None:
        await gate.wait()

    async with engine.worker(concurrency=4, pooled=pooled):
        held = engine.enqueue(slow)
        await until(lambda: engine.state(held) == "running")
        with engine.conn.transaction():
            engine.conn.execute("SELECT FROM rota.job WHERE id = %s FOR UPDATE", [held])
            gate.set()
            others = [_enqueue_elsewhere(engine, work.name) for _ in range(10)]
            await until(lambda: _completed(engine, others) == 10)
        await engine.ended(held)


def _enqueue_elsewhere(engine: Engine, task: str) -> Any:
    with psycopg.connect(engine.dsn, autocommit=True) as conn:
        return engine.enqueue(task, conn=conn)


def _completed(engine: Engine, ids: list[Any]) -> int:
    with psycopg.connect(engine.dsn, autocommit=True) as conn:
        row = conn.execute("SELECT count(*) FROM rota.run WHERE job_id = ANY (%s) AND final", [ids]).fetchone()
    assert row is not None
    return int(row[0])
