"""A disabled task: its schedules do not fire and its jobs wait, at once, over restarts, and in nobody's way."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.engine import Engine
from tests.support.narrow import TABLE
from tests.support.narrow import app as narrow
from tests.support.plans import Session
from tests.support.processes import WorkerProcess
from tests.support.scheduling import Scheduling
from tests.support.wait import until, wait_until

from rota.contrib.testing.clock import Clock
from rota.control import tasks
from rota.control.explain import why
from rota.db.connection import AsyncConn, connect
from rota.engine.standing import Standing
from rota.model.ids import new_id
from rota.model.position import START
from rota.model.retry import Retry
from rota.model.schedule import every, init
from rota.store import runs
from rota.store import tasks as store

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
APP = "tests.support.narrow:app"
VISIT = narrow.tasks["visit"]
QUICK: dict[str, Any] = {"poll_interval_s": 0.05}


def sync(engine: Engine) -> None:
    store.sync(engine.conn, tasks=engine.tasks.values(), queues=["default"])


@pytest.mark.req("C03")
async def test_jobs_wait_and_go_on(engine: Engine, aconn: AsyncConn) -> None:
    @engine.task
    async def work() -> None:
        pass

    @engine.task
    async def other() -> None:
        pass

    sync(engine)
    await tasks.disable_task(aconn, "work", reason="the provider is down", user="ann")
    ids = [engine.enqueue(work) for _ in range(3)]
    late = engine.enqueue(work, delay=timedelta(milliseconds=50))
    [[by_sql]] = engine.conn.execute("SELECT rota.enqueue('work')").fetchall()
    async with engine.worker(**QUICK):
        done = [engine.enqueue(other) for _ in range(5)]
        await engine.ended(*done)
        await until(lambda: engine.count("rota.job WHERE state = 'held'") == 5, what="all of them held")
        assert engine.count("rota.run WHERE task = 'work'") == 0
        explained = await why(aconn, ids[0])
        assert explained.state == "queued"
        assert explained.reasons[0].code == "task_disabled"
        assert "by ann (the provider is down): `rota tasks enable work`" in explained.verdict
        view = await tasks.get_task(aconn, "work")
        assert view.held is not None
        assert view.held.count == 5
        await tasks.enable_task(aconn, "work")
        await engine.ended(*ids, late, by_sql)
    assert (await tasks.get_task(aconn, "work")).held is None


@pytest.mark.req("C03")
async def test_over_restarts_and_for_every_worker(engine: Engine, aconn: AsyncConn) -> None:
    """Also what a stopped, or dead, worker gives back."""
    started = asyncio.Event()

    @engine.task
    async def work() -> None:
        started.set()
        await asyncio.sleep(60)

    sync(engine)
    running = engine.enqueue(work)
    async with engine.worker(**QUICK, shutdown_timeout_s=0.0):
        await started.wait()
        await tasks.disable_task(aconn, "work")
        assert engine.row(running).state == "running", "what runs already may end"
    waiting = [engine.enqueue(work) for _ in range(20)]
    assert engine.row(running).state != "running"
    async with engine.worker(**QUICK), engine.worker(**QUICK), engine.worker(**QUICK):
        await until(lambda: engine.count("rota.job WHERE state = 'held'") == 21, what="all of them held")
        assert all(engine.row(id).attempt == 0 for id in waiting)
        # A rescued job comes back to the ready line: nobody takes it from there.
        engine.conn.execute("UPDATE rota.job SET state = 'queued' WHERE id = %s", [waiting[0]])
        await until(lambda: engine.row(waiting[0]).state == "held", what="held again")
        assert engine.row(waiting[0]).attempt == 0


@pytest.mark.req("C03")
async def test_no_claim_takes_one(engine: Engine, aconn: AsyncConn) -> None:
    """Also before anybody has held it: the claim itself does not see it."""

    @engine.task
    async def work() -> None:
        pass

    @engine.task
    async def other() -> None:
        pass

    sync(engine)
    engine.fill(work, 5)
    engine.fill(other, 1)
    await tasks.disable_task(aconn, "work")
    engine.conn.execute("UPDATE rota.job SET state = 'queued'")
    [run] = await runs.claim(
        aconn, worker=new_id(), tasks="{work,other}", queue="default", limit=10, lease_s=60, after=START, now=0
    )
    assert run.task == "other"


@pytest.mark.req("C03")
async def test_a_great_many_are_in_nobodys_way(engine: Engine, aconn: AsyncConn) -> None:
    @engine.task
    async def work() -> None:
        pass

    @engine.task
    async def other() -> None:
        pass

    sync(engine)
    engine.fill(work, 30_000)
    await tasks.disable_task(aconn, "work")
    async with engine.worker(**QUICK):
        await engine.ended(engine.enqueue(other))
        await until(lambda: engine.count("rota.job WHERE state = 'queued'") == 0, what="no ready job")
        assert engine.count("rota.job WHERE state = 'held'") == 30_000
        await tasks.enable_task(aconn, "work")
        await engine.drained()


@pytest.mark.req("C03")
async def test_limited_jobs_too(engine: Engine, aconn: AsyncConn) -> None:
    @engine.task(max_concurrency=2)
    async def work() -> None:
        pass

    sync(engine)
    ids = [engine.enqueue(work) for _ in range(6)]
    engine.conn.execute("SELECT rota.admit_jobs('{work}')")
    assert engine.count("rota.job WHERE state = 'queued'") == 2
    await tasks.disable_task(aconn, "work")
    assert engine.count("rota.job WHERE state = 'queued'") == 0
    engine.conn.execute("SELECT rota.admit_held()")
    assert engine.count("rota.job WHERE state = 'queued'") == 0
    await tasks.enable_task(aconn, "work")
    async with engine.worker(**QUICK):
        await engine.ended(*ids)


@pytest.mark.req("C03")
async def test_a_retry_of_a_failed_job_waits_too(engine: Engine, aconn: AsyncConn) -> None:
    @engine.task
    async def work() -> None:
        raise ValueError("no")

    id = engine.enqueue(work, max_attempts=1)
    async with engine.worker(**QUICK):
        await engine.ended(id, state="failed")
    await tasks.disable_task(aconn, "work")
    engine.conn.execute("SELECT rota.retry_job(%s)", [id])
    assert engine.row(id).state == "held"


@pytest.mark.req("C03")
async def test_schedules_do_not_fire(engine: Engine, scheduling: Scheduling, clock: Clock, aconn: AsyncConn) -> None:
    clock.freeze(NOON)

    @engine.task
    def work() -> None:
        pass

    sync(engine)
    scheduling.create("beat", every("1h"))
    scheduling.create("first", init)
    engine.conn.execute("SELECT rota.ensure_recurring('work', 'k', '{}', '1 hour')")
    await tasks.disable_task(aconn, "work")
    clock.move(HOUR)
    assert await scheduling.tick() == 0
    assert [line.what for line in scheduling.ledger("beat")] == ["disabled"]
    assert scheduling.next("beat") == NOON + 2 * HOUR, "it keeps its beat"
    assert engine.count() == 0
    [[at]] = engine.conn.execute("SELECT next_run_at FROM rota.schedule WHERE key = 'k'").fetchall()
    assert at == NOON + 2 * HOUR
    assert scheduling.row("beat").last_run_at is None

    await tasks.enable_task(aconn, "work")
    clock.move(HOUR)
    assert await scheduling.tick() == 3
    assert [line.what for line in scheduling.ledger("beat")] == ["disabled", "fired"]
    assert len(scheduling.jobs("first")) == 1, "what runs once ever has waited"


@pytest.mark.req("C02")
async def test_schedules_of_a_task_that_no_code_has(engine: Engine, scheduling: Scheduling, clock: Clock) -> None:
    clock.freeze(NOON)

    @engine.task(listens=("paid",))
    def work() -> None:
        pass

    sync(engine)
    scheduling.create("beat", every("1h"))
    engine.conn.execute("UPDATE rota.task SET apps = '{}', deleted_from_code_at = rota.now()")
    clock.move(HOUR)
    assert await scheduling.tick() == 0
    assert [line.what for line in scheduling.ledger("beat")] == ["not_in_code"]
    assert engine.conn.execute("SELECT rota.emit('paid')").fetchall() == [], "events do not enqueue it either"
    sync(engine)
    clock.move(HOUR)
    assert await scheduling.tick() == 1
    assert len(engine.conn.execute("SELECT rota.emit('paid')").fetchall()) == 1


@pytest.mark.req("C01")
async def test_a_schedule_has_the_default_payload(engine: Engine, scheduling: Scheduling, clock: Clock) -> None:
    clock.freeze(NOON)

    @engine.task(default_payload='{"a": 1, "big": 12345678901234567890}')
    def work(a: int = 0, b: int = 0, big: int = 0) -> None:
        pass

    sync(engine)
    scheduling.create("plain", every("1h"))
    scheduling.create("own", every("1h"), payload={"b": 2, "a": 5})
    clock.move(HOUR)
    assert await scheduling.tick() == 2
    assert scheduling.jobs("plain")[0].payload == {"a": 1, "big": 12345678901234567890}
    assert scheduling.jobs("own")[0].payload == {"a": 5, "b": 2, "big": 12345678901234567890}


@pytest.mark.req("C03")
async def test_settings_that_operators_changed_hold_for_jobs_that_python_enqueued(engine: Engine, aconn: AsyncConn) -> None:
    tried: list[int] = []

    @engine.task(retry=Retry(max_attempts=2, base="1h"), timeout_s=60.0)
    async def work(hang: bool = False) -> None:
        tried.append(1)
        if hang:
            await asyncio.sleep(60)
        raise ValueError("no")

    sync(engine)
    await tasks.set_task(aconn, "work", {"max_attempts": 4, "retry.base": 0, "retry.jitter": 0})
    id = engine.enqueue(work, max_attempts=2)
    async with engine.worker(**QUICK):
        await engine.ended(id, state="failed")
        assert len(tried) == 4, "its own number is that of the code, so the operator's holds"
        own = engine.enqueue(work, max_attempts=1)
        await engine.ended(own, state="failed")
        assert len(tried) == 5, "a number of its own holds"

        await tasks.set_task(aconn, "work", {"max_attempts": 1, "timeout": 0.2})
    async with engine.worker(**QUICK):
        hanging = engine.enqueue(work, {"hang": True}, max_attempts=2)
        await engine.ended(hanging, state="failed")
    [run] = engine.runs(hanging)
    assert run.error["message"] == "Job exceeded timeout of 0.2s"


@pytest.mark.req("C03")
async def test_workers_that_run_learn_of_it(engine: Engine, aconn: AsyncConn) -> None:
    @engine.task(retry=Retry(max_attempts=1))
    async def work() -> None:
        await asyncio.sleep(0.3)

    async with engine.worker(**QUICK):
        await tasks.set_task(aconn, "work", {"timeout": 0.1})
        states = []
        while "failed" not in states:
            id = engine.enqueue(work, max_attempts=1)
            await until(lambda id=id: engine.row(id) is None)  # type: ignore[misc]
            states.append(engine.state(id))
            assert len(states) < 60, "it never learns"


@pytest.mark.req("C03")
async def test_what_a_worker_knows(engine: Engine, aconn: AsyncConn) -> None:
    @engine.task(timeout_s=3.0)
    async def work() -> None:
        pass

    @engine.task(max_concurrency=2)
    async def narrow() -> None:
        pass

    sync(engine)
    standing = Standing(engine.tasks)
    assert standing.limited == {"narrow"}
    await tasks.set_task(aconn, "work", {"max_concurrency": 4, "timeout": None, "retry.cap": "1h"})
    await tasks.set_task(aconn, "narrow", {"max_concurrency": None})
    await standing.look(aconn)
    assert (standing.tasks["work"].timeout_s, standing.tasks["work"].retry.cap) == (None, HOUR)
    assert standing.limited == {"work"}
    await tasks.unset_task(aconn, "work")
    await tasks.unset_task(aconn, "narrow")
    await standing.look(aconn)
    assert standing.tasks == engine.tasks
    assert standing.limited == {"narrow"}


@pytest.mark.req("C03", "S09")
async def test_a_limit_that_an_operator_set(engine: Engine, aconn: AsyncConn) -> None:
    """Of a task that has none in code, whose jobs Python enqueues without one."""
    running = most = 0

    @engine.task
    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    sync(engine)
    await tasks.set_task(aconn, "work", {"max_concurrency": 2})
    engine.fill(work, 60)
    async with engine.worker(**QUICK, concurrency=8), engine.worker(**QUICK, concurrency=8):
        await engine.drained()
        assert most <= 2
        await tasks.unset_task(aconn, "work", ["max_concurrency"])
        most = 0
        engine.fill(work, 200)
        await engine.drained()
    assert engine.count("rota.run WHERE task = 'work' AND final") == 260


@pytest.mark.req("C03")
def test_worker_processes(engine: Engine) -> None:
    """A task that is switched off and on again while four processes are at work."""
    engine.conn.execute(TABLE)
    with ExitStack() as stack:
        for process in [stack.enter_context(WorkerProcess(APP, engine.dsn, concurrency=4)) for _ in range(4)]:
            process.wait_ready()
        for _ in range(300):
            engine.enqueue(VISIT, {"seconds": 0.01})
        wait_until(lambda: engine.count("visit") > 10, what="they are at work")
        engine.conn.execute("SELECT rota.set_task('visit', false, 'ann', 'why')")
        wait_until(lambda: engine.count("rota.job WHERE state IN ('queued', 'running')") == 0, what="what had begun has ended")
        begun = engine.count("visit")
        assert begun < 300, "all were done before: this has shown nothing"
        for _ in range(20):
            engine.enqueue(VISIT, {"seconds": 0.01})
        wait_until(lambda: engine.count("rota.job WHERE state = 'held'") == 320 - begun)
        assert engine.count("visit") == begun, "none has begun since"
        engine.conn.execute("SELECT rota.set_task('visit', true)")
        wait_until(lambda: engine.count() == 0)
    assert engine.count("visit WHERE ended IS NOT NULL") == 320


@pytest.mark.req("C03")
def test_what_it_costs_the_others(engine: Engine) -> None:
    """Workers look at the first few jobs of a queue, and never at all that is ready."""

    @engine.task
    async def work() -> None:
        pass

    @engine.task
    async def off() -> None:
        pass

    sync(engine)
    engine.fill(work, 50_000)
    with connect(engine.dsn, "test") as conn:
        session = Session(conn)
        session.run("SELECT rota.set_aside('default', '{work,off}')")  # what a first call looks up in the catalogue does not count
        pages, scans, [[moved]] = session.read("SELECT rota.set_aside('default', '{work,off}')")
        assert (moved, scans, pages < 300) == (0, [], True), pages
        engine.conn.execute("SELECT rota.set_task('off', false)")
        pages, scans, [[moved]] = session.read("SELECT rota.set_aside('default', '{work,off}')")
        assert (moved, scans, pages < 4000) == (0, [], True), pages
