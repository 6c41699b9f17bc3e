"""Schedules that code defines: what it says is stored when a worker starts, and what an operator has changed stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from tests.support.engine import Engine, spec
from tests.support.postgres import migrate
from tests.support.processes import WorkerProcess
from tests.support.scheduling import Scheduling
from tests.support.wait import until, wait_until

from rota import Retry, Rota
from rota.config import load_settings
from rota.contrib.testing.clock import Clock
from rota.db.carriers import PsycopgCarrier
from rota.db.embedded import EmbeddedPostgres
from rota.db.steps import atomically, carry_out
from rota.engine import scheduler
from rota.errors import Conflict, NotFound, PayloadError, UnknownTask, UsageError
from rota.model.schedule import Timing, cron, every, init
from rota.model.task import TaskSpec
from rota.model.task_meta import with_meta
from rota.store import schedule_sync, task_sync

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


@pytest.mark.req("S06", "T12")
async def test_init_without_run_once_runs_at_each_sync(engine: Engine, scheduling: Scheduling) -> None:
    ran: list[int] = []

    async def warm() -> None:
        ran.append(1)

    engine.tasks["warm"] = with_meta(spec(warm, schedule=init), run_once=False)
    assert not engine.tasks["warm"].run_once
    for n in (1, 2, 3):
        async with engine.worker(scheduler_tick_s=0.05, **QUICK):
            await until(lambda n=n: scheduling.row("warm").successes == n)
            await scheduling.tick()
            assert len(ran) == n, "at a start, and not before the next one"
    scheduling.set_enabled("warm", False)
    async with engine.worker(**QUICK):
        await scheduling.tick()
    assert len(ran) == 3


def test_run_once_is_for_init_tasks_only() -> None:
    for schedule, value in ((None, True), (every("1h"), False), (init, 1)):
        with pytest.raises(UsageError, match=r"run_once=.* of task 'work' is not allowed: .*schedule=init"):
            with_meta(spec(work, schedule=schedule), run_once=value)


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

    engine.tasks["setup"] = spec(setup.handler, "setup", schedule=init, retry=Retry(max_attempts=1))
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


def deploy(conn: psycopg.Connection[Any], *specs: TaskSpec, force: Collection[str] = ()) -> None:
    """Write tasks and their schedules to the database, as the start of a worker and `rota tasks sync` do."""
    for steps in (task_sync.sync(specs, force=force), schedule_sync.sync(specs, force=force)):
        carry_out(PsycopgCarrier(conn), atomically(steps, autocommits=True))


class TestDeletedSchedules:
    @pytest.mark.req("B01", "T12")
    def test_a_deleted_default_schedule_stays_deleted_until_it_is_restored(self, scheduling: Scheduling, noon: Clock) -> None:
        report = spec(work, "report", schedule=cron("0 * * * *", starts_at=NOON, jitter="5s"))
        deploy(scheduling.conn, report)
        scheduling.delete("report")
        deploy(scheduling.conn, report)
        deploy(scheduling.conn, replace(report, schedule=cron("30 * * * *")))
        assert scheduling.row("report") is None
        restored = scheduling.restore("report")
        assert (restored.timing, restored.next_run_at, restored.enabled) == (cron("30 * * * *"), NOON + 30 * MINUTE, True)
        deploy(scheduling.conn, report)
        assert scheduling.get("report").timing == report.schedule, "restored, it follows the code again"
        with pytest.raises(Conflict, match="schedule 'report' exists: `rota tasks sync report --force`"):
            scheduling.restore("report")

    @pytest.mark.req("B01")
    def test_a_forced_sync_brings_it_back(self, scheduling: Scheduling, noon: Clock) -> None:
        report, other = (spec(work, name, schedule=every("1h")) for name in ("report", "other"))
        deploy(scheduling.conn, report, other)
        scheduling.delete("report")
        scheduling.delete("other")
        deploy(scheduling.conn, report, other, force=["report"])
        assert (scheduling.get("report").timing, scheduling.row("other")) == (every("1h"), None)
        scheduling.delete("report")
        deploy(scheduling.conn, spec(work, "report"), force=["report"])  # code has taken it back meanwhile
        deploy(scheduling.conn, report)
        assert scheduling.get("report").timing == every("1h")

    def test_schedules_that_code_does_not_define_cannot_be_restored(self, scheduling: Scheduling, noon: Clock) -> None:
        deploy(scheduling.conn, spec(work, "report"))
        scheduling.create("report", every("2h"), task="report")
        scheduling.delete("report")
        for name in ("report", "nothing"):
            with pytest.raises(NotFound, match=f"schedule '{name}' is not defined in code"):
                scheduling.restore(name)
        deploy(scheduling.conn, spec(work, "report", schedule=every("1h")))
        assert scheduling.get("report").timing == every("1h"), "an operator's own schedule leaves no mark"


class TestFirstSchedules:
    @pytest.mark.req("C03", "T12")
    def test_updating_the_schedule_of_a_task_without_one_creates_it(self, scheduling: Scheduling, noon: Clock) -> None:
        deploy(scheduling.conn, spec(work, "report"), spec(work, "tidy"))
        made = scheduling.update("report", cron="15 * * * *", tz="Asia/Tokyo", queue="slow")
        assert (made.task, made.timing, made.queue, made.next_run_at) == (
            "report", cron("15 * * * *", tz="Asia/Tokyo"), "slow", NOON + 15 * MINUTE,
        )  # fmt: skip
        assert scheduling.update("tidy", every="10m").timing == every("10m")
        assert scheduling.update("report", cron="0 3 * * *").timing.cron == "0 3 * * *", "from then on it is changed like any other"
        deploy(scheduling.conn, spec(work, "report", schedule=every("1h")), spec(work, "tidy"))
        assert scheduling.get("report").timing.cron == "0 3 * * *", "it is the operator's"

    def test_what_makes_no_schedule(self, scheduling: Scheduling, noon: Clock) -> None:
        deploy(scheduling.conn, spec(work, "report"), spec(work, "setup", schedule=init), spec(work, "other"))
        scheduling.delete("setup")
        for name, changes in (
            ("nothing", {"every": "1h"}),
            ("report", {"enabled": False}),
            ("report", {"every": "1h", "task": "other"}),
        ):
            with pytest.raises(NotFound, match=f"there is no schedule '{name}'"):
                scheduling.update(name, **changes)
        with pytest.raises(UsageError, match="task 'setup' is init and cannot have times"):
            scheduling.update("setup", every="1h")
        with pytest.raises(UsageError, match="give cron or every, not both"):
            scheduling.update("report", every="1h", cron="* * * * *")


@pytest.mark.req("S02", "T12")
async def test_schedules_of_a_higher_priority_fire_first(scheduling: Scheduling, noon: Clock) -> None:
    """More are due at once than one batch fires, and the urgent ones were planned last."""
    low, high = spec(work, "low", priority=5), spec(work, "high", priority=-5)
    deploy(scheduling.conn, low, high)
    for n in range(scheduler.BATCH):
        scheduling.create(f"low{n}", every("1h", starts_at=NOON), task="low")
    for n in range(3):
        scheduling.create(f"high{n}", every("1h", starts_at=NOON + SECOND), task="high")
    scheduling.create("own", every("1h", starts_at=NOON + SECOND), task="low", priority=-9)
    noon.move(MINUTE)
    async with scheduling.connection() as conn:
        await scheduling.scheduler().run_once(conn)
    assert all(scheduling.fired(name) for name in ("high0", "high1", "high2", "own"))
    assert sum(bool(scheduling.fired(f"low{n}")) for n in range(scheduler.BATCH)) == scheduler.BATCH - 4


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
        wait_until(lambda: len(Scheduling(dsn, conn).ledger("often")) >= before + 2)


def begin(call: Callable[[], None]) -> Callable[[], None]:
    """Begin something that waits for somebody else; what is given back waits for its end."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(call)
    pool.shutdown(wait=False)
    return lambda: future.result(20)
