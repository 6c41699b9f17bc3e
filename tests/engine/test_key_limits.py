"""Limits of each key of a task: over all workers, whatever becomes of the jobs, and one key never at the expense of another."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.support.engine import Engine
from tests.support.wait import NEVER_S, until

from rota import Rota, Secret
from rota.contrib.testing.clock import Clock
from rota.db.connection import connect_async
from rota.errors import UsageError
from rota.model.task import TaskSpec
from rota.store import runs as store
from rota.store import tasks
from rota.task import Task

pytestmark = pytest.mark.req("S09")


def sync(engine: Engine) -> None:
    """Make the test's tasks known to the database, as a worker does when it starts."""
    tasks.sync(engine.conn, tasks=engine.tasks.values(), queues=["default"])


def limit(engine: Engine, **limits: Any) -> TaskSpec:
    """A task with limits of each customer that is known to the database and never runs."""

    @engine.task(**{"concurrency_key": "{customer}", "key_concurrency": 1, **limits})
    async def work(customer: str) -> None: ...

    sync(engine)
    return engine.tasks["work"]


def states(engine: Engine, ids: list[UUID]) -> list[str]:
    """The states of live jobs as they are stored."""
    return [engine.row(id).state for id in ids]


async def promote(engine: Engine) -> int:
    """Do what workers do at each poll."""
    async with await connect_async(engine.dsn, "test") as conn:
        return (await store.promote(conn))[0]


def complete(engine: Engine, id: UUID) -> None:
    """Run a ready job to its end."""
    held = engine.hold(id)
    engine.conn.execute("SELECT rota.finish_run(%s, %s, %s, 'completed', 0, 0)", [id, held.token, held.worker])


async def test_no_two_of_a_key_and_all_keys_at_once(engine: Engine) -> None:
    inside: Counter[str] = Counter()
    most: Counter[str] = Counter()
    widest = 0

    @engine.task(concurrency_key="{customer}", key_concurrency=1)
    async def work(customer: str) -> None:
        nonlocal widest
        inside[customer] += 1
        most[customer] = max(most[customer], inside[customer])
        widest = max(widest, inside.total())
        await asyncio.sleep(0.01)
        inside[customer] -= 1

    for n in range(60):
        engine.enqueue(work, {"customer": f"c{n % 6}"})
    async with engine.worker(concurrency=10), engine.worker(concurrency=10):
        for n in range(60):
            engine.enqueue(work, {"customer": f"c{n % 6}"})
        await engine.drained()
    assert set(most.values()) == {1}
    assert widest == 6


async def test_a_full_key_is_in_nobodys_way(engine: Engine) -> None:
    gate = asyncio.Event()

    @engine.task(concurrency_key="{customer}", key_concurrency=1)
    async def work(customer: str) -> None:
        if customer == "slow":
            await gate.wait()

    slow = [engine.enqueue(work, {"customer": "slow"}, priority=-1) for _ in range(50)]
    async with engine.worker(concurrency=4, poll_interval_s=NEVER_S):
        await engine.ended(*[engine.enqueue(work, {"customer": f"c{n}"}) for n in range(50)])
        assert engine.count("rota.job WHERE state = 'held'") == 49
        gate.set()
        await engine.ended(*slow)


async def test_an_ending_lets_the_next_of_its_key_in(engine: Engine) -> None:
    work = limit(engine)
    ids = [engine.enqueue(work, {"customer": customer}) for customer in "aabb"]
    assert await promote(engine) == 2
    assert states(engine, ids) == ["queued", "held", "queued", "held"]
    complete(engine, ids[2])
    assert states(engine, [ids[0], ids[1], ids[3]]) == ["queued", "held", "queued"]


async def test_a_key_and_its_task(engine: Engine) -> None:
    """Both hold; who has a place of its key waits for one of the task in the order of priority."""
    work = limit(engine, key_concurrency=2, max_concurrency=3)
    ids = [engine.enqueue(work, {"customer": customer}) for customer in "aaabbbc"]
    urgent = engine.enqueue(work, {"customer": "d"}, priority=-5)
    assert await promote(engine) == 3
    assert [*states(engine, ids), *states(engine, [urgent])] == ["queued"] * 2 + ["held"] * 5 + ["queued"]
    complete(engine, urgent)
    assert states(engine, ids) == ["queued", "queued", "held", "queued", "held", "held", "held"]
    complete(engine, ids[0])
    assert states(engine, ids[1:]) == ["queued", "queued", "queued", "held", "held", "held"], "a's third is older than b's second"


async def test_a_cancelled_one_gives_its_place_to_the_next_of_its_key(engine: Engine) -> None:
    work = limit(engine)
    ids = [engine.enqueue(work, {"customer": "a"}) for _ in range(3)]
    await promote(engine)
    engine.conn.execute("SELECT rota.cancel_job(%s)", [ids[0]])
    assert await promote(engine) == 1
    assert states(engine, ids[1:]) == ["queued", "held"]


async def test_a_cancelled_one_that_waits_for_its_task_gives_its_keys_place_away(engine: Engine) -> None:
    work = limit(engine, max_concurrency=1)
    first, second, third = (engine.enqueue(work, {"customer": customer}) for customer in "abb")
    await promote(engine)
    assert [engine.row(id).line for id in (first, second, third)] == ["p default", "t work", "k work b"]
    engine.conn.execute("SELECT rota.cancel_job(%s)", [second])
    await promote(engine)
    assert engine.row(third).line == "t work"


def test_what_is_rescued_keeps_its_place(engine: Engine) -> None:
    work = limit(engine)
    ids = [engine.enqueue(work, {"customer": "a"}) for _ in range(2)]
    engine.conn.execute("SELECT rota.admit_held()")
    engine.hold(ids[0])
    engine.take_away(ids[0])
    assert states(engine, ids) == ["queued", "held"]


class TestChange:
    """The limit, or the key, is another one."""

    async def test_a_raised_limit(self, engine: Engine) -> None:
        work = limit(engine)
        ids = [engine.enqueue(work, {"customer": "a"}) for _ in range(4)]
        await promote(engine)
        limit(engine, key_concurrency=3)
        await promote(engine)
        assert states(engine, ids) == ["queued"] * 3 + ["held"]

    async def test_a_lowered_limit(self, engine: Engine) -> None:
        work = limit(engine, key_concurrency=4)
        ids = [engine.enqueue(work, {"customer": "a"}) for _ in range(5)]
        await promote(engine)
        run = engine.hold(ids[0])
        limit(engine, key_concurrency=1)
        await promote(engine)
        assert states(engine, ids) == ["running"] + ["held"] * 4
        engine.conn.execute("SELECT rota.finish_run(%s, %s, %s, 'completed', 0, 0)", [ids[0], run.token, run.worker])
        assert states(engine, ids[1:]) == ["queued"] + ["held"] * 3

    async def test_another_key(self, engine: Engine) -> None:
        work = limit(engine)
        ids = [engine.enqueue(work, {"customer": customer}) for customer in ("a1", "a2")]
        await promote(engine)
        assert states(engine, ids) == ["queued", "queued"]
        limit(engine, concurrency_key="all of them {customer}")
        engine.conn.execute("UPDATE rota.task SET concurrency_key = 'all'")
        assert await promote(engine) == 1
        assert states(engine, ids) == ["queued", "held"]

    async def test_no_key_any_more(self, engine: Engine) -> None:
        work = limit(engine)
        ids = [engine.enqueue(work, {"customer": "a"}) for _ in range(3)]
        await promote(engine)
        limit(engine, concurrency_key=None, key_concurrency=None)
        await promote(engine)
        assert states(engine, ids) == ["queued"] * 3

    async def test_a_first_key_holds_for_what_is_queued_already(self, engine: Engine) -> None:
        most: Counter[str] = Counter()
        inside: Counter[str] = Counter()

        @engine.task
        async def work(customer: str) -> None: ...

        ids = [engine.enqueue(work, {"customer": f"c{n % 3}"}) for n in range(30)]

        @engine.task(concurrency_key="{customer}", key_concurrency=1, name="work")
        async def narrow(customer: str) -> None:
            inside[customer] += 1
            most[customer] = max(most[customer], inside[customer])
            await asyncio.sleep(0.003)
            inside[customer] -= 1

        async with engine.worker(concurrency=10):
            await engine.ended(*ids)
        assert set(most.values()) == {1}
        assert [(run.outcome, run.attempt) for id in ids for run in engine.runs(id)] == [("completed", 1)] * 30


async def test_nobody_is_left_behind_when_a_row_is_locked(engine: Engine) -> None:
    """An ending that cannot get the task's row leaves word, and the next of its key runs when the row is free."""
    gate = asyncio.Event()

    @engine.task(concurrency_key="{customer}", key_concurrency=1)
    async def work(customer: str, wait: bool = False) -> None:
        if wait:
            await gate.wait()

    async with engine.worker(poll_interval_s=NEVER_S):
        first = engine.enqueue(work, {"customer": "a", "wait": True})
        await until(lambda: engine.state(first) == "running")
        ids = [engine.enqueue(work, {"customer": "a"}) for _ in range(3)]
        await until(lambda: engine.count("rota.job WHERE line = 'k work a'") == 3)
        with psycopg.connect(engine.dsn) as stranger:
            stranger.execute("SELECT FROM rota.task FOR UPDATE")
            gate.set()
            await engine.ended(first)
            assert states(engine, ids) == ["held"] * 3
        await engine.ended(*ids)


async def test_a_place_that_was_made_free_behind_our_back_is_found(engine: Engine, clock: Clock) -> None:
    """By somebody who deletes jobs by hand."""
    work = limit(engine)
    ids = [engine.enqueue(work, {"customer": "a"}) for _ in range(2)]
    await promote(engine)
    engine.conn.execute("DELETE FROM rota.job WHERE id = %s", [ids[0]])
    for _ in range(2):
        assert await promote(engine) == 0
        clock.move(timedelta(seconds=31))
        engine.conn.execute("DELETE FROM rota.job WHERE state = 'queued'")
        assert await promote(engine) == 1
        ids.append(engine.enqueue(work, {"customer": "a"}))
    engine.conn.execute("DELETE FROM rota.job")
    for _ in range(3):
        clock.move(timedelta(seconds=31))
        await promote(engine)
    assert engine.count("rota.limit_look") == 0


async def test_a_job_that_was_held_behind_our_back_lines_up_again(engine: Engine) -> None:
    work = limit(engine)
    id = engine.enqueue(work, {"customer": "a"})
    await promote(engine)
    engine.conn.execute("UPDATE rota.job SET state = 'held'")
    assert await promote(engine) == 1
    assert states(engine, [id]) == ["queued"]


@pytest.mark.parametrize("count", [1, 3, 100], ids=["one", "by a statement", "by COPY"])
def test_every_way_in_leads_to_the_same_key(engine: Engine, count: int) -> None:
    with Rota(engine.dsn) as app:

        @app.task(concurrency_key="{region}/{customer}")
        def work(region: str, customer: int, note: str = "") -> None: ...

        assert isinstance(work, Task)
        tasks.sync(engine.conn, tasks=app.tasks.values(), queues=["default"])
        if count == 1:
            work.enqueue("eu", 7, note="\\ {customer}")
            work.using(key="once").enqueue("eu", 7)
        else:
            app.enqueue_many(work.job("eu", 7) for _ in range(count))
    engine.conn.execute("""SELECT rota.enqueue('work', '{"region": "eu", "customer": 7}')""")
    engine.conn.execute("SELECT rota.admit_held()")
    assert engine.conn.execute("SELECT DISTINCT limit_key FROM rota.job").fetchall() == [("eu/7",)]
    assert engine.count("rota.job WHERE state = 'queued'") == 1


@pytest.mark.parametrize(
    ("template", "payload", "key"),
    [
        ("{a}", '{"a": "x"}', "x"),
        ("{a}", '{"a": 7}', "7"),
        ("{a}", '{"a": true}', "true"),
        ("{a}", '{"a": null}', ""),
        ("{a}", "{}", ""),
        ("t-{a}:{b}!", '{"a": "é", "b": "{a}"}', "t-é:{a}!"),
        ("{a}{a}", '{"a": 1}', "11"),
        ("x", '{"a": 1}', "x"),
    ],
)
def test_a_key(engine: Engine, template: str, payload: str, key: str) -> None:
    assert engine.conn.execute("SELECT rota.limit_key(%s, %s)", [template, payload]).fetchone() == (key,)


def test_a_long_key_is_told_from_others_by_its_hash(engine: Engine) -> None:
    keys = [
        engine.conn.execute("SELECT rota.limit_key('{a}', json_build_object('a', repeat('é', 5000) || %s::text))", [end]).fetchone()
        for end in ("1", "2", "1")
    ]
    assert keys[0] == keys[2] != keys[1]
    assert all(key is not None and len(key[0].encode()) <= 200 for key in keys)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"concurrency_key": "{custmer}"}, "names 'custmer': its parameters are customer, tags, token"),
        ({"concurrency_key": "{tags}"}, "names 'tags', which is no text, number or boolean"),
        ({"concurrency_key": "{token}"}, "names 'token', which is a secret"),
        ({"concurrency_key": "customer"}, "must name arguments in braces"),
        ({"concurrency_key": "{customer"}, "must name arguments in braces"),
        ({"concurrency_key": "{customer}\0"}, "is not a template"),
        ({"concurrency_key": "{customer}" + "x" * 200}, "of at most 200 bytes"),
        ({"concurrency_key": 7}, "is not a template"),
        ({"concurrency_key": "{customer}", "key_concurrency": 0}, "key_concurrency=0 is out of range: from 1 to 100000"),
        ({"key_concurrency": 1}, "are limits of each key"),
        ({"key_rate": "1/s"}, "are limits of each key"),
        ({"concurrency_key": "{customer}", "key_rate": "often"}, "key_rate='often' is not a rate"),
    ],
)
def test_what_makes_no_sense_is_refused(limits: dict[str, Any], message: str) -> None:
    def work(customer: str, tags: list[str], token: Secret) -> None: ...

    with Rota("postgresql://nowhere") as app, pytest.raises(UsageError, match=message.replace("{", r"\{")):
        app.task(**limits)(work)


def test_a_key_alone_is_one_at_a_time() -> None:
    with Rota("postgresql://nowhere") as app:

        @app.task(concurrency_key="{customer}")
        def work(customer: str) -> None: ...

        assert app.tasks["work"].key_concurrency == 1
        assert work.spec.limited
