"""The scheduler: each instant of each schedule makes one job, whoever looks, and what cannot be fired stops nobody else."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.errors import CheckViolation, UniqueViolation
from tests.support.engine import Engine
from tests.support.processes import WorkerProcess
from tests.support.scheduling import Line, Scheduling
from tests.support.wait import NEVER_S, PATIENCE_S, until, wait_until

from rota.contrib.testing.clock import Clock
from rota.db.connection import connect_async
from rota.engine import scheduler as engine_scheduler
from rota.errors import Conflict, NotFound, UsageError
from rota.events import DatabaseLost, ScheduleRefused, SchedulesFired
from rota.model.firing import plan
from rota.model.schedule import cron, every
from rota.store import schedules as store
from rota.store.schedules import Fired

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
MINUTELY = cron("* * * * *")
IS_OURS = "application_name = 'rota scheduler' AND datname = current_database()"


@pytest.fixture(autouse=True)
def noon(clock: Clock) -> Clock:
    """Half a minute to twelve, and time stands still."""
    clock.freeze(NOON - 30 * SECOND)
    return clock


@pytest.mark.req("S01")
async def test_a_schedule_says_everything_about_its_jobs(engine: Engine, scheduling: Scheduling, clock: Clock) -> None:
    timing = cron("0 12 * * mon-fri", tz="Europe/Berlin", misfire="all", catch_up=5, overlap="skip", ends_at=NOON + 99 * HOUR)
    made = scheduling.create("digest", timing, payload={"a": [1]}, queue="mail", priority=-3, max_attempts=7)
    assert made == scheduling.get("digest")
    assert (made.name, made.task, made.strategy, made.timing.cron, made.timing.tz) == (
        "digest", "work", "cron", "0 12 * * mon-fri", "Europe/Berlin",
    )  # fmt: skip
    assert (made.timing, made.enabled, made.max_attempts) == (timing, True, 7)
    assert (made.next_run_at, made.last_run_at) == (NOON + 23 * HOUR, None), "noon in Berlin is eleven in Greenwich"
    clock.move(24 * HOUR)
    assert await scheduling.tick() == 1
    [job] = scheduling.jobs("digest")
    assert (job.task, job.payload, job.queue, job.priority, job.max_attempts) == ("work", {"a": [1]}, "mail", -3, 7)
    assert (job.scheduled_for, job.schedule_id, job.state) == (NOON + 23 * HOUR, made.id, "queued")
    assert job.triggered_by == {"kind": "scheduler", "schedule": "digest"}
    after = scheduling.get("digest")
    assert (after.last_run_at, after.next_run_at) == (NOON + 24 * HOUR - 30 * SECOND, NOON + 47 * HOUR)
    assert scheduling.ledger("digest") == [Line(NOON + 23 * HOUR, None, None, "fired")]


@pytest.mark.req("S01", "S09")
async def test_what_a_schedule_does_not_say_is_the_tasks_own(engine: Engine, scheduling: Scheduling, clock: Clock) -> None:
    @engine.task(queue="slow", priority=4, max_concurrency=1)
    async def work(lang: str = "en") -> str:
        return lang

    async with engine.worker(scheduler=False, queues={"slow": 1}):
        scheduling.create("plain", MINUTELY)
        engine.conn.execute("UPDATE rota.task SET max_attempts = 9")
        clock.move(MINUTE)
        await scheduling.tick()
        [id] = [row.job_id for row in engine.conn.cursor(row_factory=psycopg.rows.namedtuple_row).execute("TABLE rota.occurrence")]
        await engine.ended(id)
    job, [run] = engine.job(id), engine.runs(id)
    assert (job.queue, job.priority, job.max_attempts) == ("slow", 4, 9)
    assert (run.result, run.timeout) == ("en", None), "the payload is empty: the handler's defaults hold"
    clock.move(MINUTE)
    await scheduling.tick()
    [next_job] = scheduling.jobs("plain")
    assert (next_job.limited, next_job.state) == (True, "held"), "the task's limit holds for it too"


@pytest.mark.req("S01", "S04")
@pytest.mark.parametrize(
    "columns",
    [
        {"strategy": "event"}, {"cron": None}, {"cron": "every day"}, {"cron": "* * * *"}, {"every": "1 hour"}, {"name": ""},
        {"name": "a\nb"}, {"payload": "[]"}, {"max_attempts": 0}, {"misfire": "later"}, {"catch_up": 0}, {"catch_up": 10_001},
        {"overlap": "queue"}, {"jitter": "-1 s"}, {"jitter": "2 days"}, {"start_within": "0"}, {"finish_within": "-1 s"},
        {"name": None}, {"starts_at": "2026-01-02", "ends_at": "2026-01-01"}, {"strategy": "interval", "cron": None}, {"key": "k"},
        {"strategy": "interval", "cron": None, "every": "0.5 s"}, {"strategy": "interval", "cron": None, "every": "11 years"},
    ],
    ids=str,
)  # fmt: skip
def test_the_database_refuses_what_makes_no_sense(conn: psycopg.Connection[Any], columns: dict[str, Any]) -> None:
    with pytest.raises(CheckViolation):
        insert(conn, **{"name": "x", **columns})


@pytest.mark.req("S01")
def test_a_name_is_given_once(scheduling: Scheduling) -> None:
    scheduling.create("nightly", MINUTELY)
    with pytest.raises(Conflict, match=r"there is a schedule 'nightly' already: .*rota schedules update nightly"):
        scheduling.create("nightly", every("1h"))
    with pytest.raises(UniqueViolation):
        insert(scheduling.conn, name="nightly")
    with pytest.raises(NotFound, match=r"there is no schedule 'daily': `rota schedules list`"):
        scheduling.set_enabled("daily", True)
    with pytest.raises(UsageError, match="unknown settings of a schedule: colour, strategy"):
        scheduling.update("nightly", colour="red", strategy="init")


@pytest.mark.req("S02")
async def test_a_due_schedule_makes_one_job_and_moves_on(scheduling: Scheduling, clock: Clock) -> None:
    scheduling.create("minutely", MINUTELY)
    assert await scheduling.tick() == 0
    clock.move(30 * SECOND)
    assert await scheduling.tick() == 1, "it is due at noon, not after it"
    assert await scheduling.tick() == 0
    assert scheduling.next("minutely") == NOON + MINUTE
    assert scheduling.fired("minutely") == [NOON]
    assert scheduling.seen(SchedulesFired) == [SchedulesFired(1, 1, 0)]


@pytest.mark.req("S02", "S08")
async def test_many_ticks_at_once_make_one_job(scheduling: Scheduling, clock: Clock) -> None:
    names = [f"schedule {n}" for n in range(7)]
    for n, name in enumerate(names):
        scheduling.create(name, MINUTELY if n % 2 else every("1m", starts_at=NOON))
    async with scheduling.connection() as a, scheduling.connection() as b, scheduling.connection() as c:
        clock.freeze(NOON)
        for minute in range(25):
            made = await asyncio.gather(*(scheduling.scheduler().tick(conn) for conn in (a, b, c)))
            assert sum(made) == len(names), f"minute {minute}"
            clock.move(MINUTE)
    for name in names:
        assert scheduling.fired(name) == [NOON + n * MINUTE for n in range(25)]
        assert {line.what for line in scheduling.ledger(name)} == {"fired"}


@pytest.mark.req("S02", "S08")
@pytest.mark.fault(13)
@pytest.mark.parametrize("lock", [False, True])
def test_many_processes_make_one_job(scheduling: Scheduling, clock: Clock, lock: bool) -> None:
    for n in range(20):
        scheduling.create(f"s{n}", MINUTELY, task="noop")
    workers = [
        WorkerProcess("tests.support.faulty:app", scheduling.dsn, poll_interval_s=0.05, scheduler_lock=lock) for _ in range(3)
    ]
    with workers[0], workers[1], workers[2]:
        for worker in workers:
            worker.wait_ready()
        clock.freeze(NOON)
        is_due = "SELECT FROM rota.schedule WHERE next_run_at <= rota.now()"
        for _ in range(10):
            wait_until(lambda: scheduling.conn.execute(is_due).fetchone() is None)
            clock.move(MINUTE)
    fired = Counter(at for n in range(20) for at in scheduling.fired(f"s{n}"))
    # What was due between the last look and the end may have been fired or not.
    assert {at: fired[at] for at in sorted(fired) if at < NOON + 10 * MINUTE} == {NOON + n * MINUTE: 20 for n in range(10)}


@pytest.mark.req("S02")
async def test_it_wakes_for_the_due_time(engine: Engine, clock: Clock) -> None:
    """Not for its tick, and not for its look at what others have changed."""
    clock.reset()

    @engine.task(schedule=every("1s"))
    async def work() -> None: ...

    async with engine.worker(scheduler_tick_s=NEVER_S, poll_interval_s=NEVER_S):
        fired = "SELECT extract(epoch FROM decided_at - instant)::float8 FROM rota.occurrence"
        await until(lambda: len(engine.conn.execute(fired).fetchall()) >= 5)
    lateness = sorted(row[0] for row in engine.conn.execute(fired).fetchall())
    assert lateness[0] >= 0
    assert lateness[len(lateness) // 2] < 0.5, f"late by {lateness}"
    assert lateness[0] < 0.25, f"late by {lateness}"


@pytest.mark.req("S03")
@pytest.mark.parametrize("meanwhile", ["disabled", "deleted", "fired by another", "changed", "clock set back", "nothing"])
async def test_what_happens_between_the_look_and_the_firing_counts(scheduling: Scheduling, clock: Clock, meanwhile: str) -> None:
    scheduling.create("minutely", MINUTELY)
    clock.move(MINUTE)
    async with scheduling.connection() as conn:
        [due] = await store.due(conn, apps=["default"], limit=10)  # outside a transaction, so nothing is locked
        planned = plan(due.timing, due.due, due.now)
        match meanwhile:
            case "disabled":
                scheduling.set_enabled("minutely", False)
            case "deleted":
                scheduling.delete("minutely")
            case "fired by another":
                await scheduling.tick()
            case "changed":
                scheduling.conn.execute("UPDATE rota.schedule SET next_run_at = %s", [NOON + 10 * SECOND])
            case "clock set back":
                clock.move(-2 * MINUTE)
        before = scheduling.fired("minutely")
        is_fired = meanwhile == "nothing"
        assert await store.fire(conn, [(due, planned)]) == Fired(int(is_fired), int(is_fired), 0)
        assert scheduling.fired("minutely") == before + [NOON] * is_fired


@pytest.mark.req("S03")
async def test_who_disables_while_it_is_fired_waits_and_has_the_last_word(scheduling: Scheduling, clock: Clock) -> None:
    scheduling.create("minutely", MINUTELY)
    clock.move(MINUTE)
    async with scheduling.connection() as conn:
        async with conn.transaction():
            [due] = await store.due(conn, apps=["default"], limit=10)
            disabling = asyncio.create_task(asyncio.to_thread(scheduling.set_enabled, "minutely", False))
            waits = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            async with await connect_async(scheduling.dsn, "test") as other:
                while (await (await other.execute(waits)).fetchone()) is None:
                    assert not disabling.done()
            assert await store.fire(conn, [(due, plan(due.timing, due.due, due.now))]) == Fired(1, 1, 0)
        assert (await disabling).enabled is False
    clock.move(HOUR)
    assert await scheduling.tick() == 0
    assert scheduling.fired("minutely") == [NOON]


@pytest.mark.req("S04")
@pytest.mark.parametrize("next_run_at", [None, NOON])
async def test_what_sql_wrote_and_nobody_understands_is_switched_off(
    scheduling: Scheduling, clock: Clock, next_run_at: datetime | None
) -> None:
    insert(scheduling.conn, name="a bad zone", tz="Mars/Phobos", next_run_at=next_run_at)
    insert(scheduling.conn, name="a bad minute", cron="99 * * * *", next_run_at=next_run_at)
    insert(scheduling.conn, name="a day that never comes", cron="0 0 30 2 *", next_run_at=next_run_at)
    insert(scheduling.conn, name="good", next_run_at=NOON)
    clock.move(MINUTE)
    assert await scheduling.tick() == 1
    assert scheduling.fired("good") == [NOON]
    words = {"a bad zone": "tz='Mars/Phobos'", "a bad minute": "99", "a day that never comes": "never comes"}
    for name, word in words.items():
        row = scheduling.row(name)
        assert (row.enabled, row.last_error["type"]) == (False, "UsageError")
        assert word in row.last_error["message"]
    assert {event.schedule: event.why for event in scheduling.seen(ScheduleRefused)} == {
        name: scheduling.row(name).last_error["message"] for name in words
    }
    assert await scheduling.tick() == 0
    assert len(scheduling.seen(ScheduleRefused)) == 3, "each is told once"
    mended = scheduling.update("a bad zone", tz="Asia/Tokyo", enabled=True)
    assert (mended.enabled, mended.last_error, mended.next_run_at) == (True, None, NOON + MINUTE)


REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM pg_sleep(0.02);
    IF NEW.task = 'bad' THEN {} END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON rota.job FOR EACH ROW EXECUTE FUNCTION refuse();
"""


@pytest.mark.req("S04", "S08")
@pytest.mark.parametrize("how", ["RAISE EXCEPTION 'not this one';", "NEW.state := 'odd';", "NEW.priority := 99999;"])
async def test_a_job_that_the_database_does_not_take_switches_its_own_schedule_off(
    scheduling: Scheduling, clock: Clock, how: str
) -> None:
    """And no other, though three schedulers come upon it at once."""
    scheduling.conn.execute(REFUSE.format(how))
    for n in range(6):
        scheduling.create(f"s{n}", cron("* * * * *"), task="bad" if n == 3 else "good")
    clock.move(MINUTE)
    async with scheduling.connection() as a, scheduling.connection() as b, scheduling.connection() as c:
        made = await asyncio.gather(*(scheduling.scheduler().tick(conn) for conn in (a, b, c)))
    assert sum(made) == 5
    assert [scheduling.row(f"s{n}").enabled for n in range(6)] == [n != 3 for n in range(6)]
    assert [event.schedule for event in scheduling.seen(ScheduleRefused)] == ["s3"]
    assert scheduling.row("s3").last_error["message"] == scheduling.seen(ScheduleRefused)[0].why
    assert scheduling.ledger("s3") == [], "nothing of it is left"


async def test_an_error_that_is_nobodys_fault_switches_nothing_off(engine: Engine, scheduling: Scheduling, clock: Clock) -> None:
    scheduling.conn.execute(REFUSE.format("PERFORM FROM not_there;"))
    scheduling.create("bad", MINUTELY, task="bad")
    clock.move(MINUTE)
    async with engine.worker(poll_interval_s=0.05):
        await until(lambda: [event for event in engine.seen(DatabaseLost) if event.service == "scheduler"])
        assert scheduling.row("bad").enabled
        scheduling.conn.execute("DROP TRIGGER refuse ON rota.job")
        await until(lambda: scheduling.fired("bad") == [NOON])


@pytest.mark.req("S05")
async def test_a_next_time_that_is_missing_is_computed(scheduling: Scheduling, clock: Clock) -> None:
    insert(scheduling.conn, name="cron", cron="0 13 * * *")
    insert(scheduling.conn, name="interval", strategy="interval", cron=None, every="20 min")
    insert(scheduling.conn, name="later", cron="0 * * * *", starts_at=NOON + 5 * HOUR)
    insert(scheduling.conn, name="over", ends_at=NOON - HOUR)
    insert(scheduling.conn, name="off", enabled=False)
    await scheduling.tick()
    begin = NOON - 30 * SECOND
    names = ("cron", "interval", "later", "over", "off")
    assert [scheduling.next(name) for name in names] == [NOON + HOUR, begin + 20 * MINUTE, NOON + 5 * HOUR, None, None]


@pytest.mark.req("S05")
async def test_those_that_have_no_next_time_keep_none_from_having_theirs(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_scheduler, "BATCH", 3)
    for n in range(7):
        insert(scheduling.conn, name=f"ends before it begins {n}", cron="0 0 1 1 *", ends_at=NOON + HOUR)
    insert(scheduling.conn, name="good")
    before = scheduling.row("ends before it begins 0").updated_at
    await scheduling.tick()
    assert scheduling.next("good") == NOON
    assert scheduling.row("ends before it begins 0").updated_at == before


@pytest.mark.req("S05")
async def test_an_instant_right_after_sql_enabled_a_schedule_is_not_lost(scheduling: Scheduling, clock: Clock) -> None:
    """Though the next time is computed some seconds later, by whoever ticks."""
    scheduling.create("minutely", MINUTELY, enabled=False)
    scheduling.conn.execute("SELECT rota.set_schedule('minutely', true)")
    clock.move(40 * SECOND)
    await scheduling.tick()
    assert scheduling.fired("minutely") == [NOON]
    insert(scheduling.conn, name="forgotten")
    scheduling.conn.execute("UPDATE rota.schedule SET updated_at = %s WHERE name = 'forgotten'", [NOON - 99 * HOUR])
    await scheduling.tick()
    assert scheduling.fired("forgotten") == [NOON], "of what came long ago, only what is not late"


@pytest.mark.req("S05")
@pytest.mark.parametrize("how", ["enable", "update", "SQL"])
async def test_enabled_again_a_schedule_goes_on_from_now(scheduling: Scheduling, clock: Clock, how: str) -> None:
    scheduling.create("minutely", cron("*/10 * * * *", misfire="all"))
    clock.freeze(NOON)
    await scheduling.tick()
    off = scheduling.set_enabled("minutely", False)
    assert (off.enabled, off.next_run_at) == (False, NOON + 10 * MINUTE)
    clock.move(HOUR + 5 * MINUTE)
    assert await scheduling.tick() == 0
    assert scheduling.fired("minutely") == [NOON], "its history is kept"
    match how:
        case "enable":
            scheduling.set_enabled("minutely", True)
        case "update":
            scheduling.update("minutely", enabled=True)
        case "SQL":
            assert scheduling.conn.execute("SELECT rota.set_schedule('minutely', true)").fetchone() == (True,)
            await scheduling.tick()
    assert scheduling.next("minutely") == NOON + HOUR + 10 * MINUTE
    now = NOON + HOUR + 5 * MINUTE
    assert scheduling.ledger("minutely") == [
        Line(NOON, None, None, "fired"), Line(NOON + 10 * MINUTE, now, None, "disabled"),
    ]  # fmt: skip
    again = scheduling.set_enabled("minutely", True)
    assert (again.next_run_at, len(scheduling.ledger("minutely"))) == (NOON + HOUR + 10 * MINUTE, 2), "it is on already"
    clock.move(5 * MINUTE)
    await scheduling.tick()
    assert scheduling.fired("minutely") == [NOON, NOON + HOUR + 10 * MINUTE]


@pytest.mark.req("S05")
async def test_enabled_before_it_missed_anything_there_is_nothing_to_tell(scheduling: Scheduling, clock: Clock) -> None:
    scheduling.create("hourly", cron("0 * * * *"), enabled=False)
    clock.move(10 * SECOND)
    assert scheduling.set_enabled("hourly", True).next_run_at == NOON
    assert scheduling.ledger("hourly") == []


@pytest.mark.req("S05")
async def test_a_change_of_times_holds_from_now_and_loses_nothing_that_was_due(scheduling: Scheduling, clock: Clock) -> None:
    scheduling.create("report", cron("0 * * * *"))
    assert scheduling.update("report", cron="30 * * * *").next_run_at == NOON + 30 * MINUTE
    assert scheduling.update("report", every="2h").next_run_at == NOON - 30 * SECOND + 2 * HOUR
    clock.move(MINUTE)
    kept = scheduling.update("report", overlap="skip", payload={"a": 1}, max_attempts=2)
    assert kept.next_run_at == NOON - 30 * SECOND + 2 * HOUR, "its times have not changed"
    clock.freeze(NOON + 3 * HOUR)
    assert scheduling.update("report", cron="0 0 * * *").next_run_at == NOON - 30 * SECOND + 2 * HOUR
    await scheduling.tick()
    assert scheduling.fired("report") == [NOON - 30 * SECOND + 2 * HOUR]
    assert scheduling.next("report") == NOON + 12 * HOUR


@pytest.mark.req("S07")
async def test_a_worker_without_a_scheduler_fires_nothing(engine: Engine, scheduling: Scheduling, clock: Clock) -> None:
    @engine.task(schedule=MINUTELY)
    async def work() -> None: ...

    async with engine.worker(scheduler=False):
        assert scheduling.next("work") == NOON, "it is made known all the same"
        clock.move(HOUR)
        await engine.ended(engine.enqueue(work))
        assert engine.count(f"pg_stat_activity WHERE {IS_OURS}") == 0
        assert (scheduling.next("work"), scheduling.fired("work")) == (NOON, [])
    async with engine.worker():
        await until(lambda: scheduling.fired("work") == [NOON + 59 * MINUTE])
        assert engine.count(f"pg_stat_activity WHERE {IS_OURS}") == 1


@pytest.mark.req("S08")
async def test_with_the_lock_only_its_owner_works(scheduling: Scheduling, clock: Clock) -> None:
    scheduling.create("minutely", MINUTELY)
    owner, other = scheduling.scheduler(lock=True), scheduling.scheduler(lock=True, look_s=0.1)
    async with scheduling.connection() as a, scheduling.connection() as b:
        clock.freeze(NOON)
        assert await owner.tick(a) == 1
        clock.move(4 * SECOND)
        assert await owner.tick(a) == 0, "but it has said that it is there"
        clock.move(7 * SECOND)
        scheduling.conn.execute("UPDATE rota.schedule SET next_run_at = rota.now()")
        assert await other.tick(b) == 0
        clock.move(4 * SECOND)
        assert await other.tick(b) == 1, "the owner has been silent for over ten seconds"
        clock.move(-2 * HOUR)
        assert scheduling.conn.execute("SELECT lock_until > rota.now() + interval '1 hour' FROM rota.lock").fetchone() == (True,)
        scheduling.conn.execute("UPDATE rota.schedule SET next_run_at = rota.now()")
        assert await owner.tick(a) == 1, "a clock that was set back must not make the lock last for hours"
        scheduling.create("another", every("1s"))
        clock.move(5 * SECOND)
        assert await scheduling.tick() >= 1, "who does not ask for the lock works all the same"


@pytest.mark.req("S08")
def test_when_the_owner_of_the_lock_is_killed_another_takes_over(scheduling: Scheduling, clock: Clock) -> None:
    scheduling.create("minutely", MINUTELY, task="noop")
    options: dict[str, Any] = {"poll_interval_s": 0.1, "scheduler_lock": True, "scheduler_tick_s": 3600}
    first, second = (WorkerProcess("tests.support.faulty:app", scheduling.dsn, **options) for _ in range(2))
    owner = "SELECT owner FROM rota.lock WHERE key = 'scheduler'"
    with ExitStack() as stack:
        stack.enter_context(first)
        held = wait_until(lambda: scheduling.conn.execute(owner).fetchone())
        stack.enter_context(second).wait_ready()
        clock.freeze(NOON)
        wait_until(lambda: scheduling.fired("minutely") == [NOON])
        first.kill()
        first.wait()
        clock.move(MINUTE)
        wait_until(lambda: len(scheduling.fired("minutely")) == 2)
        assert scheduling.conn.execute(owner).fetchone() != held


async def test_a_schedule_that_somebody_has_locked_holds_up_no_other(scheduling: Scheduling, clock: Clock) -> None:
    scheduling.create("locked", MINUTELY)
    scheduling.create("free", MINUTELY)
    clock.move(MINUTE)
    with psycopg.connect(scheduling.dsn) as other:
        other.execute("SELECT FROM rota.schedule WHERE name = 'locked' FOR UPDATE")
        assert await scheduling.tick() == 1
        assert scheduling.fired("free") == [NOON]
    assert await scheduling.tick() == 1


async def test_a_tick_that_fails_does_not_keep_what_is_due_waiting(engine: Engine, scheduling: Scheduling, clock: Clock) -> None:
    scheduling.create("minutely", replace(MINUTELY, start_within=MINUTE), task="nobody's")
    clock.move(MINUTE)
    await scheduling.tick()
    clock.move(timedelta(days=40))  # so that there is a deadline to judge, which is not allowed
    scheduling.conn.execute("CREATE RULE keep AS ON UPDATE TO rota.occurrence DO INSTEAD SELECT 1 / 0")
    async with engine.worker(poll_interval_s=0.05, scheduler_tick_s=NEVER_S):
        await until(lambda: [event for event in engine.seen(DatabaseLost) if event.service == "scheduler"])
        await until(lambda: len(scheduling.fired("minutely")) == 2)


async def test_after_an_outage_one_transaction_does_not_do_everything(
    scheduling: Scheduling, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_scheduler, "INSTANTS", 100)
    for n in range(5):
        scheduling.create(f"s{n}", cron("* * * * *", misfire="all", catch_up=60))
    clock.move(59 * MINUTE + 30 * SECOND)
    assert await scheduling.tick() == 300
    assert [event.jobs for event in scheduling.seen(SchedulesFired)] == [120, 120, 60]


@pytest.mark.req("S02", "S06")
async def test_the_time_zone_of_the_session_changes_nothing(
    scheduling: Scheduling, clock: Clock, conn: psycopg.Connection[Any]
) -> None:
    """In Berlin clocks go back on 25 October 2026 at one o'clock UTC: an hour added there may be two."""
    conn.execute(f"ALTER DATABASE {conn.info.dbname} SET timezone = 'Europe/Berlin'")
    change = datetime(2026, 10, 25, 1, 0, tzinfo=UTC)
    clock.freeze(change - 90 * MINUTE)
    scheduling.create("hourly", every("1h", misfire="all", jitter="10m", starts_at=change - HOUR, ends_at=change + 9 * HOUR))
    insert(conn, name="planned", strategy="interval", cron=None, every="1 hour", misfire="all")
    await scheduling.tick()
    clock.move(5 * HOUR)
    await scheduling.tick()
    assert scheduling.fired("hourly") == [change + n * HOUR for n in range(-1, 4)]
    assert scheduling.fired("planned") == [change - 30 * MINUTE + n * HOUR for n in range(5)]
    assert scheduling.next("hourly") == change + 4 * HOUR


@pytest.mark.req("Q13")
async def test_on_stop_the_scheduler_goes_first(engine: Engine, scheduling: Scheduling, clock: Clock) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    @engine.task
    async def work() -> None:
        begun.set()
        await gate.wait()

    scheduling.create("hourly", cron("0 * * * *"))
    worker = engine.make_worker(poll_interval_s=0.05, lease_s=9999)
    running = asyncio.create_task(worker.run())
    id = engine.enqueue(work)
    await begun.wait()
    await until(lambda: engine.count(f"pg_stat_activity WHERE {IS_OURS}") == 1)
    worker.stop()
    await until(lambda: engine.count(f"pg_stat_activity WHERE {IS_OURS}") == 0)
    clock.move(HOUR)
    assert not running.done(), "it lets its job finish"
    gate.set()
    await asyncio.wait_for(running, PATIENCE_S)
    assert engine.state(id) == "completed"
    assert scheduling.fired("hourly") == []


async def test_run_now_and_delete_leave_the_times_alone(scheduling: Scheduling, clock: Clock) -> None:
    scheduling.create("hourly", cron("0 * * * *"), payload={"a": 1}, queue="mail")
    scheduling.run("hourly", user="ada")
    [job] = scheduling.jobs("hourly")
    assert (job.payload, job.queue, job.scheduled_for) == ({"a": 1}, "mail", None)
    assert job.triggered_by == {"kind": "manual", "schedule": "hourly", "user": "ada"}
    assert (scheduling.next("hourly"), scheduling.ledger("hourly")) == (NOON, [])
    clock.move(MINUTE)
    await scheduling.tick()
    scheduling.delete("hourly")
    assert scheduling.conn.execute("SELECT count(*) FROM rota.job").fetchone() == (2,), "its jobs stay"
    assert scheduling.conn.execute("SELECT count(*) FROM rota.occurrence").fetchone() == (0,)
    with pytest.raises(NotFound):
        scheduling.delete("hourly")


async def test_the_ledgers_old_end_is_cut_off(scheduling: Scheduling, clock: Clock) -> None:
    scheduling.create("daily", cron("0 12 * * *"))
    for _ in range(35):
        clock.move(timedelta(days=1))
        await scheduling.tick()
    async with scheduling.connection() as conn:  # as the system task rota.prune does
        assert await store.prune(conn, days=30, limit=100) == 4
    instants = [line.instant for line in scheduling.ledger("daily")]
    assert instants == [NOON + timedelta(days=n) for n in range(4, 35)]


def insert(conn: psycopg.Connection[Any], **columns: Any) -> None:
    """Write a schedule as somebody does who knows SQL and not Rota."""
    columns = {"task": "work", "strategy": "cron", "cron": "* * * * *", **columns}
    names, places = ", ".join(columns), ", ".join(["%s"] * len(columns))
    conn.execute(f"INSERT INTO rota.schedule ({names}) VALUES ({places})", list(columns.values()))
