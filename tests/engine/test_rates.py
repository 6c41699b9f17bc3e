"""Rates: in no period do more jobs start than the rate says, however they end, and as many as it says do."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import hypothesis.strategies as st
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine
from tests.support.engine import Engine
from tests.support.thorough import examples
from tests.support.wait import NEVER_S

from rota.contrib.testing.clock import Clock
from rota.db.connection import connect_async
from rota.errors import UsageError
from rota.model.ids import new_id
from rota.model.limits import parse_rate, rate_parts, show_rate
from rota.model.task import TaskSpec
from rota.store import runs as store
from rota.store import tasks

pytestmark = pytest.mark.req("S09")

START = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def sync(engine: Engine) -> None:
    """Make the test's tasks known to the database, as a worker does when it starts."""
    tasks.sync(engine.conn, tasks=engine.tasks.values(), queues=["default"])


def limit(engine: Engine, **limits: Any) -> TaskSpec:
    """A task with a rate that is known to the database and never runs."""

    @engine.task(**limits)
    async def work(customer: str = "") -> None: ...

    sync(engine)
    return engine.tasks["work"]


async def promote(engine: Engine) -> tuple[int, float | None]:
    """Do what workers do at each poll."""
    async with await connect_async(engine.dsn, "test") as conn:
        return (await store.promote(conn))[:2]


def ready(engine: Engine) -> int:
    """How many may start now."""
    return engine.count("rota.job WHERE state = 'queued'")


def complete(engine: Engine, count: int = 1, outcome: str = "completed") -> list[UUID]:
    """Run ready jobs to their end."""
    ids = [row[0] for row in engine.conn.execute("SELECT id FROM rota.job WHERE state = 'queued' ORDER BY id LIMIT %s", [count])]
    for id in ids:
        held = engine.hold(id)
        engine.conn.execute("SELECT rota.finish_run(%s, %s, %s, %s, 0, 0)", [id, held.token, held.worker, outcome])
    return ids


async def test_so_many_start_in_a_period_and_then_the_next(engine: Engine, clock: Clock) -> None:
    clock.freeze(START)
    work = limit(engine, rate="3/10s")
    for _ in range(10):
        engine.enqueue(work)
    await promote(engine)
    assert ready(engine) == 3
    complete(engine, 3)
    assert ready(engine) == 0
    clock.move(9 * SECOND)
    _, look_in = await promote(engine)
    assert (ready(engine), look_in) == (0, 1.0), "it is known when there is room again"
    clock.move(1 * SECOND)
    await promote(engine)
    assert ready(engine) == 3


async def test_it_is_the_start_that_counts(engine: Engine, clock: Clock) -> None:
    """What is ready and has not begun takes a place, for however long; nobody can save up starts while no worker is there."""
    clock.freeze(START)
    work = limit(engine, rate="2/10s")
    for _ in range(6):
        engine.enqueue(work)
    await promote(engine)
    clock.move(3600 * SECOND)
    await promote(engine)
    assert ready(engine) == 2
    complete(engine, 2)
    clock.move(9 * SECOND)
    await promote(engine)
    assert ready(engine) == 0


async def test_what_runs_for_longer_than_the_period_does_not_count_for_longer(engine: Engine, clock: Clock) -> None:
    clock.freeze(START)
    work = limit(engine, rate="1/10s")
    first, second = engine.enqueue(work), engine.enqueue(work)
    await promote(engine)
    engine.hold(first)
    clock.move(10 * SECOND)
    await promote(engine)
    assert engine.row(second).state == "queued"
    assert engine.row(first).state == "running"


@pytest.mark.parametrize("outcome", ["failed", "snoozed", "released", "canceled"])
async def test_a_start_counts_however_it_ended(engine: Engine, clock: Clock, outcome: str) -> None:
    clock.freeze(START)
    work = limit(engine, rate="1/10s")
    engine.enqueue(work)
    engine.enqueue(work)
    await promote(engine)
    complete(engine, 1, outcome)
    await promote(engine)
    assert ready(engine) == 0
    clock.move(10 * SECOND)
    await promote(engine)
    assert ready(engine) == 1


async def test_a_lost_run_counts_and_its_job_waits_for_the_next_start(engine: Engine, clock: Clock) -> None:
    clock.freeze(START)
    work = limit(engine, rate="1/10s")
    id = engine.enqueue(work)
    await promote(engine)
    engine.hold(id)
    engine.take_away(id)
    assert engine.row(id).state == "held"
    clock.move(10 * SECOND)
    await promote(engine)
    assert engine.row(id).state == "queued"


async def test_what_was_cancelled_before_it_began_does_not_count(engine: Engine, clock: Clock) -> None:
    clock.freeze(START)
    work = limit(engine, rate="1/10s")
    first, second = engine.enqueue(work), engine.enqueue(work)
    await promote(engine)
    engine.conn.execute("SELECT rota.cancel_job(%s)", [first])
    await promote(engine)
    assert engine.row(second).state == "queued"


async def test_each_key_has_its_own(engine: Engine, clock: Clock) -> None:
    clock.freeze(START)
    work = limit(engine, concurrency_key="{customer}", key_rate="1/10s")
    for customer in "aaabb":
        engine.enqueue(work, {"customer": customer})
    await promote(engine)
    assert ready(engine) == 2
    complete(engine, 2)
    assert ready(engine) == 0
    clock.move(10 * SECOND)
    await promote(engine)
    assert ready(engine) == 2
    complete(engine, 2)
    clock.move(5 * SECOND)
    _, look_in = await promote(engine)
    assert (ready(engine), look_in) == (0, 5.0)
    clock.move(5 * SECOND)
    await promote(engine)
    assert ready(engine) == 1


async def test_a_high_rate_is_counted_by_the_hundredth(engine: Engine, clock: Clock) -> None:
    """Few rows, however many starts; never more than the rate, and hardly fewer."""
    clock.freeze(START)
    work = limit(engine, rate="500/100s")
    for _ in range(1500):
        engine.enqueue(work)
    await promote(engine)
    for _ in range(50):
        complete(engine, 10)
        clock.move(2 * SECOND)
    assert engine.count("rota.limit_use") <= 101
    assert ready(engine) < 500
    clock.move(2 * SECOND)
    await promote(engine)
    begun = "rota.run WHERE started_at > rota.now() - interval '100 s'"
    assert ready(engine) + engine.count(begun) <= 500
    assert ready(engine) + engine.count(begun) >= 480


async def test_what_counts_no_more_is_removed(engine: Engine, clock: Clock) -> None:
    clock.freeze(START)
    work = limit(engine, rate="3/10s")
    for _ in range(3):
        engine.enqueue(work)
    await promote(engine)
    complete(engine, 3)
    assert engine.count("rota.limit_use") == 3
    clock.move(11 * SECOND)
    await promote(engine)
    assert engine.count("rota.limit_use") == 0


async def test_a_changed_rate_holds_at_once(engine: Engine, clock: Clock) -> None:
    clock.freeze(START)
    work = limit(engine, rate="1/3600s")
    for _ in range(5):
        engine.enqueue(work)
    await promote(engine)
    complete(engine)
    limit(engine, rate="3/3600s")
    await promote(engine)
    assert ready(engine) == 2
    limit(engine, rate=None)
    await promote(engine)
    assert ready(engine) == 4


async def test_workers_keep_to_it_and_make_use_of_it(engine: Engine) -> None:
    """By what the handlers note themselves."""
    starts: list[float] = []

    @engine.task(rate="20/1s")
    async def work() -> None:
        starts.append(time.monotonic())
        await asyncio.sleep(0.001)

    for _ in range(70):
        engine.enqueue(work)
    async with engine.worker(concurrency=8, poll_interval_s=NEVER_S), engine.worker(concurrency=8, poll_interval_s=NEVER_S):
        await engine.drained()
    starts.sort()
    # A claimed job begins at once, or is given back after a quarter of a second.
    windows = [sum(first <= other < first + 0.7 for other in starts) for first in starts]
    assert max(windows) <= 20
    assert len(starts) == 70


class Rated(RuleBasedStateMachine):
    """Jobs come, start, end, are lost and cancelled at random, and time goes on."""

    conn: psycopg.Connection[Any]
    clock: Clock

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.starts: list[tuple[datetime, str]] = []
        self.held: list[Any] = []
        self.clock.freeze(self.now)
        self.conn.execute("TRUNCATE rota.job, rota.run, rota.limit_use, rota.limit_look")
        self.engine = Engine("", self.conn)

    @rule(customer=st.sampled_from("ab"), count=st.integers(1, 3))
    def enqueue(self, customer: str, count: int) -> None:
        for _ in range(count):
            self.conn.execute("SELECT rota.enqueue('work', jsonb_build_object('customer', %s::text))", [customer])

    @rule()
    def promote(self) -> None:
        self.conn.execute("SELECT rota.admit_held()")

    @rule()
    def start(self) -> None:
        row = self.conn.execute("SELECT id, limit_key FROM rota.job WHERE state = 'queued' ORDER BY id LIMIT 1").fetchone()
        if row is not None:
            self.held.append(self.engine.hold(row[0], worker=new_id()))
            self.starts.append((self.now, row[1]))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), outcome=st.sampled_from(["completed", "failed", "snoozed", "released", "canceled"]))
    def end(self, data: Any, outcome: str) -> None:
        run = data.draw(st.sampled_from(self.held))
        self.held.remove(run)
        self.conn.execute("SELECT rota.finish_run(%s, %s, %s, %s, 0, 0)", [run.id, run.token, run.worker, outcome])

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def lose(self, data: Any) -> None:
        run = data.draw(st.sampled_from(self.held))
        self.held.remove(run)
        self.conn.execute("SELECT rota.rescue_runs(%s)", [[run.worker]])

    @rule()
    def cancel(self) -> None:
        self.conn.execute("SELECT rota.cancel_job(id) FROM rota.job WHERE state = 'queued' ORDER BY id LIMIT 1")

    @rule(seconds=st.sampled_from([1, 3, 5, 10]))
    def pass_time(self, seconds: int) -> None:
        self.now += seconds * SECOND
        self.clock.freeze(self.now)

    @invariant()
    def no_window_has_too_many(self) -> None:
        for at, _ in self.starts:
            window = [key for other, key in self.starts if at <= other < at + 10 * SECOND]
            assert len(window) <= 3, "of the task"
            assert all(window.count(key) <= 2 for key in window), "of a key"

    def teardown(self) -> None:
        """Never stuck: with time everything runs."""
        for _ in range(200):
            if self.conn.execute("SELECT FROM rota.job WHERE state <> 'running'").fetchone() is None:
                return
            self.pass_time(10)
            self.promote()
            while self.conn.execute("SELECT FROM rota.job WHERE state = 'queued'").fetchone() is not None:
                self.start()
            for run in self.held:
                self.conn.execute("SELECT rota.finish_run(%s, %s, %s, 'completed', 0, 0)", [run.id, run.token, run.worker])
            self.held.clear()
        raise AssertionError("jobs are stuck")


def test_whatever_happens(conn: psycopg.Connection[Any]) -> None:
    Rated.conn, Rated.clock = conn, Clock(conn)
    engine = Engine("", conn)
    limit(engine, rate="3/10s", concurrency_key="{customer}", key_rate="2/10s")
    run_machine(
        Rated,
        settings=settings(
            max_examples=examples(40), stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


@pytest.mark.parametrize(
    ("text", "stored", "shown"),
    [("100/m", "100/60s", "100/m"), ("5/10s", "5/10s", "5/10s"), ("1/d", "1/86400s", "1/d"), ("7/1h30m", "7/5400s", "7/5400s"),
     ("2/0.5s", "2/0.5s", "2/0.5s"), (" 9/s ", "9/1s", "9/s"), ("1000000/31d", "1000000/2678400s", "1000000/2678400s")],
)  # fmt: skip
def test_a_rate_as_people_write_it(text: str, stored: str, shown: str) -> None:
    assert parse_rate(text, name="rate") == stored
    assert show_rate(stored) == shown


@pytest.mark.parametrize(
    "text", ["", "100", "m", "0/s", "1000001/s", "1/32d", "1/0s", "1/0.01s", "-1/s", "1 / s", "1/s/s", "1/x", 5, None]
)
def test_a_rate_that_makes_no_sense(text: Any) -> None:
    with pytest.raises(UsageError, match=r"rate="):
        parse_rate(text, name="rate")


@given(st.integers(1, 1_000_000), st.integers(100, 31 * 86_400_000))
def test_what_is_read_is_what_the_database_can_keep(count: int, milliseconds: int) -> None:
    stored = parse_rate(f"{count}/{milliseconds}ms", name="rate")
    assert rate_parts(stored)[0] == count
    assert parse_rate(stored, name="rate") == stored
    assert float(stored.partition("/")[2].removesuffix("s")) == pytest.approx(milliseconds / 1000)
