"""The fixture `rota` as tests of applications use it, on the run's own server."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from pydantic import BaseModel, SecretStr
from tests.support.wait import PATIENCE_S, wait_until

from rota import Cancel, Context, Retry, Rota, Secret, Snooze
from rota.contrib.testing.harness import Harness
from rota.engine.drain import Drain
from rota.errors import PayloadError, UsageError
from rota.model import secret
from rota.model.run import Run

calls: list[Any] = []
app = Rota("postgresql://nobody@localhost:1/never")  # never connected to


class Order(BaseModel):
    number: int
    total: Decimal


@app.task
async def send_welcome(ctx: Context, user_id: int, lang: str = "en") -> str:
    calls.append((user_id, lang, ctx.attempt))
    return "sent"


@app.task
async def charge(token: Secret) -> None: ...


@app.task(queue="reports")
def report(day: date) -> None:
    calls.append(day)
    send_welcome.enqueue(user_id=99)


@app.task
async def ship(order: Order) -> None:
    await report.aenqueue(date(2026, 1, order.number))


@app.task(retry=Retry(max_attempts=3, base="1m", cap="1h", jitter=0))
async def flaky(fail: int) -> None:
    calls.append("flaky")
    if calls.count("flaky") <= fail:
        raise ConnectionError(f"attempt {calls.count('flaky')}")


@app.task
async def poll() -> Snooze | None:
    calls.append("poll")
    return Snooze("1m") if len(calls) < 100 else None


@app.task(max_concurrency=1)
async def narrow(n: int) -> None:
    calls.append(n)


@app.task
def again() -> None:
    again.enqueue()


@app.task
async def meet() -> None:
    calls.append("came")
    async with asyncio.timeout(PATIENCE_S):
        while len(calls) < 2:
            await asyncio.sleep(0)


@app.task
async def give_up() -> Cancel:
    return Cancel("no use")


@app.task(timeout=0.1)
async def slow() -> None:
    await asyncio.sleep(60)


@app.task(isolate=True)
def apart(text: str) -> str:
    report.enqueue(date(2026, 5, 1))
    return f"{text} {os.getpid()}"


@pytest.fixture
def rota_app() -> Rota:
    calls.clear()
    return app


def test_it_works(rota: Harness) -> None:
    send_welcome.enqueue(user_id=1)
    rota.assert_enqueued(send_welcome, user_id=1)
    assert calls == []
    assert rota.drain_sync() == {"completed": 1}
    assert calls == [(1, "en", 1)]
    [job] = rota.jobs(send_welcome)
    assert (job.state, job.result, job.payload) == ("completed", "sent", {"user_id": 1})


async def test_secrets_are_compared(rota: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret, "_keys", ("k" * 40,))
    await charge.aenqueue(token=SecretStr("canary"))
    rota.assert_enqueued(charge, token=SecretStr("canary"))
    with pytest.raises(AssertionError) as told:
        rota.assert_enqueued(charge, token=SecretStr("other"))
    assert "canary" not in str(told.value)


async def test_it_works_in_an_event_loop(rota: Harness) -> None:
    await send_welcome.aenqueue(user_id=1)
    rota.assert_enqueued(send_welcome, user_id=1)
    assert await rota.drain() == {"completed": 1}
    with pytest.raises(UsageError, match=r"await rota\.drain"):
        rota.drain_sync()


class TestAssertions:
    def test_arguments_are_those_of_the_handler(self, rota: Harness) -> None:
        ship.enqueue(Order(number=3, total=Decimal("9.90")))
        report.enqueue(day=date(2026, 2, 3))
        send_welcome.enqueue(1)
        rota.assert_enqueued(ship, order=Order(number=3, total=Decimal("9.90")))
        rota.assert_enqueued("report", day=date(2026, 2, 3))
        rota.assert_enqueued(send_welcome, lang="en")  # the handler's own default
        rota.assert_not_enqueued(send_welcome, lang="de")

    def test_jobs_that_have_run_count_too(self, rota: Harness) -> None:
        ship.enqueue(Order(number=3, total=Decimal(1)))
        assert rota.drain_sync(raise_errors=True) == {"completed": 3}
        rota.assert_enqueued(report, day=date(2026, 1, 3))
        rota.assert_enqueued(send_welcome, user_id=99)
        assert [job.task for job in rota.jobs(state="completed")] == ["ship", "report", "send_welcome"]

    def test_a_count_is_exact(self, rota: Harness) -> None:
        send_welcome.enqueue(1)
        send_welcome.enqueue(1, "de")
        rota.assert_enqueued(send_welcome, _count=2)
        rota.assert_enqueued(send_welcome, _count=1, lang="de")
        rota.assert_enqueued(give_up, _count=0)
        with pytest.raises(AssertionError, match=r"2 jobs send_welcome\(user_id=1\) were enqueued, not 1"):
            rota.assert_enqueued(send_welcome, _count=1, user_id=1)

    def test_a_failure_says_what_there_was_instead(self, rota: Harness) -> None:
        with pytest.raises(AssertionError, match=r"no job send_welcome\(user_id=2\) was enqueued; nothing was"):
            rota.assert_enqueued(send_welcome, user_id=2)
        give_up.enqueue()
        with pytest.raises(AssertionError, match=r"of other tasks: give_up \(1\)"):
            rota.assert_enqueued(send_welcome, user_id=2)
        send_welcome.enqueue(1)
        with pytest.raises(AssertionError, match=r"are:\n  send_welcome\(user_id=1, lang='en'\) queued|lang='en', user_id=1"):
            rota.assert_enqueued(send_welcome, user_id=2)
        with pytest.raises(AssertionError, match=r"a job send_welcome\(user_id=1\) was enqueued"):
            rota.assert_not_enqueued(send_welcome, user_id=1)

    def test_what_can_never_be_true_is_refused(self, rota: Harness) -> None:
        with pytest.raises(UsageError, match="no parameter 'user'; it has: user_id, lang"):
            rota.assert_not_enqueued(send_welcome, user=1)
        with pytest.raises(UsageError, match="no task 'send_wellcome'; it has: again,"):
            rota.assert_not_enqueued("send_wellcome")
        with pytest.raises(UsageError, match="state='done' is not a state"):
            rota.jobs(state="done")

    @pytest.mark.req("Q20")
    def test_an_open_transaction_has_enqueued_nothing(self, rota: Harness) -> None:
        with psycopg.connect(rota.dsn) as conn:
            send_welcome.using(conn=conn).enqueue(1)
            rota.assert_not_enqueued(send_welcome)
            conn.rollback()
            send_welcome.using(conn=conn).enqueue(2)
        rota.assert_enqueued(send_welcome, _count=1, user_id=2)

    def test_sql_can_enqueue_too(self, rota: Harness) -> None:
        with psycopg.connect(rota.dsn) as conn:
            conn.execute("SELECT rota.enqueue('send_welcome', '{\"user_id\": 5}')")
        rota.assert_enqueued(send_welcome, user_id=5)


class TestDrain:
    async def test_jobs_run_one_by_one_in_their_order(self, rota: Harness) -> None:
        for number, priority in enumerate((5, 1, 3)):
            await send_welcome.using(priority=priority).aenqueue(number)
        await rota.drain()
        assert [user for user, _, _ in calls] == [1, 2, 0]

    async def test_concurrency_lets_jobs_meet(self, rota: Harness) -> None:
        await meet.aenqueue()
        await meet.aenqueue()
        assert await rota.drain(concurrency=2, raise_errors=True) == {"completed": 2}
        with pytest.raises(UsageError, match="concurrency=0 is out of range"):
            await rota.drain(concurrency=0)

    @pytest.mark.req("S09")
    @pytest.mark.parametrize("concurrency", [1, 3])
    async def test_a_limit_holds_and_all_run(self, rota: Harness, concurrency: int) -> None:
        for n in range(5):
            await narrow.aenqueue(n)
        assert await rota.drain(concurrency=concurrency) == {"completed": 5}
        assert calls == [0, 1, 2, 3, 4]

    async def test_what_is_not_due_stays(self, rota: Harness) -> None:
        await send_welcome.using(delay="10m").aenqueue(1)
        assert await rota.drain() == {}
        assert await rota.drain(travel="9m") == {}
        assert await rota.drain(travel="1m") == {"completed": 1}

    async def test_what_is_due_where_the_clock_stops_runs_however_long_the_look_took(
        self, rota: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        look = Drain.run_once

        async def look_slowly(drain: Drain) -> list[Run]:
            runs = await look(drain)
            if not runs:
                rota.travel("1s")
            return runs

        rota.freeze()
        await send_welcome.using(delay="10m").aenqueue(1)
        monkeypatch.setattr(Drain, "run_once", look_slowly)
        assert await rota.drain(travel="10m") == {"completed": 1}

    @pytest.mark.req("Q07")
    async def test_retries_come_due_on_the_way(self, rota: Harness) -> None:
        await flaky.aenqueue(fail=2)
        assert await rota.drain() == {"failed": 1}
        [job] = rota.jobs(flaky, state="queued")
        assert job.last_error is not None
        assert job.last_error["message"] == "attempt 1"
        assert await rota.drain(travel="1m1s") == {"failed": 1}  # the second, with 2 minutes to wait
        assert await rota.drain(travel="2m") == {"completed": 1}

    @pytest.mark.req("Q07")
    async def test_the_last_attempt_fails_the_job(self, rota: Harness) -> None:
        await flaky.aenqueue(fail=9)
        assert await rota.drain(travel="1h") == {"failed": 3}
        assert [job.attempt for job in rota.jobs(state="failed")] == [3]

    async def test_a_snoozed_job_runs_at_each_of_its_times(self, rota: Harness) -> None:
        rota.freeze()
        await poll.aenqueue()
        assert await rota.drain(travel="5m") == {"snoozed": 6}

    @pytest.mark.parametrize("fails", [False, True])
    async def test_errors_can_be_raised_here(self, rota: Harness, fails: bool) -> None:
        await flaky.aenqueue(fail=int(fails))
        if fails:
            with pytest.raises(ConnectionError, match="attempt 1") as caught:
                await rota.drain(raise_errors=True)
            assert caught.traceback[-1].name == "flaky"
        else:
            assert await rota.drain(raise_errors=True) == {"completed": 1}
        assert [job.state for job in rota.jobs()] == ["queued" if fails else "completed"]

    async def test_other_ends_are_told_apart(self, rota: Harness) -> None:
        await give_up.aenqueue()
        await slow.aenqueue()
        assert await rota.drain() == {"canceled": 1, "failed": 1}

    def test_an_isolated_handler_runs_in_its_own_process_on_the_same_database(self, rota: Harness) -> None:
        apart.enqueue("process")
        assert rota.drain_sync(raise_errors=True) == {"completed": 3}
        [job] = rota.jobs(apart)
        assert job.result.startswith("process ")
        assert job.result != f"process {os.getpid()}"
        rota.assert_enqueued(report, day=date(2026, 5, 1))

    async def test_work_without_end_is_noticed(self, rota: Harness) -> None:
        await again.aenqueue()
        with pytest.raises(UsageError, match=r"more than 20 jobs have run, the last one of again"):
            await rota.drain(max_runs=20)

    def test_a_second_drain_finds_nothing(self, rota: Harness) -> None:
        send_welcome.enqueue(1)
        rota.drain_sync()
        assert rota.drain_sync() == {}


class TestClock:
    def test_it_stands_still_and_travels(self, rota: Harness) -> None:
        rota.freeze(datetime(2030, 3, 31, 0, 30, tzinfo=UTC))
        assert rota.now() == rota.now() == datetime(2030, 3, 31, 0, 30, tzinfo=UTC)
        rota.travel("1d")
        assert rota.now() == datetime(2030, 4, 1, 0, 30, tzinfo=UTC)
        send_welcome.using(delay="1h").enqueue(1)
        assert rota.jobs()[0].run_at == datetime(2030, 4, 1, 1, 30, tzinfo=UTC)

    def test_it_goes_on_unless_frozen(self, rota: Harness) -> None:
        before = rota.now()
        rota.travel(timedelta(hours=2))
        assert rota.now() - before > timedelta(hours=2)
        rota.freeze()
        assert rota.now() - before > timedelta(hours=2)

    def test_a_time_without_zone_is_refused(self, rota: Harness) -> None:
        with pytest.raises(UsageError, match="has no time zone"):
            rota.freeze(datetime(2030, 1, 1))  # noqa: DTZ001

    def test_it_is_right_again_for_the_next_test(self, rota_app: Rota, rota_dsn: str) -> None:
        from rota.contrib.testing.harness import harness

        with harness(rota_app, rota_dsn) as first:
            first.freeze(datetime(2030, 1, 1, tzinfo=UTC))
        with harness(rota_app, rota_dsn) as second:
            assert abs(second.now() - datetime.now(UTC)) < timedelta(minutes=1)


class TestApp:
    def test_it_is_itself_again_afterwards(self, rota_app: Rota, rota_dsn: str) -> None:
        with rota_app.connected_to(rota_dsn):
            assert rota_app.settings.database.dsn == rota_dsn
            send_welcome.enqueue(1)
        assert rota_app.settings.database.dsn == "postgresql://nobody@localhost:1/never"
        query = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'rota enqueue'"
        with psycopg.connect(rota_dsn, autocommit=True) as conn:
            wait_until(lambda: not conn.execute(query).fetchall(), what="for its session to end")

    def test_event_loops_that_are_gone_leave_nothing_open(self, rota: Harness) -> None:
        for number in range(3):
            asyncio.run(_enqueue_twice(number))
        rota.assert_enqueued(send_welcome, _count=6)

    def test_wrong_arguments_are_refused_as_ever(self, rota: Harness) -> None:
        with pytest.raises(PayloadError):
            send_welcome.enqueue(user_id="1")  # type: ignore[arg-type]
        assert rota.jobs() == []


async def _enqueue_twice(number: int) -> None:
    await asyncio.gather(send_welcome.aenqueue(number), send_welcome.aenqueue(number))
