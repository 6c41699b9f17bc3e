"""What a schedule does when the world is not as planned: downtime, jobs that take too long, clocks that are set."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from tests.support.engine import Engine
from tests.support.scheduling import Line, Scheduling
from tests.support.wait import until

from rota.contrib.testing.clock import Clock
from rota.events import DeadlineMissed
from rota.model.schedule import Overlap, cron, every

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SECOND, MINUTE, HOUR, WEEK = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=7)
LONG = {"lease_s": 1e6, "poll_interval_s": 0.05}  # a lease that outlasts every move of the clock


@pytest.fixture(autouse=True)
def noon(clock: Clock) -> Clock:
    """Half a minute to twelve, and time stands still."""
    clock.freeze(NOON - 30 * SECOND)
    return clock


@pytest.mark.req("S10")
@pytest.mark.fault(13)
@pytest.mark.parametrize(
    ("policy", "late", "fired", "reason"),
    [
        ({"misfire": "latest"}, 30 * SECOND, 1, "outage"),
        ({"misfire": "skip"}, 30 * SECOND, 1, "misfire"),
        ({"misfire": "all"}, 30 * SECOND, 100, "outage"),
        ({"misfire": "all", "catch_up": 3}, 30 * SECOND, 3, "outage"),
    ],
)
async def test_a_week_of_downtime_every_minute(
    scheduling: Scheduling, clock: Clock, policy: dict[str, Any], late: timedelta, fired: int, reason: str
) -> None:
    scheduling.create("minutely", cron("* * * * *", **policy))
    clock.freeze(NOON + WEEK + late)
    assert await scheduling.tick() == fired
    newest = [NOON + WEEK - n * MINUTE for n in reversed(range(fired))]
    assert scheduling.fired("minutely") == newest
    missed = Line(NOON, newest[0] - MINUTE, 7 * 1440 + 1 - fired, reason)
    assert scheduling.ledger("minutely") == [missed, *(Line(at, None, None, "fired") for at in newest)]
    assert scheduling.next("minutely") == NOON + WEEK + MINUTE
    assert await scheduling.tick() == 0
    clock.move(MINUTE)
    assert await scheduling.tick() == 1, "and it goes on"


@pytest.mark.req("S10")
async def test_with_skip_nothing_that_is_late_is_fired(scheduling: Scheduling, clock: Clock) -> None:
    scheduling.create("hourly", cron("0 * * * *", misfire="skip"))
    clock.freeze(NOON + WEEK + 10 * MINUTE)
    before = scheduling.row("hourly").last_run_at
    assert await scheduling.tick() == 0
    assert scheduling.ledger("hourly") == [Line(NOON, NOON + WEEK, 7 * 24 + 1, "misfire")]
    assert (scheduling.next("hourly"), scheduling.row("hourly").last_run_at) == (NOON + WEEK + HOUR, before)


@pytest.mark.req("S06", "S10")
@pytest.mark.parametrize(
    ("policy", "fired", "next"),
    [
        ({"misfire": "latest"}, [10], NOON + 195 * MINUTE + 20 * MINUTE),
        ({"misfire": "skip"}, [], NOON + 195 * MINUTE + 20 * MINUTE),
        ({"misfire": "all", "catch_up": 2}, [9, 10], NOON + 200 * MINUTE),
    ],
)
async def test_an_interval_after_an_outage(
    scheduling: Scheduling, clock: Clock, policy: dict[str, Any], fired: list[int], next: datetime
) -> None:
    """By default the next is an interval from now; who wants all instants keeps the beat."""
    scheduling.create("often", every("20m", starts_at=NOON, **policy))
    clock.freeze(NOON + 195 * MINUTE)
    await scheduling.tick()
    assert scheduling.fired("often") == [NOON + (n - 1) * 20 * MINUTE for n in fired]
    assert scheduling.next("often") == next
    clock.freeze(next + SECOND)
    await scheduling.tick()
    assert scheduling.fired("often")[-1] == next
    assert scheduling.next("often") == next + 20 * MINUTE, "on time, it keeps its beat"


@pytest.mark.req("S11")
@pytest.mark.parametrize(
    ("overlap", "while_running", "after"),
    [
        ("allow", ["fired", "fired", "fired", "fired"], 4),
        ("skip", ["fired", "overlap", "overlap", "overlap"], 1),
        ("queue_one", ["fired", "fired", "overlap", "overlap"], 2),
    ],
)
async def test_the_next_instant_comes_while_the_job_still_runs(
    engine: Engine, scheduling: Scheduling, clock: Clock, overlap: Overlap, while_running: list[str], after: int
) -> None:
    begun: list[datetime] = []
    at_once = most_at_once = 0
    gate = asyncio.Event()

    @engine.task(schedule=cron("* * * * *", overlap=overlap))
    async def work() -> None:
        nonlocal at_once, most_at_once
        at_once += 1
        most_at_once = max(most_at_once, at_once)
        begun.append(clock.now())
        await gate.wait()
        at_once -= 1

    async with engine.worker(**LONG):
        for minute in range(4):
            clock.freeze(NOON + minute * MINUTE)
            await until(lambda: scheduling.next("work") == clock.now() + MINUTE)
            # The first runs before the second is due; with `allow` so do the others.
            await until(lambda n=minute: len(begun) == (n + 1 if overlap == "allow" else 1))
        assert [line.what for line in scheduling.ledger("work")] == while_running
        states = [job.state for job in scheduling.jobs("work")]
        assert states == {"allow": ["running"] * 4, "skip": ["running"], "queue_one": ["running", "waiting"]}[overlap]
        gate.set()
        await engine.drained()
        assert len(begun) == after
        clock.move(MINUTE)
        await until(lambda: len(begun) == after + 1, what="and it goes on")
        await engine.drained()
    assert most_at_once == (4 if overlap == "allow" else 1)


@pytest.mark.req("S11")
@pytest.mark.parametrize(("overlap", "fired"), [("allow", 3), ("skip", 1), ("queue_one", 1)])
async def test_a_job_that_nobody_has_begun_overlaps_too(scheduling: Scheduling, clock: Clock, overlap: Overlap, fired: int) -> None:
    """Also one that waits for its next attempt, or that somebody has asked for by hand."""
    scheduling.create("minutely", cron("* * * * *", overlap=overlap))
    for _ in range(3):
        clock.move(MINUTE)
        await scheduling.tick()
    assert len(scheduling.jobs("minutely")) == fired
    scheduling.conn.execute("DELETE FROM rota.job")
    scheduling.run("minutely")
    scheduling.conn.execute("UPDATE rota.job SET state = 'delayed', run_at = rota.now() + interval '1 hour', attempt = 1")
    clock.move(MINUTE)
    await scheduling.tick()
    assert len(scheduling.jobs("minutely")) == (1 if overlap != "allow" else 2)


@pytest.mark.req("S10", "S11")
@pytest.mark.parametrize(("overlap", "outcomes"), [("skip", {"fired": 1, "overlap": 4}), ("queue_one", {"fired": 1, "overlap": 4})])
async def test_catching_up_overlaps_with_itself(
    scheduling: Scheduling, clock: Clock, overlap: Overlap, outcomes: dict[str, int]
) -> None:
    scheduling.create("minutely", cron("* * * * *", misfire="all", catch_up=5, overlap=overlap))
    clock.move(HOUR)
    assert await scheduling.tick() == 1
    [missed, *caught_up] = [line.what for line in scheduling.ledger("minutely")]
    assert missed == "outage"
    assert {what: caught_up.count(what) for what in caught_up} == outcomes


@pytest.mark.req("S11")
async def test_what_is_to_follow_waits_for_all_that_run_and_for_failed_ones_too(
    engine: Engine, scheduling: Scheduling, clock: Clock
) -> None:
    gate, ended = asyncio.Event(), 0

    @engine.task
    async def work() -> None:
        nonlocal ended
        await gate.wait()
        ended += 1
        raise ValueError("it fails")

    scheduling.create("minutely", cron("* * * * *", overlap="allow"), max_attempts=1)
    async with engine.worker(scheduler=False, **LONG):
        for _ in range(2):
            clock.move(MINUTE)
            await scheduling.tick()
        await until(lambda: engine.count("rota.job WHERE state = 'running'") == 2)
        scheduling.update("minutely", overlap="queue_one")
        clock.move(MINUTE)
        await scheduling.tick()
        follower = scheduling.jobs("minutely")[-1]
        assert (follower.state, follower.pending_parents) == ("waiting", 2)
        gate.set()
        await until(lambda: ended == 3)
        await engine.drained()


@pytest.mark.req("S11")
async def test_a_running_job_that_somebody_has_locked_holds_up_no_other_schedule(
    scheduling: Scheduling, engine: Engine, clock: Clock
) -> None:
    """A handler may hold its own job in a transaction of its own, for as long as it runs."""
    scheduling.create("one after the other", cron("* * * * *", overlap="queue_one"))
    clock.move(MINUTE)
    await scheduling.tick()
    scheduling.create("another", cron("* * * * *"))
    [job] = scheduling.jobs("one after the other")
    engine.hold(job.id)
    clock.move(MINUTE)
    with psycopg.connect(scheduling.dsn) as handler:
        handler.execute("SELECT FROM rota.job WHERE id = %s FOR KEY SHARE", [job.id])
        assert await scheduling.tick() == 1
        assert scheduling.fired("another") == [NOON + MINUTE]
        assert scheduling.next("one after the other") == NOON + MINUTE, "it is still due"
    assert await scheduling.tick() == 1
    assert scheduling.fired("one after the other") == [NOON, NOON + MINUTE]


@pytest.mark.req("S01", "S10")
async def test_nothing_is_fired_before_the_beginning_or_after_the_end(scheduling: Scheduling, clock: Clock) -> None:
    begin, end = NOON + 10 * MINUTE, NOON + 12 * MINUTE
    scheduling.create("cron", cron("* * * * *", starts_at=begin, ends_at=end))
    scheduling.create("interval", every("1m", starts_at=begin, ends_at=end))
    clock.freeze(NOON)
    for _ in range(30):
        await scheduling.tick()
        clock.move(MINUTE)
    for name in ("cron", "interval"):
        assert scheduling.fired(name) == [begin, begin + MINUTE, end]
        assert (scheduling.next(name), scheduling.row(name).enabled) == (None, True)
    assert scheduling.update("cron", ends_at=clock.now() + HOUR).next_run_at == clock.now() + MINUTE


@pytest.mark.req("S01", "S10")
async def test_downtime_over_the_end_is_about_what_was_before_it(scheduling: Scheduling, clock: Clock) -> None:
    scheduling.create("minutely", cron("* * * * *", ends_at=NOON + 5 * MINUTE))
    clock.move(WEEK)
    await scheduling.tick()
    last = NOON + 5 * MINUTE
    assert scheduling.ledger("minutely") == [Line(NOON, last - MINUTE, 5, "outage"), Line(last, None, None, "fired")]
    assert scheduling.next("minutely") is None


@pytest.mark.req("S01")
async def test_jitter_is_the_same_whoever_fires(scheduling: Scheduling, clock: Clock) -> None:
    scheduling.create("minutely", cron("* * * * *", jitter="10m"))
    clock.freeze(NOON)
    delays: list[list[timedelta]] = []
    for zone in ("UTC", "Asia/Tokyo"):
        scheduling.conn.execute(f"ALTER DATABASE {scheduling.conn.info.dbname} SET timezone = '{zone}'")
        for _ in range(30):
            await scheduling.tick()
            clock.move(MINUTE)
        jobs = scheduling.jobs("minutely")
        delays.append([job.run_at - job.scheduled_for for job in jobs])
        assert {job.state for job in jobs if job.run_at > job.scheduled_for} == {"delayed"}
        # The same half hour once more, as if it had not been.
        clock.freeze(NOON)
        scheduling.conn.execute("DELETE FROM rota.job")
        scheduling.conn.execute("DELETE FROM rota.occurrence")
        scheduling.conn.execute("UPDATE rota.schedule SET next_run_at = %s", [NOON])
    assert delays[0] == delays[1]
    assert all(timedelta(0) <= delay < 10 * MINUTE for delay in delays[0])
    assert len(set(delays[0])) > 20, "and another for each instant"


@pytest.mark.req("S10")
@pytest.mark.parametrize("deadline", ["start", "finish"])
@pytest.mark.parametrize("is_met", [True, False])
async def test_a_missed_deadline_is_told_once(
    engine: Engine, scheduling: Scheduling, clock: Clock, deadline: str, is_met: bool
) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    @engine.task
    async def work() -> None:
        begun.set()
        await gate.wait()

    timing = cron("0 * * * *", **{f"{deadline}_within": "5m"})
    scheduling.create("report", timing)
    clock.freeze(NOON)
    await scheduling.tick()
    [id] = [job.id for job in scheduling.jobs("report")]
    if not is_met and deadline == "start":
        clock.move(5 * MINUTE + SECOND)
    async with engine.worker(scheduler=False, **LONG):
        await begun.wait()
        clock.move(4 * MINUTE)
        await scheduling.tick()
        if is_met:
            gate.set()
            await engine.ended(id)
        if deadline == "finish":
            assert scheduling.seen(DeadlineMissed) == [], "there is time left"
        clock.move(2 * MINUTE)
        await asyncio.gather(*(scheduling.tick() for _ in range(3)))
        await scheduling.tick()
        gate.set()
        await engine.ended(id)
    clock.move(10 * MINUTE)
    await scheduling.tick()
    told = [] if is_met else [DeadlineMissed("report", "work", NOON, id, deadline, NOON + 5 * MINUTE)]
    assert scheduling.seen(DeadlineMissed) == told
    assert engine.conn.execute("SELECT missed FROM rota.occurrence").fetchone() == ([] if is_met else [deadline],)


@pytest.mark.req("S10")
async def test_a_job_that_never_begins_misses_both_deadlines(scheduling: Scheduling, clock: Clock) -> None:
    scheduling.create("report", cron("0 * * * *", start_within="1m", finish_within="10m"))
    clock.freeze(NOON)
    for _ in range(20):
        await scheduling.tick()
        clock.move(MINUTE)
    assert [(event.deadline, event.due) for event in scheduling.seen(DeadlineMissed)] == [
        ("start", NOON + MINUTE), ("finish", NOON + 10 * MINUTE),
    ]  # fmt: skip


@pytest.mark.req("S02", "S10")
@pytest.mark.fault(13)
@pytest.mark.parametrize("misfire", ["latest", "skip", "all"])
async def test_a_clock_that_is_set_fires_no_instant_twice(scheduling: Scheduling, clock: Clock, misfire: Any) -> None:
    """Two hours on, two hours back, over and over; and each instant that was passed over is in the ledger."""
    scheduling.create("cron", cron("*/5 * * * *", misfire=misfire))
    scheduling.create("interval", every("5m", misfire=misfire))
    clock.freeze(NOON)
    latest = NOON
    for step in (
        0,
        2 * HOUR,
        5 * MINUTE,
        -2 * HOUR,
        5 * MINUTE,
        -2 * HOUR,
        HOUR,
        3 * HOUR,
        5 * MINUTE,
        -HOUR,
        2 * HOUR,
        5 * MINUTE,
    ):
        clock.move(step or timedelta(0))
        latest = max(latest, clock.now())
        await asyncio.gather(scheduling.tick(), scheduling.tick())
    for name in ("cron", "interval"):
        fired = scheduling.fired(name)
        assert len(fired) == len(set(fired))
    covered = [
        at
        for line in scheduling.ledger("cron")
        for at in (NOON + n * 5 * MINUTE for n in range(1000))
        if line.instant <= at <= (line.until or line.instant)
    ]
    assert covered == [NOON + n * 5 * MINUTE for n in range((latest - NOON) // (5 * MINUTE) + 1)]


@pytest.mark.req("S02", "S05")
@pytest.mark.fault(13)
async def test_switched_off_and_on_after_the_clock_was_set_back_it_fires_no_instant_twice(
    scheduling: Scheduling, clock: Clock
) -> None:
    scheduling.create("minutely", cron("* * * * *"))
    clock.freeze(NOON)
    for _ in range(5):
        await scheduling.tick()
        clock.move(MINUTE)
    clock.freeze(NOON - 30 * SECOND)
    scheduling.set_enabled("minutely", False)
    assert scheduling.set_enabled("minutely", True).next_run_at == NOON, "as if it had never been noon"
    for _ in range(10):
        await scheduling.tick()
        clock.move(MINUTE)
    assert scheduling.fired("minutely") == [NOON + n * MINUTE for n in range(9)]


@pytest.mark.req("S05", "S10")
@pytest.mark.fault(13)
@pytest.mark.parametrize("off", [False, True])
@pytest.mark.parametrize("minutes", [1, 2, 3, 10])
async def test_after_that_what_is_passed_over_is_told_without_what_was_decided_before(
    scheduling: Scheduling, clock: Clock, off: bool, minutes: int
) -> None:
    """Twice, as the second time the line of the first is in the way, too."""
    scheduling.create("minutely", cron("* * * * *"))
    clock.freeze(NOON)
    await scheduling.tick()
    for lasts in (minutes, minutes + 5):
        clock.freeze(NOON - 30 * SECOND)
        scheduling.set_enabled("minutely", False)
        scheduling.set_enabled("minutely", True)
        if off:
            scheduling.set_enabled("minutely", False)
        clock.freeze(NOON + lasts * MINUTE)
        if off:
            scheduling.set_enabled("minutely", True)
        await scheduling.tick()
        lines = scheduling.ledger("minutely")
        for at in (NOON + n * MINUTE for n in range(lasts + 1)):
            assert [line for line in lines if line.instant <= at <= (line.until or line.instant)], f"nothing is told about {at}"
        assert len(scheduling.fired("minutely")) == len(set(scheduling.fired("minutely")))
