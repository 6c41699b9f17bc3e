"""Jobs whose rows somebody's transaction has locked: a child enqueued for a running parent, a handler that holds its job."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from tests.support.engine import Engine
from tests.support.wait import PATIENCE_S, until

from rota.db.connection import connect, connect_async
from rota.engine.context import Context
from rota.events import DatabaseLost, RunRescued
from rota.model.ids import new_id
from rota.model.run import Run
from rota.store import runs as store

LEASE_S = 2.5
SHORT = {"lease_s": LEASE_S, "heartbeat_s": 0.2}


@pytest.mark.req("Q11")
@pytest.mark.parametrize("by", ["a child's enqueue", "its own handler"])
async def test_a_lock_on_one_job_costs_no_lease(engine: Engine, by: str) -> None:
    """Not its own, and not that of the jobs that are renewed in the same statement."""
    begun, gate = [], asyncio.Event()

    @engine.task
    async def work() -> None:
        begun.append(1)
        await gate.wait()

    @engine.task
    async def hold(ctx: Context) -> None:
        async with await psycopg.AsyncConnection.connect(engine.dsn) as conn:
            await ctx.assert_held(conn)
            begun.append(1)
            await gate.wait()

    async with engine.worker(**SHORT):
        ids = [engine.enqueue(hold if by == "its own handler" else work), engine.enqueue(work)]
        await until(lambda: len(begun) == 2)
        with ExitStack() as stack:
            if by == "a child's enqueue":
                conn = stack.enter_context(psycopg.connect(engine.dsn))
                engine.enqueue(work, parents=[ids[0]], conn=conn)
            lease = engine.row(ids[1]).lease_until
            # Well past the end of the lease it had when the lock was taken.
            await until(lambda: engine.row(ids[1]).lease_until > lease + timedelta(seconds=2 * LEASE_S), what="it is renewed")
        gate.set()
        await engine.ended(*ids)
        await engine.drained()
    assert [engine.outcomes(id) for id in ids] == [["completed"]] * 2
    assert engine.seen(RunRescued) == []
    assert engine.seen(DatabaseLost) == []


async def test_what_a_worker_gives_back_does_not_wait_for_locks(engine: Engine) -> None:
    worker = new_id()
    ids = [engine.enqueue("work") for _ in range(3)]
    async with await connect_async(engine.dsn, "test") as session:
        runs = await store.claim(session, worker=worker, tasks="{work}", queue="default", limit=3, lease_s=60)
        with psycopg.connect(engine.dsn) as user:
            engine.enqueue("child", parents=[ids[0]], conn=user)
            await store.release(session, worker=worker, runs=runs[:2])
            assert await store.release_unknown(session, worker=worker, known=[], older_than_s=0) == 1
            assert [engine.state(id) for id in ids] == ["running", "queued", "queued"]
        assert await store.release_unknown(session, worker=worker, known=[], older_than_s=0) == 1


def test_a_renewal_tells_locked_from_lost(engine: Engine) -> None:
    worker = new_id()
    ids = [engine.enqueue("work") for _ in range(3)]
    held = [engine.hold(id, worker=worker) for id in ids]
    engine.take_away(ids[2])
    now = datetime.now(UTC)
    runs = [Run(str(each.id), each.token, "work", "default", 0, now, "{}", 1, 4, {}, 0.0, 0.0) for each in held]
    before = [engine.row(id).lease_until for id in ids]
    with psycopg.connect(engine.dsn) as user, connect(engine.dsn, "test") as conn:
        engine.enqueue("child", parents=[ids[0]], conn=user)
        renewed, lost = store.renew(conn, worker=worker, runs=runs, lease_s=900)
    assert (renewed, lost) == ({str(ids[1])}, {str(ids[2])})
    assert engine.row(ids[0]).lease_until == before[0]
    assert engine.row(ids[1]).lease_until > before[1]


@pytest.mark.req("Q11")
def test_a_rescue_does_not_wait_for_a_locked_child(engine: Engine) -> None:
    """Not even in a session that has no settings of ours, as behind a pooler."""
    parent = engine.enqueue("work")
    child = engine.enqueue("work", parents=[parent])
    held = engine.hold(parent)
    engine.conn.execute("SELECT rota.cancel_job(%s)", [parent])
    engine.conn.execute(f"SET statement_timeout = '{PATIENCE_S}s'")
    rescue = "SELECT state FROM rota.rescue_runs(%s)"
    with psycopg.connect(engine.dsn) as user:
        user.execute("SELECT FROM rota.job WHERE id = %s FOR UPDATE", [child])
        with pytest.raises(psycopg.errors.LockNotAvailable):
            engine.conn.execute(rescue, [[held.worker]])
    assert engine.conn.execute(rescue, [[held.worker]]).fetchall() == [("canceled",)]
    assert engine.outcomes(child) == ["canceled"]


@pytest.mark.req("Q11")
async def test_a_worker_does_not_rescue_from_itself(engine: Engine) -> None:
    """Its own lease has run out because somebody had the job locked: the heartbeat renews it, and nobody is called lost."""
    held = engine.hold(engine.enqueue("work"), lease_s=-1.0)
    async with await connect_async(engine.dsn, "test") as conn:
        assert await store.rescue(conn, rescuer=held.worker) == []
        assert [row[0] for row in await store.rescue(conn, rescuer=new_id())] == [held.id]
