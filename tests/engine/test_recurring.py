"""Recurring rows run by workers: what their handlers may return, how they fail, and that they go on."""

from __future__ import annotations

import asyncio
import signal
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from tests.support import faulty, feeds
from tests.support.engine import Engine
from tests.support.processes import WorkerProcess
from tests.support.recurring import HOUR, Rows
from tests.support.wait import PATIENCE_S, until, wait_until

from rota import Cancel, Context, Retry, RetryAfter, Snooze
from rota.contrib.testing.clock import Clock
from rota.engine.options import WorkerOptions
from rota.events import DatabaseLost, RunLeaseLost, RunsFinished, ScheduleFailing
from rota.model.recurrence import Next, read_next

QUICK: dict[str, Any] = {"poll_interval_s": 0.1}
POLICY = Retry(base="1m", cap="1h", jitter="0s")
FAR = datetime(2040, 1, 1, tzinfo=UTC)
APP = "tests.support.feeds:app"


@pytest.fixture
def rows(engine: Engine) -> Rows:
    return Rows(engine.conn)


async def ran(rows: Rows, key: str = "a", times: int = 1) -> Any:
    """Wait until the row has been run so often, and read it."""

    def look() -> Any:
        row = rows.row(key)
        return row if row.job_id is None and row.successes + row.failures >= times else None

    return await until(look, what=f"row {key} has run")


def rest(row: Any) -> timedelta:
    return (row.next_run_at - row.updated_at) if row.next_run_at else timedelta(0)  # type: ignore[no-any-return]


@pytest.mark.req("R02")
class TestResults:
    @pytest.mark.parametrize("kind", ["async", "sync"])
    @pytest.mark.parametrize(
        ("value", "expected", "every"),
        [
            (timedelta(minutes=5), timedelta(minutes=5), timedelta(minutes=5)),
            (timedelta(0), timedelta(seconds=1), timedelta(seconds=1)),
            (None, HOUR, HOUR),
            (FAR, None, HOUR),
            (FAR.astimezone(), None, HOUR),
            (datetime(2001, 1, 1, tzinfo=UTC), timedelta(seconds=1), HOUR),
        ],
    )
    async def test_the_result_sets_the_next_run(
        self, engine: Engine, rows: Rows, value: Any, expected: timedelta | None, every: timedelta, kind: str
    ) -> None:
        if kind == "async":

            @engine.task(name="fetch", recurring=True)
            async def fetch_async(ctx: Context) -> Any:
                assert ctx.scheduled_for is not None
                return value

        else:

            @engine.task(name="fetch", recurring=True)
            def fetch_sync() -> Any:
                return value

        rows.ensure()
        async with engine.worker(**QUICK):
            row = await ran(rows)
        if expected is None:
            assert row.next_run_at == FAR
        elif expected > timedelta(seconds=1):
            assert rest(row) == expected
        assert (row.every, row.failures, row.last_error) == (every, 0, None)
        assert rows.history() == []

    @pytest.mark.parametrize(
        ("value", "said"),
        [
            ("soon", "returned 'soon': return a timedelta or a datetime"),
            (3600, "returned 3600: return a timedelta"),
            (True, "returned True: return a timedelta"),
            (datetime(2040, 1, 1), "has no time zone"),  # noqa: DTZ001
            (timedelta(seconds=-1), "out of range: from 0 to 3660 days"),
            (timedelta(days=4000), "out of range: from 0 to 3660 days"),
            (datetime.max.replace(tzinfo=UTC), "out of range: before 9999"),
        ],
    )
    async def test_what_makes_no_sense_fails_the_run(self, engine: Engine, rows: Rows, value: Any, said: str) -> None:
        @engine.task(recurring=True)
        async def fetch() -> Any:
            return value

        rows.ensure()
        async with engine.worker(**QUICK):
            row = await ran(rows)
        assert said in row.last_error["message"]
        assert (row.failures, row.successes, rest(row), rows.history()) == (1, 0, timedelta(minutes=1), ["failed"])

    async def test_it_goes_on_and_on_and_leaves_nothing(self, engine: Engine, rows: Rows) -> None:
        @engine.task(recurring=True)
        async def fetch() -> timedelta:
            return timedelta(0)

        rows.ensure()
        async with engine.worker(**QUICK):
            await ran(rows, times=3)
        assert rows.history() == []
        assert not rows.live() or rows.live()[0].id == rows.row().job_id

    async def test_other_outcomes(self, engine: Engine, rows: Rows) -> None:
        answers = {"snooze": Snooze("2h"), "cancel": Cancel("not now"), "retry": RetryAfter("2h", "busy")}

        @engine.task(recurring=True)
        async def fetch(what: str) -> Any:
            return answers[what]

        for what in answers:
            rows.ensure(what, payload={"what": what})
        async with engine.worker(**QUICK):
            await until(lambda: sorted(rows.history()) == ["canceled", "failed"])
            await until(lambda: [job.state for job in rows.live("snooze")] == ["delayed"])
        retried, canceled = rows.row("retry"), rows.row("cancel")
        assert (retried.failures, rest(retried), retried.last_error["message"]) == (1, 2 * HOUR, "busy")
        assert (canceled.failures, canceled.successes, rest(canceled)) == (0, 0, HOUR)
        assert rows.row("snooze").job_id == rows.live("snooze")[0].id

    @pytest.mark.parametrize("kind", ["async", "sync"])
    async def test_in_the_handlers_own_transaction(self, engine: Engine, rows: Rows, kind: str) -> None:
        engine.conn.execute("CREATE TABLE note (text text)")
        if kind == "async":

            @engine.task(name="fetch", recurring=True)
            async def fetch_async(ctx: Context) -> None:
                async with ctx.transaction() as conn:
                    await conn.execute("INSERT INTO note VALUES ('x')")
                    ctx.result = timedelta(minutes=5)

        else:

            @engine.task(name="fetch", recurring=True)
            def fetch_sync(ctx: Context) -> None:
                with ctx.transaction() as conn:
                    conn.execute("INSERT INTO note VALUES ('x')")
                    ctx.result = timedelta(minutes=5)

        rows.ensure()
        async with engine.worker(**QUICK):
            row = await ran(rows)
        assert (rest(row), row.every, row.successes) == (timedelta(minutes=5), timedelta(minutes=5), 1)
        assert (engine.count("note"), rows.history()) == (1, [])

    async def test_from_processes_of_their_own(self, engine: Engine) -> None:
        engine.tasks.update(feeds.app.tasks)
        rows = Rows(engine.conn, "give")
        expected = {"delay": 2 * HOUR, "nothing": HOUR, "transaction": 2 * HOUR, "retry": 2 * HOUR}
        expected |= {"garbage": timedelta(minutes=1), "death": timedelta(minutes=1)}
        for what in (*expected, "time", "snooze"):
            rows.ensure(what, payload={"what": what})
        async with engine.worker(concurrency=2, **QUICK):
            await until(
                lambda: all((row := rows.row(what)).last_run_at and row.next_run_at and row.job_id is None for what in expected)
            )
            await until(lambda: rows.row("time").next_run_at == FAR)
            await until(lambda: [job.state for job in rows.live("snooze")] == ["delayed"])
        assert {what: rest(rows.row(what)) for what in expected} == expected
        assert "return a timedelta" in rows.row("garbage").last_error["message"]
        assert rows.row("death").last_error["type"] == "WorkerCrashed"


@pytest.mark.req("R02")
def test_reading_what_a_handler_returned() -> None:
    assert read_next(None) == Next()
    assert read_next(HOUR) == Next(delay=HOUR)
    assert read_next(FAR) == Next(at=FAR)


@pytest.mark.req("R02")
async def test_failures_back_off_and_are_flagged_once(engine: Engine, rows: Rows) -> None:
    clock = Clock(engine.conn)

    @engine.task(recurring=True)
    async def fetch() -> None:
        raise ValueError("boom")

    rows.ensure()
    async with engine.worker(scheduler_tick_s=0.1, **QUICK):
        rests = []
        for number in range(1, 9):
            row = await ran(rows, times=number)
            assert (row.consecutive_failures, row.last_error["type"]) == (number, "ValueError")
            rests.append(round(rest(row).total_seconds() / 60))
            if number < 7:
                assert engine.seen(ScheduleFailing) == []
            clock.move(rest(row))
        await until(lambda: engine.seen(ScheduleFailing), what="somebody is told")
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60]
    [told] = engine.seen(ScheduleFailing)
    assert (told.schedule, told.task, told.error) == ("fetch/a", "fetch", "boom")
    assert rows.history() == ["failed"] * len(rows.history())


@pytest.mark.req("R02")
async def test_a_success_resets_the_backoff_and_the_flag(engine: Engine, rows: Rows) -> None:
    clock = Clock(engine.conn)
    fails = [*[True] * 7, False, *[True] * 7]

    @engine.task(recurring=True)
    async def fetch() -> None:
        if fails.pop(0):
            raise ValueError("boom")

    rows.ensure()
    rests = []
    async with engine.worker(scheduler_tick_s=0.1, **QUICK):
        for number in range(1, 16):
            row = await ran(rows, times=number)
            rests.append(round(rest(row).total_seconds() / 60))
            if number == 7:
                await until(lambda: len(engine.seen(ScheduleFailing)) == 1, what="the first alert")
            elif number == 8:
                assert (row.consecutive_failures, row.failures, row.successes, row.last_error) == (0, 7, 1, None)
            elif number == 9:
                assert (row.consecutive_failures, row.failures, row.failing_since) == (1, 8, None)
            if number < 15:
                clock.move(rest(row))
        await until(lambda: len(engine.seen(ScheduleFailing)) == 2, what="another alert, as it is another failure")
    backoff = [1, 2, 4, 8, 16, 32, 60]
    assert rests == [*backoff, 60, *backoff]


@pytest.mark.req("R02")
async def test_a_task_that_nobody_knows_backs_off_too(engine: Engine, rows: Rows) -> None:
    clock = Clock(engine.conn)
    rows.ensure()
    async with engine.worker(unknown_task_after_s=0, **QUICK):
        rests = []
        for number in (1, 2, 3):
            row = await ran(rows, times=number)
            rests.append(rest(row))
            clock.move(rest(row))
    assert rests == [timedelta(minutes=minutes) for minutes in (1, 2, 4)]


async def test_a_plain_task_with_a_row_made_in_sql_keeps_its_interval(engine: Engine) -> None:
    rows = Rows(engine.conn, "plain")
    fails = [True, True, False]

    @engine.task(retry=Retry(base="1s", cap="1s", jitter="0s"))
    async def plain() -> str:
        if fails.pop(0):
            raise ValueError("boom")
        return "a result"

    clock = Clock(engine.conn)
    rows.ensure()
    async with engine.worker(**QUICK):
        for number, expected in enumerate((timedelta(minutes=1), timedelta(minutes=2), HOUR), 1):
            row = await ran(rows, times=number)
            assert rest(row) == expected
            clock.move(expected)


@pytest.mark.req("R03")
@pytest.mark.fault(1)
@pytest.mark.parametrize("how", ["killed", "paused"])
def test_a_run_without_a_sign_of_life_is_taken_over(engine: Engine, how: str) -> None:
    engine.conn.execute(faulty.TABLE)
    rows = Rows(engine.conn)
    rows.ensure(payload={"name": "a", "seconds": 600.0})
    lease = {"lease_s": 2.5, "heartbeat_s": 0.2} if how == "paused" else {}
    with WorkerProcess(APP, engine.dsn, **lease) as worker:
        wait_until(lambda: faulty.noted(engine.conn))
        worker.kill(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        with WorkerProcess(APP, engine.dsn):
            wait_until(
                lambda: rows.row().successes == 1, what="the run to be taken over, long before the lease of five minutes ends"
            )
        worker.kill(signal.SIGKILL)
    row = rows.row()
    assert (row.job_id, rest(row), row.failures, row.successes) == (None, HOUR, 0, 1)
    assert faulty.noted(engine.conn) == [1, 2]
    assert rows.history() == ["lost"]


@pytest.mark.req("R03")
def test_a_row_that_kills_its_workers_backs_off_and_its_neighbours_live(engine: Engine) -> None:
    engine.conn.execute(faulty.TABLE)
    killer, rows = Rows(engine.conn, "kill"), Rows(engine.conn)
    killer.ensure(payload={"name": "a"})
    with WorkerProcess(APP, engine.dsn) as first:
        first.wait(PATIENCE_S)
    rows.ensure(payload={"name": "a"})
    with WorkerProcess(APP, engine.dsn):  # it runs the suspect in a process of its own, and sees it die
        wait_until(lambda: killer.row().failures == 1 and rows.row().successes == 1)
    row = killer.row()
    assert (row.job_id, rest(row), row.last_error["type"]) == (None, timedelta(minutes=1), "WorkerCrashed")


@pytest.mark.req("R05")
async def test_disabled_while_it_runs_it_ends_and_no_other_starts(engine: Engine, rows: Rows) -> None:
    begun, gate = [], asyncio.Event()

    @engine.task(recurring=True)
    async def fetch() -> timedelta:
        begun.append(1)
        await gate.wait()
        return timedelta(0)

    rows.ensure()
    async with engine.worker(**QUICK):
        await until(lambda: begun)
        await asyncio.to_thread(rows.set, "a", False)
        gate.set()
        row = await ran(rows)
        await until(lambda: engine.conn.execute("SELECT rota.now() > %s", [row.next_run_at]).fetchone() == (True,))
        await asyncio.to_thread(rows.ensure, "b")
        await until(lambda: len(begun) == 2)  # and so the scheduler has looked since
        assert rows.row("a").successes == 1
        await asyncio.to_thread(rows.set, "a", True)
        await until(lambda: rows.row("a").successes > 1)


@pytest.mark.req("R05")
async def test_disabled_while_it_is_queued_it_does_not_start(engine: Engine, rows: Rows) -> None:
    begun, gate = [], asyncio.Event()

    @engine.task(recurring=True)
    async def fetch(name: str) -> None:
        begun.append(name)
        await gate.wait()

    rows.ensure("a", payload={"name": "a"})
    async with engine.worker(concurrency=1, **QUICK):
        await until(lambda: begun)
        await asyncio.to_thread(rows.ensure, "b", payload={"name": "b"})
        await until(lambda: rows.live("b"))
        await asyncio.to_thread(rows.set, "b", False)
        gate.set()
        await ran(rows, "a")
        await asyncio.to_thread(rows.ensure, "c", payload={"name": "c"})
        await ran(rows, "c")
    assert begun == ["a", "c"]


@pytest.mark.req("R01", "S08")
async def test_never_two_runs_of_one_key_at_once(engine: Engine, rows: Rows) -> None:
    """Three workers, each with a scheduler, and rows that want to run again at once, disabled and enabled all the time."""
    # From a thread: who waits for a lock must not hold up the event loop, in which those work who have it.
    running: dict[str, int] = {}
    most = 0

    @engine.task(recurring=True)
    async def fetch(name: str) -> timedelta:
        nonlocal most
        running[name] = running.get(name, 0) + 1
        most = max(most, running[name])
        await asyncio.sleep(0.01)
        running[name] -= 1
        return timedelta(0)

    keys = [str(number) for number in range(10)]
    for key in keys:
        rows.ensure(key, payload={"name": key})
    async with engine.worker(**QUICK), engine.worker(**QUICK), engine.worker(**QUICK):
        for _ in range(15):
            for key in keys[:5]:
                await asyncio.to_thread(rows.set, key, False)
                await asyncio.to_thread(rows.set, key, True)
            await until(lambda: sum(rows.row(key).successes for key in keys))
            again = "UPDATE rota.schedule SET next_run_at = rota.now() WHERE next_run_at IS NOT NULL"
            await asyncio.to_thread(engine.conn.execute, again)
            await asyncio.sleep(0.05)
        await until(lambda: all(rows.row(key).successes >= 2 for key in keys))
    assert most == 1
    assert engine.seen(RunLeaseLost) == []


async def test_a_row_that_somebody_has_locked_keeps_no_other_run_from_being_recorded(engine: Engine, rows: Rows) -> None:
    begun, gate = [], asyncio.Event()

    @engine.task(recurring=True)
    async def fetch(name: str) -> None:
        begun.append(name)
        if name == "locked":
            await gate.wait()
        elif name == "failing":
            raise ValueError("boom")

    @engine.task
    async def plain() -> None: ...

    rows.ensure("locked", payload={"name": "locked"})
    async with engine.worker(**QUICK):
        await until(lambda: begun)
        with psycopg.connect(engine.dsn) as user:
            user.execute("SELECT rota.lock_recurring('fetch', 'locked')")
            gate.set()
            for number in range(30):  # batch after batch, for longer than it takes to try the locked one again
                engine.enqueue(plain)
                await asyncio.to_thread(rows.ensure, f"free {number}", payload={"name": "free"})
                await asyncio.to_thread(rows.ensure, f"failing {number}", payload={"name": "failing"})
                if number % 10 == 0:
                    await asyncio.sleep(0.6)
            await until(lambda: all(rows.row(f"{kind} {number}").job_id is None and rows.row(f"{kind} {number}").last_run_at
                                    for kind in ("free", "failing") for number in range(30)))  # fmt: skip
            await until(lambda: engine.count("rota.job WHERE task = 'plain'") == 0)
            assert rows.row("locked").successes == 0
        await ran(rows, "locked")
    assert engine.seen(DatabaseLost) == []
    assert engine.seen(RunLeaseLost) == []


async def test_a_row_whose_job_was_deleted_by_hand_goes_on(engine: Engine, rows: Rows) -> None:
    @engine.task(recurring=True)
    async def fetch() -> None: ...

    rows.ensure()
    rows.fire()
    engine.conn.execute("DELETE FROM rota.job")
    async with engine.worker(scheduler_tick_s=0.1, **QUICK):
        await ran(rows)


async def test_scheduling_can_be_off(engine: Engine, rows: Rows) -> None:
    @engine.task
    async def plain() -> None: ...

    rows.ensure()
    assert WorkerOptions().scheduler
    async with engine.worker(scheduler=False, **QUICK):
        id = engine.enqueue(plain)
        await engine.ended(id)
    assert rows.row().last_run_at is None


async def test_a_limit_holds_for_recurring_rows(engine: Engine, rows: Rows) -> None:
    running, most, done = 0, 0, []

    @engine.task(recurring=True, max_concurrency=2)
    async def fetch() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        done.append(1)

    async with engine.worker(concurrency=8, **QUICK):
        for number in range(20):
            await asyncio.to_thread(rows.ensure, str(number))
        await until(lambda: len(done) == 20)
        await until(lambda: all(rows.row(str(number)).successes == 1 for number in range(20)))
    assert most == 2
    assert sum(len(event.runs) for event in engine.seen(RunsFinished)) == 20
