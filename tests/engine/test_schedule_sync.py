"""Schedules that code defines: what it says is stored when a worker starts, and what an operator has changed stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from tests.support.engine import Engine, spec
from tests.support.postgres import migrate
from tests.support.processes import WorkerProcess
from tests.support.scheduling import Scheduling
from tests.support.wait import until, wait_until

from rota import Rota
from rota.config import load_settings
from rota.contrib.testing.clock import Clock
from rota.db.carriers import PsycopgCarrier
from rota.db.embedded import EmbeddedPostgres
from rota.db.steps import atomically, carry_out
from rota.errors import Conflict, PayloadError, UnknownTask, UsageError
from rota.model.schedule import Timing, cron, every, init
from rota.store import schedule_sync

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
IS_WAITING = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
QUICK = {"poll_interval_s": 0.05}


@pytest.fixture
def noon(clock: Clock) -> Clock:
    """Half a minute to twelve, and time stands still."""
    clock.freeze(NOON - 30 * SECOND)
    return clock


def work() -> None:
    """A handler."""


def start(conn: psycopg.Connection[Any], **timings: Timing) -> None:
    """What a worker of these tasks does with their schedules when it starts."""
    specs = [spec(work, name, schedule=timing) for name, timing in timings.items()]
    carry_out(PsycopgCarrier(conn), atomically(schedule_sync.sync(specs), autocommits=True))


@pytest.mark.req("S05")
def test_a_schedule_in_code_is_made_once(scheduling: Scheduling, noon: Clock) -> None:
    timing = cron("*/10 * * * *", tz="Asia/Tokyo", misfire="all", catch_up=3, overlap="skip", jitter="5s", starts_at=NOON)
    start(scheduling.conn, report=timing)
    first = scheduling.get("report")
    assert (first.task, first.timing, first.payload, first.enabled, first.next_run_at) == ("report", timing, {}, True, NOON)
    noon.move(5 * MINUTE)
    start(scheduling.conn, report=timing)
    assert scheduling.get("report") == first, "nothing is written again, and what is due stays due"


@pytest.mark.req("S05")
def test_what_code_changes_is_changed(scheduling: Scheduling, noon: Clock) -> None:
    start(scheduling.conn, report=cron("0 * * * *"))
    start(scheduling.conn, report=cron("30 * * * *", misfire="skip"))
    changed = scheduling.get("report")
    assert (changed.timing, changed.next_run_at) == (cron("30 * * * *", misfire="skip"), NOON + 30 * MINUTE)
    start(scheduling.conn, report=every("1h"))
    assert scheduling.get("report").timing == every("1h")


@pytest.mark.req("S05", "S10")
def test_an_instant_that_came_during_the_deploy_is_not_lost(scheduling: Scheduling, noon: Clock) -> None:
    start(scheduling.conn, report=cron("0 * * * *"))
    noon.move(MINUTE)
    start(scheduling.conn, report=cron("0 0 * * *"))
    assert (scheduling.get("report").timing.cron, scheduling.next("report")) == ("0 0 * * *", NOON)


@pytest.mark.req("S05")
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_what_an_operator_has_changed_survives(scheduling: Scheduling, noon: Clock, zone: str) -> None:
    scheduling.conn.execute(f"SET timezone = '{zone}'")
    start(scheduling.conn, mine=cron("0 * * * *", starts_at=NOON), code=cron("0 * * * *", starts_at=NOON))
    scheduling.update("mine", cron="15 * * * *", queue="slow")
    scheduling.set_enabled("code", False)
    start(scheduling.conn, mine=cron("0 3 * * *", starts_at=NOON), code=cron("0 3 * * *", starts_at=NOON))
    mine, code = scheduling.get("mine"), scheduling.get("code")
    assert (mine.timing.cron, mine.queue, mine.next_run_at) == ("15 * * * *", "slow", NOON + 15 * MINUTE)
    assert (code.timing.cron, code.enabled) == ("0 3 * * *", False), "its times are still code's, that it is off the operator's"


@pytest.mark.req("S05")
def test_a_schedule_that_an_operator_has_made_under_a_tasks_name_is_the_operators(scheduling: Scheduling, noon: Clock) -> None:
    scheduling.create("report", every("2h"), task="report", payload={"a": 1})
    start(scheduling.conn, report=cron("0 * * * *"))
    assert (scheduling.get("report").timing, scheduling.get("report").payload) == (every("2h"), {"a": 1})


@pytest.mark.req("S05")
def test_two_who_start_at_once_make_one_schedule(scheduling: Scheduling, noon: Clock) -> None:
    """Each in a transaction of its own; the second waits for the first, and finds its work done."""
    with psycopg.connect(scheduling.dsn) as first, psycopg.connect(scheduling.dsn, autocommit=True) as second:
        steps = schedule_sync.sync([spec(work, "report", schedule=cron("0 * * * *"))])
        carry_out(PsycopgCarrier(first), steps)
        waiting = begin(lambda: start(second, report=cron("0 * * * *")))
        wait_until(lambda: scheduling.conn.execute(IS_WAITING).fetchone() is not None)
        first.commit()
        waiting()
    assert scheduling.conn.execute("SELECT name, next_run_at FROM rota.schedule").fetchall() == [("report", NOON)]


@pytest.mark.req("S05")
def test_a_change_by_an_operator_while_a_worker_starts_is_not_overwritten(scheduling: Scheduling, noon: Clock) -> None:
    start(scheduling.conn, report=cron("0 * * * *"))
    with psycopg.connect(scheduling.dsn) as operator, psycopg.connect(scheduling.dsn, autocommit=True) as worker:
        operator.execute("UPDATE rota.schedule SET cron = '15 * * * *'")
        starting = begin(lambda: start(worker, report=cron("0 3 * * *")))
        wait_until(lambda: scheduling.conn.execute(IS_WAITING).fetchone() is not None)
        operator.commit()
        starting()
    assert scheduling.get("report").timing.cron == "15 * * * *"


async def test_two_applications_in_one_database(
    dsn: str, conn: psycopg.Connection[Any], scheduling: Scheduling, noon: Clock
) -> None:
    """Each makes its own schedules; either fires those of both, and each runs its own jobs."""
    ran: list[str] = []
    engines = Engine(dsn, conn), Engine(dsn, conn)
    for engine, name in zip(engines, ("mail", "bills"), strict=True):
        engine.task(name=name, queue=name, schedule=cron("* * * * *"))(lambda name=name: ran.append(name))
    async with engines[0].worker(queues={"mail": 1}, **QUICK), engines[1].worker(queues={"bills": 1}, scheduler=False):
        noon.move(MINUTE)
        await until(lambda: sorted(ran) == ["bills", "mail"])
    assert scheduling.fired("mail") == scheduling.fired("bills") == [NOON]


@pytest.mark.req("S06")
async def test_init_runs_once_ever(engine: Engine, scheduling: Scheduling) -> None:
    ran: list[int] = []

    @engine.task(schedule=init)
    async def setup() -> None:
        ran.append(1)

    for _ in range(3):
        async with engine.worker(**QUICK):
            await until(lambda: scheduling.row("setup").successes == 1)
            await engine.drained()
    async with engine.worker(scheduler_tick_s=0.05, **QUICK), engine.worker(**QUICK):
        for _ in range(3):
            await scheduling.tick()
    assert ran == [1]
    row = scheduling.row("setup")
    assert (row.next_run_at, row.job_id, row.successes, row.enabled) == (None, None, 1, True)


@pytest.mark.req("S06", "S08")
async def test_two_workers_that_boot_at_once_run_an_init_task_once(engine: Engine, scheduling: Scheduling) -> None:
    ran: list[int] = []

    @engine.task(schedule=init)
    async def setup() -> None:
        ran.append(1)

    workers = [engine.make_worker(**QUICK) for _ in range(4)]
    running = [asyncio.create_task(worker.run()) for worker in workers]
    await until(lambda: (row := scheduling.row("setup")) and row.successes == 1)
    await until(lambda: engine.count("rota.worker WHERE backend_pid IS NOT NULL") == 4)
    await scheduling.tick()
    for worker in workers:
        worker.stop()
    await asyncio.gather(*running)
    assert ran == [1]
    assert len(scheduling.fired("setup")) == 1


@pytest.mark.req("S06")
async def test_init_is_tried_again_at_later_starts_until_it_has_succeeded(engine: Engine, scheduling: Scheduling) -> None:
    ran: list[int] = []

    @engine.task(schedule=init)
    async def setup() -> None:
        ran.append(1)
        if len(ran) < 3:
            raise ValueError("not yet")

    engine.tasks["setup"] = spec(setup.handler, "setup", schedule=init, retry=Rota(engine.dsn)._retry_policy(None, 1))
    for n in (1, 2, 3, 3):
        async with engine.worker(scheduler_tick_s=0.05, **QUICK):
            await until(lambda n=n: len(ran) == n and engine.count() == 0)
            await scheduling.tick()
            assert len(ran) == n, "at a start, and not before the next one"
            row = scheduling.row("setup")
            assert (row.successes, row.failures, row.job_id, row.next_run_at) == (n // 3, min(n, 2), None, None)
            assert (row.last_error is None) == (n == 3)


@pytest.mark.req("S06")
async def test_an_init_task_that_is_running_is_not_run_by_the_next_start(engine: Engine, scheduling: Scheduling) -> None:
    gate, ran = asyncio.Event(), list[int]()

    @engine.task(schedule=init)
    async def setup() -> None:
        ran.append(1)
        await gate.wait()

    async with engine.worker(**QUICK):
        await until(lambda: len(ran) == 1)
        async with engine.worker(**QUICK):
            await scheduling.tick()
            assert scheduling.row("setup").job_id is not None
            gate.set()
            await until(lambda: scheduling.row("setup").successes == 1)
    assert ran == [1]


def test_a_schedule_of_an_init_task_has_no_times_to_change(scheduling: Scheduling) -> None:
    start(scheduling.conn, setup=init)
    with pytest.raises(UsageError, match="'setup' is of an init task, which has no times: cron cannot be changed"):
        scheduling.update("setup", cron="* * * * *")
    assert scheduling.set_enabled("setup", False).enabled is False
    assert scheduling.set_enabled("setup", True).next_run_at is not None, "it has not run yet"


@pytest.mark.req("S04")
def test_the_library_refuses_what_could_not_run(dsn: str) -> None:
    with Rota(dsn) as app:

        @app.task
        def greet(name: str, at: int = 9) -> None: ...

        with pytest.raises(UnknownTask, match=r"there is no task 'great': .*greet"):
            app.schedules.create("daily", "great", cron("0 9 * * *"))
        for payload in (
            {},
            {"name": 7, "at": "x"},
            {"name": "Ada", "when": 1},
            {"name": "\0"},
            {"name": "Ada", "at": float("nan")},
        ):
            with pytest.raises(PayloadError):
                app.schedules.create("daily", "greet", cron("0 9 * * *"), payload=payload)
        for name in ("", " a", "a/b", "a\n", "x" * 201, "\ud800", None, "rota.tick"):
            with pytest.raises(UsageError, match="name="):
                app.schedules.create(name, "greet", cron("0 9 * * *"), payload={"name": "Ada"})  # type: ignore[arg-type]
        for options in ({"queue": "Not One"}, {"priority": 40_000}, {"max_attempts": 0}):
            with pytest.raises(UsageError):
                app.schedules.create("daily", "greet", cron("0 9 * * *"), payload={"name": "Ada"}, **options)  # type: ignore[arg-type]
        assert app.schedules.create("daily", "greet", cron("0 9 * * *"), payload={"name": "Ada"}).payload == {"name": "Ada"}
        with pytest.raises(Conflict):
            app.schedules.create("daily", "greet", every("1h"), payload={"name": "Ada"})
        with pytest.raises(PayloadError):
            app.schedules.update("daily", payload={"name": "Ada", "when": 1})
        with pytest.raises(UnknownTask):
            app.schedules.update("daily", task="great")
        assert app.schedules.update("daily", payload={"name": "Bob"}, cron="@hourly").payload == {"name": "Bob"}


@pytest.mark.req("S07")
def test_the_setting_is_what_decides_about_the_scheduler(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for value, expected in (("false", False), ("true", True)):
        monkeypatch.setenv("ROTA_JOBS_SCHEDULER_ENABLED", value)
        with Rota(settings=load_settings(database_url=dsn)) as app:
            assert app.worker().options.scheduler is expected


@pytest.mark.req("S02")
@pytest.mark.fault(7)
def test_schedules_go_on_when_the_server_was_restarted(own_postgres: EmbeddedPostgres) -> None:
    dsn = own_postgres.dsn()
    migrate(dsn)
    with psycopg.connect(dsn, autocommit=True) as conn:
        Scheduling(dsn, conn).create("often", every("1s", misfire="all"), task="noop")
    with WorkerProcess("tests.support.faulty:app", dsn) as worker:
        for _ in range(2):
            _grows(dsn)
            own_postgres.restart("immediate")
        _grows(dsn)
        assert worker.code is None
    with psycopg.connect(dsn, autocommit=True) as conn:
        scheduling = Scheduling(dsn, conn)
        fired = scheduling.fired("often")
        assert fired == [fired[0] + n * SECOND for n in range(len(fired))], "none is missing, none is there twice"
        assert [line.instant for line in scheduling.ledger("often")] == fired


def _grows(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        before = len(Scheduling(dsn, conn).ledger("often"))
        wait_until(lambda: len(Scheduling(dsn, conn).ledger("often")) >= before + 2, 40)


def begin(call: Callable[[], None]) -> Callable[[], None]:
    """Begin something that waits for somebody else; what is given back waits for its end."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(call)
    pool.shutdown(wait=False)
    return lambda: future.result(20)
