"""Jobs that wait for jobs."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.support.engine import Engine

from rota import Rota
from rota.model.ids import new_id

pytestmark = pytest.mark.req("Q19")

FINISH = "SELECT rota.finish_run(%s, %s, %s, %s, 0, 0, can_retry => false)"


def finish(engine: Engine, id: UUID, outcome: str = "completed", conn: psycopg.Connection[Any] | None = None) -> None:
    """Run a job by hand and end it this way."""
    held = engine.hold(id)
    (conn or engine.conn).execute(FINISH, [id, held.token, held.worker, outcome])


def test_a_child_waits_for_the_last_parent_and_goes_with_its_transaction(engine: Engine) -> None:
    first, second = engine.enqueue("a"), engine.enqueue("b")
    child = engine.enqueue("c", parents=[first, second])
    assert engine.state(child) == "waiting"
    finish(engine, first)
    assert engine.state(child) == "waiting"
    with psycopg.connect(engine.dsn) as conn:
        finish(engine, second, conn=conn)
        assert conn.execute("SELECT state FROM rota.job WHERE id = %s", [child]).fetchone() == ("queued",)
        assert engine.state(child) == "waiting", "seen from outside before the commit"
        conn.rollback()
    assert engine.state(child) == "waiting", "the parent's completion was rolled back, and so is the release"
    engine.take_away(second)
    finish(engine, second)
    assert engine.state(child) == "queued"


@pytest.mark.parametrize("outcome", ["failed", "canceled"])
@pytest.mark.parametrize(("policy", "becomes"), [("cancel", "canceled"), ("fail", "failed"), ("ignore", "queued")])
def test_a_parent_that_does_not_complete(engine: Engine, outcome: str, policy: str, becomes: str) -> None:
    parent, good = engine.enqueue("a"), engine.enqueue("b")
    child = engine.enqueue("c", parents=[parent, good], on_parent_failure=policy)
    finish(engine, good)
    finish(engine, parent, outcome)
    assert engine.state(child) == becomes
    if policy != "ignore":
        assert engine.job(child).last_error["type"] == "ParentFailed"
        assert str(parent) in engine.job(child).last_error["message"]


def test_a_failure_goes_down_a_long_chain(engine: Engine) -> None:
    """Deeper than any recursion in the database would get."""
    ids = [engine.enqueue("a")]
    with engine.conn.transaction():
        for _ in range(1000):
            ids.append(engine.enqueue("b", parents=[ids[-1]]))
    finish(engine, ids[0], "failed")
    assert engine.count("rota.run WHERE outcome = 'canceled' AND final") == 1000
    assert engine.count() == 0


def test_a_diamond_releases_once(engine: Engine) -> None:
    top = engine.enqueue("a")
    left, right = engine.enqueue("b", parents=[top]), engine.enqueue("b", parents=[top])
    bottom = engine.enqueue("c", parents=[left, right])
    finish(engine, top)
    finish(engine, left)
    assert engine.state(bottom) == "waiting"
    finish(engine, right)
    assert engine.state(bottom) == "queued"


def test_a_canceled_parent_that_was_waiting_cancels_its_children(engine: Engine) -> None:
    top = engine.enqueue("a")
    middle = engine.enqueue("b", parents=[top])
    bottom = engine.enqueue("c", parents=[middle])
    engine.conn.execute("SELECT rota.cancel_job(%s)", [middle])
    assert (engine.state(middle), engine.state(bottom)) == ("canceled", "canceled")
    assert engine.state(top) == "queued"


def test_a_retried_parent_is_not_counted_twice(engine: Engine) -> None:
    """With `ignore` the child has heard of the failure; that the parent completes later must not stand for the other one."""
    first, second = engine.enqueue("a"), engine.enqueue("b")
    child = engine.enqueue("c", parents=[first, second], on_parent_failure="ignore")
    finish(engine, first, "failed")
    engine.conn.execute("SELECT rota.retry_job(%s)", [first])
    finish(engine, first)
    assert engine.state(child) == "waiting"
    finish(engine, second)
    assert engine.state(child) == "queued"


async def test_parents_that_finish_at_once_never_strand_the_child(engine: Engine) -> None:
    """Each sees the other as unfinished; the lock on the child is what makes one of them the last."""
    connect = psycopg.AsyncConnection.connect
    async with await connect(engine.dsn, autocommit=True) as one, await connect(engine.dsn, autocommit=True) as other:
        for _ in range(150):
            parents = [engine.enqueue("a"), engine.enqueue("a")]
            child = engine.enqueue("c", parents=parents)
            held = [engine.hold(parent) for parent in parents]
            ends = [(run.id, run.token, run.worker, "completed") for run in held]
            await asyncio.gather(one.execute(FINISH, ends[0]), other.execute(FINISH, ends[1]))
            assert engine.state(child) == "queued"


async def test_a_child_enqueued_while_its_parent_finishes_is_never_stranded(engine: Engine) -> None:
    for _ in range(60):
        parent = engine.enqueue("a")
        held = engine.hold(parent)
        async with await psycopg.AsyncConnection.connect(engine.dsn, autocommit=True) as conn:
            ended = asyncio.create_task(conn.execute(FINISH, [parent, held.token, held.worker, "completed"]))
            child = await asyncio.to_thread(engine.enqueue, "c", parents=[parent])
            await ended
        assert engine.state(child) == "queued"


async def test_fan_out_to_ten_thousand_and_fan_in(dsn: str, engine: Engine) -> None:
    app = Rota(dsn)
    done: list[int] = []

    @app.task
    async def split() -> None: ...

    @app.task
    async def part(n: int) -> None:
        done.append(n)

    @app.task
    async def join() -> None:
        assert len(done) == 10_000, "ran before its last parent"
        done.append(-1)

    top = split.job()
    parts = [part.job(n=n).after(top) for n in range(10_000)]
    async with app:
        made = await app.aenqueue_many([top, *parts, join.job().after(*parts)])
    engine.tasks = dict(app.tasks)
    async with engine.worker(concurrency=16):
        await engine.ended(made[-1].id)
    assert sorted(done) == list(range(-1, 10_000))
    assert engine.count() == 0


def test_a_parent_that_does_not_exist_is_refused(engine: Engine) -> None:
    with pytest.raises(AssertionError, match="parent_not_found"):
        engine.enqueue("c", parents=[new_id()])
    assert engine.count() == 0
