"""A job whose task no live worker knows waits, uncharged, and fails only after `jobs.unknown_task_after`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from importlib.resources import files
from typing import Any

import pytest
from tests.support.engine import Engine
from tests.support.plans import Session
from tests.support.wait import until

from rota.config import AlertSettings
from rota.contrib.testing.clock import Clock
from rota.control import alerts, service
from rota.control.explain import why
from rota.db.connection import AsyncConn, connect
from rota.engine.holdings import Holdings
from rota.engine.options import WorkerOptions
from rota.engine.postgres import PostgresSession, PostgresTransport
from rota.engine.unknown_tasks import UnknownTasks, unknown_error
from rota.events import Events, RunRefused, UnknownFailed
from rota.model.ids import new_id
from rota.model.position import START
from rota.store import tasks as store
from rota.store.runs import SQL

QUICK: dict[str, Any] = {"poll_interval_s": 0.05}
SET_ASIDE = "rota.job WHERE line LIKE 'unknown %%'"


@pytest.fixture
def other(engine: Engine) -> Engine:
    """The workers of the next deploy, or of another application, on the same database."""
    return Engine(engine.dsn, engine.conn)


@pytest.fixture
async def session(engine: Engine) -> AsyncIterator[PostgresSession]:
    """A session of a worker that knows the tasks `old` and `limited`."""
    session = await PostgresTransport(engine.dsn, new_id(), versions={"old": "v1", "limited": "v1"}).open("test")
    yield session
    await session.close()


def define(engine: Engine, name: str, **settings: Any) -> None:
    async def handler() -> None: ...

    handler.__name__ = name
    engine.task(handler, **settings)


def unknown_for(seconds: float) -> UnknownTasks:
    return UnknownTasks(WorkerOptions(unknown_task_after_s=seconds), Holdings(), Events())


async def set_aside(engine: Engine, count: int = 1) -> None:
    await until(lambda: engine.count(SET_ASIDE) == count, what="jobs of the unknown task are set aside")


@pytest.mark.req("T01", "Q14")
@pytest.mark.fault(26)
async def test_a_job_waits_uncharged_for_a_worker_that_knows_its_task(engine: Engine, other: Engine) -> None:
    define(engine, "old")
    define(other, "new")
    async with engine.worker(**QUICK):
        id = engine.enqueue("new", max_attempts=1)
        await set_aside(engine)
        await engine.ended(engine.enqueue("old"))
        assert (engine.job(id).state, engine.job(id).attempt, engine.outcomes(id)) == ("queued", 0, [])
        async with other.worker(**QUICK):
            await engine.ended(id)
    assert [(run.outcome, run.attempt) for run in engine.runs(id)] == [("completed", 1)]
    assert engine.count("rota.unknown_task") == 0


@pytest.mark.req("T02")
async def test_two_workers_that_share_a_queue_claim_only_their_own_tasks(engine: Engine, other: Engine) -> None:
    define(engine, "shop")
    define(other, "billing")
    ids = [engine.enqueue(name, max_attempts=1) for _ in range(50) for name in ("shop", "billing")]
    async with engine.worker(app="shop", **QUICK), other.worker(app="billing", **QUICK):
        await engine.ended(*ids)
    assert {run.attempt for id in ids for run in engine.runs(id)} == {1}
    workers = dict(engine.conn.execute("SELECT app, id FROM rota.worker").fetchall())
    ran_by = engine.conn.execute("SELECT DISTINCT task, worker_id FROM rota.run").fetchall()
    assert sorted(ran_by) == sorted(workers.items())


@pytest.mark.req("T01")
async def test_why_names_the_task_that_no_live_worker_knows(engine: Engine, other: Engine, aconn: AsyncConn) -> None:
    define(engine, "old")
    define(other, "new", queue="mail")
    async with engine.worker(**QUICK):
        id = engine.enqueue("new")
        await set_aside(engine)
        explanation = await why(aconn, id)
        assert [reason.code for reason in explanation.reasons] == ["task_unknown"]
        assert explanation.verdict.startswith("No live worker knows task 'new'.")
        assert "deploy workers with the code that has it" in explanation.verdict
        async with other.worker(queues={"mail": 1}, **QUICK):
            explanation = await why(aconn, id)
            assert "of queue 'default' knows task 'new'; workers that know it serve mail only" in explanation.verdict


@pytest.mark.req("T01", "O03")
async def test_an_alert_opens_after_a_minute_and_resolves_when_a_worker_comes(
    engine: Engine, other: Engine, aconn: AsyncConn
) -> None:
    define(engine, "old")
    define(other, "new")

    async def kinds() -> list[tuple[str, str]]:
        await alerts.look_at_conditions(aconn, AlertSettings())
        return [(alert.kind, alert.subject) for alert in await alerts.list_alerts(aconn, kind="task_unknown")]

    async with engine.worker(**QUICK):
        id = engine.enqueue("new")
        await set_aside(engine)
        assert await kinds() == []
        Clock(engine.conn).move(timedelta(seconds=61))
        assert await kinds() == [("task_unknown", "new")]
        async with other.worker(**QUICK):
            await engine.ended(id)
            assert await kinds() == []


@pytest.mark.req("Q14")
async def test_at_once_where_the_patience_is_zero(engine: Engine) -> None:
    define(engine, "send_mail")
    store.sync(engine.conn, tasks=engine.tasks.values(), queues=["default"])
    async with engine.worker(unknown_task_after_s=0, **QUICK):
        id = engine.enqueue("send_mial")
        await engine.ended(id, state="failed")
        await engine.ended(engine.enqueue("send_mail"))
        assert [(event.task, event.count) for event in engine.seen(UnknownFailed)] == [("send_mial", 1)]
    [run] = engine.runs(id)
    assert run.error["type"] == "UnknownTask"
    assert (run.error["task"], run.error["nearest"]) == ("send_mial", ["send_mail"])
    assert "'send_mial'" in run.error["message"]


@pytest.mark.req("Q14", "T01")
async def test_only_time_with_a_live_worker_of_the_application_counts(engine: Engine, session: PostgresSession) -> None:
    clock, unknown = Clock(engine.conn), unknown_for(100)
    id = engine.enqueue("new")
    assert await session.set_aside("default") == 1
    for _ in range(4):
        await unknown.fail_overdue(session)
        clock.move(timedelta(seconds=20))
    clock.move(timedelta(days=2))  # a weekend without workers
    for _ in range(2):
        await unknown.fail_overdue(session)
        assert engine.state(id) == "queued"
        clock.move(timedelta(seconds=20))
    for _ in range(2):
        await unknown.fail_overdue(session)
        clock.move(timedelta(seconds=20))
    await unknown.fail_overdue(session)
    assert engine.state(id) == "failed"


@pytest.mark.req("Q14")
async def test_what_came_later_has_patience_of_its_own(engine: Engine, session: PostgresSession) -> None:
    clock, unknown = Clock(engine.conn), unknown_for(100)
    first = engine.enqueue("new")
    await session.set_aside("default")
    for _ in range(5):
        await unknown.fail_overdue(session)
        clock.move(timedelta(seconds=20))
    second = engine.enqueue("new")
    await session.set_aside("default")
    await unknown.fail_overdue(session)
    assert (engine.state(first), engine.state(second)) == ("failed", "queued")


@pytest.mark.req("Q14", "T02")
async def test_a_task_of_another_application_is_left_to_that_one(engine: Engine, session: PostgresSession) -> None:
    define(engine, "shops")
    store.sync(engine.conn, tasks=engine.tasks.values(), queues=["default"], app="shop")
    id = engine.enqueue("shops")
    await session.set_aside("default")
    await unknown_for(0).fail_overdue(session)
    assert engine.state(id) == "queued", "it is not this application's to judge, however short its patience"
    shop = await PostgresTransport(engine.dsn, new_id(), versions={}, app="shop").open("test")
    await unknown_for(0).fail_overdue(shop)
    await shop.close()
    assert engine.state(id) == "failed"


@pytest.mark.req("Q14", "Q19")
async def test_children_hear_of_it(engine: Engine, session: PostgresSession) -> None:
    parent = engine.enqueue("new")
    child = engine.enqueue("old", parents=[parent], on_parent_failure="fail")
    await session.set_aside("default")
    await unknown_for(0).fail_overdue(session)
    assert (engine.state(parent), engine.state(child)) == ("failed", "failed")


@pytest.mark.req("T01", "S09")
async def test_limits_hold_for_what_comes_back(engine: Engine, session: PostgresSession) -> None:
    define(engine, "limited", max_concurrency=1)
    store.sync(engine.conn, tasks=engine.tasks.values(), queues=["default"])
    for _ in range(3):
        engine.enqueue(engine.tasks["limited"])
    engine.conn.execute("UPDATE rota.job SET state = 'queued'")
    stranger = PostgresSession(session.conn, new_id(), tasks="{old}")
    assert await stranger.set_aside("default") == 3
    assert await session.take_back(["mail"], free=4) == 0
    assert await session.take_back(["default"], free=4) == 3
    await session.promote()
    assert len(await session.claim("default", 3, lease_s=60)) == 1


@pytest.mark.req("T01")
async def test_a_task_is_not_forgotten_while_its_jobs_are_being_set_aside(engine: Engine, session: PostgresSession) -> None:
    """The worker that knows it looks before those who set jobs aside have committed."""
    engine.enqueue("old")
    with connect(engine.dsn, "test") as own, own.transaction():
        own.execute("SELECT rota.set_aside('default', '{none}')")
        assert await session.take_back(["default"], free=4) == 0
    assert await session.take_back(["default"], free=4) == 1
    assert engine.count("rota.unknown_task") == 1
    assert await session.take_back(["default"], free=4) == 0
    assert engine.count("rota.unknown_task") == 0


@pytest.mark.req("T02")
async def test_what_another_live_worker_knows_stays_in_line(engine: Engine, session: PostgresSession) -> None:
    engine.conn.execute(
        """INSERT INTO rota.worker (id, host, pid, version, queues, tasks, schemas, slots)
           VALUES (%s, 'b', 1, '1', '{default}', '{new}', '{v1}', 4)""",
        [new_id()],
    )
    engine.fill("new", 20)
    engine.fill("old", 3)
    assert await session.set_aside("default") == 0
    assert [run.task for run in await session.claim("default", 10, lease_s=60)] == ["old"] * 3
    engine.conn.execute("UPDATE rota.worker SET stopped_at = rota.now()")
    assert await session.set_aside("default") == 20


@pytest.mark.req("T02")
async def test_unknown_jobs_at_the_head_cost_claims_nothing_once_set_aside(engine: Engine, session: PostgresSession) -> None:
    claim = {"worker": new_id(), "tasks": "{old}", "queue": "default", "limit": 10, "lease_s": 60}
    after = {"priority": START.priority, "run_at": START.run_at, "id": START.id}
    engine.fill("new", 20_000)
    engine.fill("old", 10)
    while await session.set_aside("default"):
        pass
    engine.conn.execute("VACUUM ANALYZE rota.job")
    with connect(engine.dsn, "test") as conn:
        pages, _, rows = Session(conn).read(SQL["runs_claim"], claim | after)
    assert (len(rows), pages < 1000) == (10, True), pages


@pytest.mark.req("Q14")
def test_the_error_says_how_long_and_what_is_near() -> None:
    error = unknown_error("send_mial", ["send_mail", "digest"], 86400)
    assert error["message"] == "no live worker has known task 'send_mial' for 24 h; the nearest known tasks are send_mail"
    assert unknown_error("x", [], 0)["message"] == "no live worker has known task 'x'"


class TestVersions:
    """Workers of two versions of a task, whose payloads differ."""

    @pytest.fixture
    def old(self, engine: Engine) -> Engine:
        @engine.task
        async def send(user_id: int) -> None: ...

        return engine

    @pytest.fixture
    def new(self, other: Engine) -> Engine:
        @other.task
        async def send(address: str) -> None: ...

        return other

    @pytest.mark.req("V04")
    async def test_a_payload_is_left_uncharged_to_the_version_that_accepts_it(self, old: Engine, new: Engine) -> None:
        payloads: list[dict[str, Any]] = [{"user_id": 1}, {"address": "ann@example.org"}]
        async with old.worker(**QUICK), new.worker(**QUICK):
            ids = [old.enqueue("send", payload, max_attempts=1) for payload in payloads * 15]
            await old.ended(*ids)
        assert {(run.outcome, run.attempt) for id in ids for run in old.runs(id)} == {("completed", 1)}

    @pytest.mark.req("V04", "T01")
    async def test_a_payload_waits_for_the_version_that_was_synced_last(self, old: Engine, new: Engine, aconn: AsyncConn) -> None:
        """Deployed and enqueued by the web process, before any worker of the new version is there."""
        async with old.worker(**QUICK):
            store.sync(new.conn, tasks=new.tasks.values(), queues=["default"])
            id = old.enqueue("send", {"address": "ann@example.org"}, max_attempts=1)
            await set_aside(old)
            explanation = await why(aconn, id)
            assert [reason.code for reason in explanation.reasons] == ["payload_refused"]
            async with new.worker(**QUICK):
                await new.ended(id)
        assert [run.attempt for run in old.runs(id)] == [1]

    @pytest.mark.req("V04")
    async def test_a_payload_that_fits_the_only_version_no_more_fails_as_before(self, old: Engine) -> None:
        store.sync(old.conn, tasks=old.tasks.values(), queues=["default"])
        async with old.worker(**QUICK):
            id = old.enqueue("send", {"nobody": 1}, max_attempts=1)
            await old.ended(id, state="failed")
        [run] = old.runs(id)
        assert (run.error["type"], run.attempt) == ("PayloadError", 1)

    @pytest.mark.req("V04", "Q14")
    async def test_a_payload_that_no_version_accepts_does_not_go_round(self, old: Engine, new: Engine) -> None:
        async with old.worker(**QUICK), new.worker(**QUICK):
            id = old.enqueue("send", {"nobody": 1}, max_attempts=1)
            await until(lambda: len((old.job(id).last_error or {}).get("refused_by", [])) == 2)
            assert (old.job(id).state, old.job(id).attempt, old.outcomes(id)) == ("queued", 0, [])
            refusals = [event.run.id for event in old.seen(RunRefused) + new.seen(RunRefused)].count(str(id))
            await old.ended(*[old.enqueue("send", payload) for payload in ({"user_id": 1}, {"address": "ann@example.org"})])
            assert [event.run.id for event in old.seen(RunRefused) + new.seen(RunRefused)].count(str(id)) == refusals
            assert old.count(SET_ASIDE) == 1

    @pytest.mark.req("V04", "Q10")
    async def test_a_retry_lets_every_version_try_again(self, old: Engine, session: PostgresSession, aconn: AsyncConn) -> None:
        id = old.enqueue("send", {"user_id": 1})
        old.conn.execute(
            """UPDATE rota.job SET state = 'held', limited = true, line = rota.unknown_line(queue, task, '{v1}'),
                      last_error = '{"type": "PayloadError", "refused_by": ["v1"]}'"""
        )
        await service.retry_job(aconn, id)
        mine = PostgresSession(session.conn, new_id(), tasks="{send}", versions="{v1}")
        assert [run.task for run in await mine.claim("default", 1, lease_s=60)] == ["send"]
        assert "refused_by" not in old.job(id).last_error

    @pytest.mark.req("V04")
    async def test_a_worker_takes_back_no_more_refused_jobs_than_it_has_slots_for(
        self, old: Engine, session: PostgresSession
    ) -> None:
        """Others may claim and refuse them again."""
        old.fill("old", 5)
        old.conn.execute("UPDATE rota.job SET state = 'held', limited = true, line = rota.unknown_line(queue, task, '{v0}')")
        old.conn.execute("INSERT INTO rota.unknown_task (queue, task, refused_by) VALUES ('default', 'old', '{v0}')")
        assert [await session.take_back(["default"], free=free) for free in (0, 2, 4, 4)] == [0, 2, 3, 0]


@pytest.mark.req("T01", "S09")
async def test_unknown_jobs_do_not_take_the_places_of_a_limited_queue(engine: Engine, other: Engine) -> None:
    define(engine, "old")
    define(other, "new")
    engine.conn.execute("INSERT INTO rota.queue (name, max_concurrency) VALUES ('default', 1)")
    for name, count in (("new", 1000), ("old", 1)):
        insert = "INSERT INTO rota.job (id, task, limited, state) SELECT rota.uuid7(), %s, true, 'held' FROM generate_series(1, %s)"
        engine.conn.execute(insert, [name, count])
    async with engine.worker(**QUICK):
        await until(lambda: engine.count("rota.job WHERE task = 'old'") == 0, what="the known job has run")
        await set_aside(engine, 1000)


@pytest.mark.req("F03")
async def test_a_version_without_unknown_tasks_finds_their_jobs(engine: Engine, session: PostgresSession) -> None:
    engine.enqueue("new")
    await session.set_aside("default")
    down = files("rota.db.schema").joinpath("0020_unknown_tasks.down.sql").read_text("utf-8")
    engine.conn.execute(down.encode())
    assert engine.conn.execute("SELECT state, line FROM rota.job").fetchall() == [("held", None)]
