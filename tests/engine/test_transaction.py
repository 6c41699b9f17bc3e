"""Effects in PostgreSQL exactly once: `ctx.transaction()` and `ctx.assert_held()`."""

from __future__ import annotations

import asyncio
import threading

import psycopg
import pytest
from tests.support.engine import Engine
from tests.support.wait import PATIENCE_S, until

from rota.engine.context import Context
from rota.errors import LeaseLost
from rota.events import RunLeaseLost
from rota.model.retry import Retry

AT_ONCE = Retry(base="0s", jitter="0s")
NOTE = "INSERT INTO note VALUES (%s)"


@pytest.fixture(autouse=True)
def _table(engine: Engine) -> None:
    engine.conn.execute("CREATE TABLE note (attempt bigint)")


def notes(engine: Engine) -> list[int]:
    return [row[0] for row in engine.conn.execute("SELECT attempt FROM note ORDER BY 1")]


@pytest.mark.parametrize("sync", [False, True])
async def test_effect_and_completion_commit_together(engine: Engine, sync: bool) -> None:
    seen: list[tuple[int, str]] = []

    @engine.task(name="async")
    async def work(ctx: Context) -> str:
        async with ctx.transaction() as conn:
            await conn.execute(NOTE, [ctx.attempt])
            ctx.result = {"n": 1}
            seen.append((len(notes(engine)), engine.state(ctx.job_id)))
        seen.append((len(notes(engine)), engine.state(ctx.job_id)))
        return "ignored: the transaction has ended the run"

    @engine.task(name="sync")
    def work_in_thread(ctx: Context) -> None:
        with ctx.transaction() as conn, psycopg.connect(engine.dsn) as other:
            conn.execute(NOTE, [ctx.attempt])
            ctx.result = {"n": 1}
            seen.append((len(other.execute("SELECT FROM note").fetchall()), "running"))
        seen.append((1, "completed"))

    async with engine.worker():
        id = engine.enqueue("sync" if sync else "async")
        await engine.ended(id)
    assert seen == [(0, "running"), (1, "completed")]
    [run] = engine.runs(id)
    assert (run.outcome, run.result) == ("completed", {"n": 1})


@pytest.mark.parametrize("sync", [False, True])
async def test_an_error_rolls_both_back(engine: Engine, sync: bool) -> None:
    @engine.task(name="async", retry=AT_ONCE)
    async def work(ctx: Context) -> None:
        async with ctx.transaction() as conn:
            await conn.execute(NOTE, [ctx.attempt])
            if ctx.attempt == 1:
                raise ValueError("no")

    @engine.task(name="sync", retry=AT_ONCE)
    def work_in_thread(ctx: Context) -> None:
        with ctx.transaction() as conn:
            conn.execute(NOTE, [ctx.attempt])
            if ctx.attempt == 1:
                raise ValueError("no")

    async with engine.worker():
        id = engine.enqueue("sync" if sync else "async")
        await engine.ended(id)
    assert notes(engine) == [2]
    assert engine.outcomes(id) == ["failed", "completed"]


@pytest.mark.req("Q06")
@pytest.mark.parametrize("sync", [False, True])
async def test_a_lost_lease_rolls_back(engine: Engine, sync: bool) -> None:
    """The job is taken away while the handler works: what it wrote is undone, and the other attempt's is not."""
    raised: list[BaseException] = []
    proceed = threading.Event()

    @engine.task(name="async")
    async def work(ctx: Context) -> None:
        try:
            async with ctx.transaction() as conn:
                await conn.execute(NOTE, [ctx.attempt])
                await until(lambda: ctx.attempt == 2 or proceed.is_set())
        except LeaseLost as error:
            raised.append(error)
            raise

    @engine.task(name="sync")
    def work_in_thread(ctx: Context) -> None:
        try:
            with ctx.transaction() as conn:
                conn.execute(NOTE, [ctx.attempt])
                assert ctx.attempt == 2 or proceed.wait(PATIENCE_S)
        except LeaseLost as error:
            raised.append(error)
            raise

    async with engine.worker():
        id = engine.enqueue("sync" if sync else "async")
        await until(lambda: engine.state(id) == "running")
        engine.take_away(id)
        engine.conn.execute("UPDATE rota.job SET crashes = 0 WHERE id = %s", [id])  # else it would run in a process of its own
        await engine.ended(id)
        proceed.set()
        await until(lambda: engine.seen(RunLeaseLost))
    assert len(raised) == 1
    assert notes(engine) == [2]
    assert engine.outcomes(id) == ["lost", "completed"]


async def test_a_run_that_timed_out_cannot_commit_after_all(engine: Engine) -> None:
    """Its failure is recorded and the job will run again: the thread that never heard of it must not write as well."""
    late, raised = threading.Event(), []

    @engine.task(timeout_s=0.1, retry=Retry(base="1h"))
    def work(ctx: Context) -> None:
        late.wait(PATIENCE_S)
        try:
            with ctx.transaction() as conn:
                conn.execute(NOTE, [ctx.attempt])
        except LeaseLost as error:
            raised.append(error)

    async with engine.worker():
        id = engine.enqueue(work)
        await until(lambda: engine.outcomes(id) == ["failed"])
        late.set()
        await until(lambda: raised or notes(engine))
    assert notes(engine) == []
    assert len(raised) == 1


async def test_one_transaction_for_one_run(engine: Engine) -> None:
    raised: list[str] = []

    @engine.task
    async def work(ctx: Context) -> None:
        async with ctx.transaction() as conn:
            await conn.execute(NOTE, [1])
        try:
            async with ctx.transaction() as conn:
                await conn.execute(NOTE, [2])
        except LeaseLost as error:
            raised.append(str(error))

    async with engine.worker():
        id = engine.enqueue(work)
        await until(lambda: raised or len(notes(engine)) > 1)
        assert engine.state(id) == "completed"
    assert notes(engine) == [1]


async def test_children_are_released_in_the_transaction(engine: Engine) -> None:
    @engine.task
    async def work(ctx: Context) -> None:
        async with ctx.transaction() as conn:
            await conn.execute(NOTE, [ctx.attempt])

    parent = engine.enqueue(work)
    child = engine.enqueue(work, parents=[parent])
    async with engine.worker():
        await engine.ended(parent, child)
    assert notes(engine) == [1, 1]


@pytest.mark.parametrize("sync", [False, True])
async def test_assert_held_aborts_a_zombie(engine: Engine, sync: bool) -> None:
    zombie = threading.Event()
    outcome: list[str] = []

    @engine.task(name="async")
    async def work(ctx: Context) -> None:
        await until(zombie.is_set)
        try:
            async with await psycopg.AsyncConnection.connect(engine.dsn) as conn:
                await conn.execute(NOTE, [ctx.attempt])
                await ctx.assert_held(conn)
            outcome.append("committed")
        except LeaseLost:
            outcome.append("aborted")

    @engine.task(name="sync")
    def work_in_thread(ctx: Context) -> None:
        zombie.wait(PATIENCE_S)
        try:
            with psycopg.connect(engine.dsn) as conn:
                conn.execute(NOTE, [ctx.attempt])
                ctx.assert_held(conn)
            outcome.append("committed")
        except LeaseLost:
            outcome.append("aborted")

    async with engine.worker():
        id = engine.enqueue("sync" if sync else "async")
        await until(lambda: engine.state(id) == "running")
        engine.take_away(id)
        engine.conn.execute("UPDATE rota.job SET crashes = 0, run_at = now() + interval '1 h', state = 'delayed'")
        zombie.set()
        await until(lambda: outcome)
    assert (outcome, notes(engine)) == (["aborted"], [])


async def test_assert_held_keeps_the_job_until_the_commit(engine: Engine) -> None:
    """Whoever wants the job meanwhile waits or goes elsewhere: a rescuer passes it over."""
    held, commit = asyncio.Event(), asyncio.Event()

    @engine.task
    async def work(ctx: Context) -> None:
        async with await psycopg.AsyncConnection.connect(engine.dsn) as conn:
            await ctx.assert_held(conn)
            held.set()
            await commit.wait()
            await conn.execute(NOTE, [ctx.attempt])

    async with engine.worker():
        id = engine.enqueue(work)
        await asyncio.wait_for(held.wait(), PATIENCE_S)
        assert (
            engine.conn.execute("SELECT job_id FROM rota.rescue_runs(ARRAY[%s]::uuid[])", [engine.row(id).worker_id]).fetchall()
            == []
        )
        commit.set()
        await engine.ended(id)
    assert notes(engine) == [1]
    assert engine.outcomes(id) == ["completed"]
