"""Limits of a queue: over all tasks and workers, as code or an operator says, who has the last word."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.engine import Engine
from tests.support.invoke import Rota as Command
from tests.support.wait import NEVER_S, PATIENCE_S, until

from rota import Rota
from rota.contrib.testing.clock import Clock
from rota.control.explain import why
from rota.control.queue_limits import limit_queue, unlimit_queue
from rota.db.connection import connect_async
from rota.errors import UnknownQueue, UsageError
from rota.model.limits import QueueLimits
from rota.store import runs as store
from rota.store import tasks

pytestmark = pytest.mark.req("S09")

AConn = psycopg.AsyncConnection[Any]
START = datetime(2030, 1, 1, tzinfo=UTC)


def declare(engine: Engine, max_concurrency: int | None = None, rate: str | None = None) -> None:
    """Make the test's tasks and the queue known to the database, as a worker does when it starts."""
    limits = {"mail": QueueLimits(max_concurrency, rate)}
    tasks.sync(engine.conn, tasks=engine.tasks.values(), queues=["default", "mail"], limits=limits)


def limits(engine: Engine) -> Any:
    """What holds for the queue."""
    return engine.conn.execute("SELECT max_concurrency, rate FROM rota.queue WHERE name = 'mail'").fetchone()


def fill(engine: Engine, count: int) -> None:
    """Jobs as a process enqueues them that knows of the limit."""
    for _ in range(count):
        engine.conn.execute("SELECT rota.enqueue('work', queue => 'mail')")


def define(engine: Engine) -> None:
    @engine.task(queue="mail")
    async def work() -> None: ...


async def promote(engine: Engine) -> int:
    """Do what workers do at each poll."""
    async with await connect_async(engine.dsn, "test") as conn:
        return (await store.promote(conn))[0]


def ready(engine: Engine) -> int:
    return engine.count("rota.job WHERE state = 'queued'")


@pytest.fixture
def rota(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(dsn, tmp_path, monkeypatch, capsys)


async def test_all_tasks_of_a_queue_share_its_places(engine: Engine) -> None:
    inside = most = 0

    async def visit() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.005)
        inside -= 1

    one = engine.task(visit, name="one", queue="mail")
    two = engine.task(visit, name="two", queue="mail", max_concurrency=2)
    declare(engine, 3)
    for _ in range(30):
        engine.conn.execute("SELECT rota.enqueue('one'), rota.enqueue('two')")
    async with engine.worker(queues={"mail": 1}, concurrency=10), engine.worker(queues={"mail": 1, "default": 1}, concurrency=10):
        for _ in range(30):  # by processes that know nothing of the queue's limit
            engine.enqueue(one, queue="mail")
            engine.enqueue(two, queue="mail")
        await engine.drained()
    assert most == 3


async def test_a_queue_is_not_in_the_way_of_others(engine: Engine) -> None:
    gate = asyncio.Event()

    @engine.task
    async def work(wait: bool = False) -> None:
        if wait:
            await gate.wait()

    declare(engine, 1)
    blocked = [engine.enqueue(work, {"wait": True}, queue="mail") for _ in range(10)]
    async with engine.worker(queues={"mail": 1, "default": 1}, concurrency=4):
        await engine.ended(*[engine.enqueue(work) for _ in range(20)])
        await until(lambda: engine.count("rota.job WHERE queue = 'mail' AND state = 'running'") == 1)
        assert engine.count("rota.job WHERE queue = 'mail' AND state = 'held'") == 9
        gate.set()
        await engine.ended(*blocked)


async def test_the_next_one_starts_at_once(engine: Engine) -> None:
    define(engine)
    declare(engine, 1)
    async with engine.worker(queues={"mail": 1}, poll_interval_s=NEVER_S):
        await until(lambda: engine.count("rota.worker WHERE wants_wake") == 1)
        fill(engine, 30)
        await engine.drained()


async def test_its_rate(engine: Engine, clock: Clock) -> None:
    clock.freeze(START)
    define(engine)
    declare(engine, rate="2/10s")
    fill(engine, 5)
    await promote(engine)
    assert ready(engine) == 2
    for (id,) in engine.conn.execute("SELECT id FROM rota.job WHERE state = 'queued'").fetchall():
        held = engine.hold(id)
        engine.conn.execute("SELECT rota.finish_run(%s, %s, %s, 'completed', 0, 0)", [id, held.token, held.worker])
    clock.move(timedelta(seconds=9))
    await promote(engine)
    assert ready(engine) == 0
    clock.move(timedelta(seconds=1))
    await promote(engine)
    assert ready(engine) == 2


def test_an_application_that_declares_it(engine: Engine) -> None:
    """By all ways of enqueuing, its jobs wait for a place from the beginning; and a limit taken out of the code is gone."""
    with Rota(engine.dsn) as app:
        app.queue("mail", max_concurrency=2, rate="100/m")

        @app.task(queue="mail")
        def work(n: int = 0) -> None: ...

        @app.task
        def other(n: int = 0) -> None: ...

        tasks.sync(engine.conn, tasks=app.tasks.values(), queues=list(app.queues), limits=app.queue_limits)
        assert limits(engine) == (2, "100/60s")
        work.enqueue()
        work.using(key="once").enqueue()
        other.using(queue="mail").enqueue()
        app.enqueue_many(work.job(n) for n in range(60))
        app.enqueue("work")
        other.enqueue()
        assert engine.conn.execute("SELECT queue, state, count(*) FROM rota.job GROUP BY 1, 2 ORDER BY 1").fetchall() == [
            ("default", "queued", 1),
            ("mail", "held", 64),
        ]
        app.queue("mail")
        tasks.sync(engine.conn, tasks=app.tasks.values(), queues=list(app.queues), limits=app.queue_limits)
        assert limits(engine) == (None, None)
        engine.conn.execute("SELECT rota.admit_held()")
        assert engine.count("rota.job WHERE state = 'held'") == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [({"max_concurrency": 0}, "max_concurrency=0 is out of range"), ({"rate": "fast"}, "rate='fast' is not a rate"),
     ({"max_concurrency": True}, "out of range"), ({"rate": 5}, "is not a rate")],
)  # fmt: skip
def test_a_limit_that_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with Rota("postgresql://nowhere") as app, pytest.raises(UsageError, match=message):
        app.queue("mail", **options)


class TestOperator:
    """What an operator says holds at once, and over the next starts of workers."""

    async def test_it_overrules_code(self, engine: Engine, aconn: AConn) -> None:
        define(engine)
        declare(engine, 5)
        fill(engine, 8)
        await promote(engine)
        assert ready(engine) == 5
        assert await limit_queue(aconn, "mail", max_concurrency=2) == {"max_concurrency": 2, "rate": None}
        assert ready(engine) == 2, "what did not run waits again"
        assert await limit_queue(aconn, "mail", max_concurrency=4) == {"max_concurrency": 4, "rate": None}
        assert ready(engine) == 4
        declare(engine, 5)
        assert limits(engine) == (4, None), "a worker that starts changes nothing"
        declare(engine, 6, "1/1s")
        assert limits(engine) == (4, "1/1s"), "code may say what the operator has not"
        assert await limit_queue(aconn, "mail", max_concurrency=None, rate=None) == {"max_concurrency": None, "rate": None}
        assert ready(engine) == 8
        assert await unlimit_queue(aconn, "mail") == {"max_concurrency": 6, "rate": "1/1s"}

    async def test_a_first_limit_holds_for_what_is_queued_already(self, engine: Engine, aconn: AConn) -> None:
        inside = most = 0
        counting = False

        @engine.task(queue="mail")
        async def work() -> None:
            nonlocal inside, most
            inside += 1
            most = max(most, inside) if counting else 0
            await asyncio.sleep(0.01)
            inside -= 1

        ids = [engine.enqueue(work, queue="mail") for _ in range(400)]
        async with engine.worker(queues={"mail": 1}, concurrency=8, poll_interval_s=0.1):
            await until(lambda: engine.count("rota.run") > 20)
            await limit_queue(aconn, "mail", max_concurrency=1)
            # What was claimed before ends; workers know of it with their next poll.
            await until(lambda: engine.count("rota.job WHERE state = 'running'") == 1, what="one runs")
            counting = True
            done = engine.count("rota.run")
            await until(lambda: engine.count("rota.run") > done + 20)
            assert most == 1
            await limit_queue(aconn, "mail", max_concurrency=None)
            await engine.ended(*ids)
        assert {run.attempt for id in ids for run in engine.runs(id)} == {1}

    async def test_what_makes_no_sense(self, engine: Engine, aconn: AConn) -> None:
        declare(engine)
        with pytest.raises(UsageError, match="max_concurrency=0 is out of range"):
            await limit_queue(aconn, "mail", max_concurrency=0)
        with pytest.raises(UsageError, match="rate='x' is not a rate"):
            await limit_queue(aconn, "mail", rate="x")
        with pytest.raises(UsageError, match="nothing to set"):
            await limit_queue(aconn, "mail")
        with pytest.raises(UsageError, match="speed is no limit of a queue"):
            await limit_queue(aconn, "mail", speed=1)
        with pytest.raises(UnknownQueue, match="did you mean 'mail'"):
            await limit_queue(aconn, "mial", rate="1/s")

    def test_by_command(self, engine: Engine, rota: Command) -> None:
        declare(engine, 7)
        answer = rota("queues", "limit", "mail", "--max-concurrency", "20", "--rate", "50/s")
        assert (answer.code, answer.out) == (0, "")
        assert "queue mail: 20 at once, 50/s; `--reset` lets code decide again" in answer.err
        assert "20 at once, 50/s (operator)" in rota("queues", "list").out
        [_, mail] = rota("queues", "list", "--json").data
        assert (mail["max_concurrency"], mail["rate"], mail["overridden"]) == (20, "50/1s", True)
        assert rota("queues", "limit", "mail", "--rate", "none", "--json").data == {
            "name": "mail",
            "max_concurrency": 20,
            "rate": None,
        }
        assert "queue mail: no limits" in rota("queues", "limit", "mail", "--none").err
        assert "none (operator)" in rota("queues", "list").out
        assert "queue mail: 7 at once\n" in rota("queues", "limit", "mail", "--reset").err
        for wrong in ([], ["--none", "--reset"], ["--max-concurrency", "many"], ["--rate", "often"], ["--max-concurrency", "0"]):
            answer = rota("queues", "limit", "mail", *wrong)
            assert (answer.code, answer.out) == (2, ""), wrong
            assert answer.err.startswith("error: ")


class TestWhy:
    """`rota jobs why` names the limit, who has the places, and when the rate has room again."""

    async def test_a_full_queue(self, engine: Engine, aconn: AConn) -> None:
        define(engine)
        declare(engine, 1)
        fill(engine, 2)
        await promote(engine)
        first, second = (row[0] for row in engine.conn.execute("SELECT id FROM rota.job ORDER BY state DESC").fetchall())
        explanation = await why(aconn, second)
        assert (
            f"by the limit of 1 running job of queue 'mail': held by job {first}, which comes next."
            in explanation.reasons[-1].sentence
        )

    async def test_a_full_key(self, engine: Engine, aconn: AConn) -> None:
        @engine.task(concurrency_key="{customer}", key_concurrency=1)
        async def work(customer: str) -> None: ...

        declare(engine)
        first, second = (engine.enqueue(work, {"customer": "acme"}) for _ in range(2))
        await promote(engine)
        explanation = await why(aconn, second)
        expected = f"by the limit of 1 running job of key 'acme' of this task: held by job {first}, which comes next."
        assert expected in explanation.reasons[-1].sentence

    async def test_a_rate_that_is_used_up(self, engine: Engine, aconn: AConn, clock: Clock) -> None:
        clock.freeze(START)

        @engine.task(rate="1/60s")
        async def work() -> None: ...

        declare(engine)
        first, second = engine.enqueue(work), engine.enqueue(work)
        await promote(engine)
        sentence = (await why(aconn, second)).reasons[-1].sentence
        assert (
            sentence
            == "It is held by the rate of 1 start per 1m of this task: there is room again when those that are ready have begun."
        )
        engine.hold(first)
        clock.move(timedelta(seconds=18))
        sentence = (await why(aconn, second)).reasons[-1].sentence
        assert sentence.endswith("there is room again at 2030-01-01 00:01:00 UTC, in 42s.")


async def test_nobody_waits_long_for_the_queue(engine: Engine) -> None:
    """A session that hangs with the queue's row: endings are recorded, and then it goes on."""
    define(engine)
    declare(engine, 1)
    async with engine.worker(queues={"mail": 1}, poll_interval_s=NEVER_S):
        with psycopg.connect(engine.dsn) as stranger:
            stranger.execute("SELECT FROM rota.queue FOR UPDATE")
            fill(engine, 3)
            async with asyncio.timeout(PATIENCE_S):  # the stranger does not let go before it is over
                assert await promote(engine) == 0
        await engine.drained()
