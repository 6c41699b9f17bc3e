"""How tasks fare: what workers add up is what the runs were, to within a bucket."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import given as example
from hypothesis import strategies as st
from tests.support import jobs as given
from tests.support.engine import Engine
from tests.support.wait import until

from rota.control import stats as control
from rota.engine.tally import Tally, merge_stats
from rota.errors import UsageError
from rota.events import Events, RunRescued, RunsFinished
from rota.model.histogram import LAST, bucket, middle, percentile
from rota.model.ids import new_id
from rota.model.retry import Retry
from rota.model.run import Run
from rota.store import stats

Conn = psycopg.Connection[Any]
AConn = psycopg.AsyncConnection[Any]

WAITS = "SELECT true FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
WIDTH = 1.05  # a bucket's middle is no further from what is in it


def ended(task: str = "work", outcome: str = "completed", took_s: float = 0.01, wait_s: float = 0.001) -> Run:
    """A run as the completer hands it on."""
    run = Run(str(new_id()), 1, task, "default", 0, None, "{}", 1, 4, {}, wait_s, 0.0)  # type: ignore[arg-type]
    run.outcome, run.took_s = outcome, took_s
    return run


class TestHistogram:
    @example(st.floats(min_value=1e-4, max_value=1e7))
    def test_a_bucket_is_narrow(self, seconds: float) -> None:
        assert seconds / WIDTH <= middle(bucket(seconds)) <= seconds * WIDTH

    @example(st.floats(min_value=-10, max_value=1e300, allow_nan=False))
    def test_every_time_has_a_bucket(self, seconds: float) -> None:
        assert 0 <= bucket(seconds) <= LAST
        assert middle(bucket(seconds)) >= 0

    @example(st.lists(st.floats(min_value=1e-4, max_value=1e5), min_size=1, max_size=300), st.sampled_from([0.5, 0.95, 0.99]))
    def test_percentiles_are_the_exact_ones_to_within_a_bucket(self, times: list[float], share: float) -> None:
        found = percentile(Counter(map(bucket, times)), share)
        ordered = sorted(times)
        exact = ordered[min(int(-(-share * len(times) // 1)) - 1, len(times) - 1)]
        assert found is not None
        assert exact / WIDTH <= found <= exact * WIDTH

    def test_nothing_has_no_percentiles(self) -> None:
        assert percentile({}, 0.5) is None


@pytest.mark.req("C04")
class TestStats:
    async def test_what_is_read_is_what_was_counted(self, aconn: AConn) -> None:
        source = random.Random(7)
        events = Events()
        tally = Tally(events)
        times = [source.lognormvariate(-3, 1.5) for _ in range(5000)]
        waits = [source.expovariate(10) for _ in range(5000)]
        for n in range(0, 5000, 50):
            events.emit(RunsFinished([ended(took_s=times[k], wait_s=waits[k]) for k in range(n, n + 50)]))
            if n % 1000 == 0:
                await tally.flush(aconn)
        events.emit(RunsFinished([ended(outcome=outcome) for outcome in ("failed", "crashed", "canceled", "snoozed", "released")]))
        events.emit(RunRescued(new_id(), "work", "default", 1, new_id(), "queued"))
        events.emit(RunRescued(new_id(), "work", "default", 4, new_id(), "failed"))
        events.emit(RunsFinished([ended("other")]))
        await tally.flush(aconn)
        assert not tally.pending
        found = await control.task_stats(aconn, "work", period=timedelta(hours=1))
        assert (found.completed, found.failed, found.canceled, found.snoozed, found.released, found.lost) == (5000, 3, 1, 1, 1, 1)
        assert found.failure_rate == pytest.approx(4 / 5004)
        assert found.per_minute == pytest.approx(5004 / 60)
        assert found.duration is not None
        assert found.wait is not None
        for told, exact in ((found.duration, times), (found.wait, waits)):
            cuts = statistics.quantiles(exact, n=100)
            for name, cut in (("p50", cuts[49]), ("p95", cuts[94]), ("p99", cuts[98])):
                assert getattr(told, name).total_seconds() == pytest.approx(cut, rel=0.06), name
        assert [each.task for each in await control.list_stats(aconn, period=timedelta(hours=1))] == ["other", "work"]

    async def test_of_big_batches_all_are_counted_and_enough_are_timed(self, aconn: AConn) -> None:
        source = random.Random(7)
        events = Events()
        tally = Tally(events)
        times = [source.lognormvariate(-3, 0.5) for _ in range(50_000)]
        for n in range(0, 50_000, 500):
            runs = [ended(took_s=took_s) for took_s in times[n : n + 500]]
            events.emit(RunsFinished([*runs, ended("rare", took_s=2.0)]))
        await tally.flush(aconn)
        found = await control.task_stats(aconn, "work", period=timedelta(hours=1))
        assert found.completed == 50_000
        assert found.duration is not None
        cuts = statistics.quantiles(times, n=100)
        for name, cut in (("p50", cuts[49]), ("p95", cuts[94]), ("p99", cuts[98])):
            assert getattr(found.duration, name).total_seconds() == pytest.approx(cut, rel=0.1), name
        rare = await control.task_stats(aconn, "rare", period=timedelta(hours=1))
        assert rare.completed == 100
        assert rare.duration is not None
        assert rare.duration.p50.total_seconds() == pytest.approx(2.0, rel=0.05)

    async def test_merging_changes_nothing_that_is_read(self, conn: Conn, aconn: AConn) -> None:
        events = Events()
        tally = Tally(events)
        clock = timedelta(0)
        for _ in range(40):  # over more than three hours
            given.move_clock(conn, clock - timedelta(hours=7))
            events.emit(
                RunsFinished([ended(took_s=random.random(), outcome=random.choice(["completed", "failed"])) for _ in range(5)])
            )
            await tally.flush(aconn)
            clock += timedelta(minutes=10, seconds=7)
        given.move_clock(conn, timedelta(0))
        before = await control.task_stats(aconn, "work", period=timedelta(days=1))
        assert before.completed + before.failed == 200
        await merge_stats(aconn)
        grains = dict(conn.execute("SELECT grain, count(*) FROM rota.task_stat GROUP BY grain").fetchall())
        assert set(grains) == {"minute", "hour"}
        assert sum(grains.values()) < 40
        assert await control.task_stats(aconn, "work", period=timedelta(days=1)) == before
        await merge_stats(aconn)
        assert dict(conn.execute("SELECT grain, count(*) FROM rota.task_stat GROUP BY grain").fetchall()) == grains

    async def test_mergers_at_once_lose_nothing(self, conn: Conn, aconn: AConn, dsn: str) -> None:
        events = Events()
        tally = Tally(events)
        given.move_clock(conn, -timedelta(minutes=10))
        for _ in range(30):
            events.emit(RunsFinished([ended(f"task {n}") for n in range(10)]))
            await tally.flush(aconn)
        given.move_clock(conn, timedelta(0))
        others = [await psycopg.AsyncConnection.connect(dsn, autocommit=True) for _ in range(4)]
        merges = [stats.merge(other, grain="flush", into="minute", older_than=timedelta(0), limit=20) for other in others]
        await asyncio.gather(*merges)
        await asyncio.gather(*(merge_stats(other) for other in others))
        for other in others:
            await other.close()
        assert sum(each.completed for each in await control.list_stats(aconn, period=timedelta(hours=1))) == 300

    async def test_old_hours_are_forgotten(self, conn: Conn, aconn: AConn) -> None:
        conn.execute("INSERT INTO rota.task_stat (task, grain, at) VALUES ('work', 'hour', rota.now() - interval '40 days')")
        conn.execute("INSERT INTO rota.task_stat (task, grain, at) VALUES ('work', 'hour', rota.now() - interval '30 days')")
        await merge_stats(aconn)
        assert conn.execute("SELECT count(*) FROM rota.task_stat").fetchone() == (1,)

    async def test_what_could_not_be_written_is_written_next_time(self, aconn: AConn) -> None:
        events = Events()
        tally = Tally(events)
        events.emit(RunsFinished([ended()]))
        await aconn.execute("ALTER TABLE rota.task_stat RENAME TO elsewhere")
        with pytest.raises(psycopg.errors.UndefinedTable):
            await tally.flush(aconn)
        events.emit(RunsFinished([ended()]))
        await aconn.execute("ALTER TABLE rota.elsewhere RENAME TO task_stat")
        await tally.flush(aconn)
        assert (await control.task_stats(aconn, "work", period=timedelta(hours=1))).completed == 2

    @pytest.mark.parametrize("is_broken_off", [False, True])
    async def test_who_writes_last_waits_for_who_is_at_it(self, dsn: str, conn: Conn, aconn: AConn, is_broken_off: bool) -> None:
        events = Events()
        tally = Tally(events)
        events.emit(RunsFinished([ended()]))
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as other:
            with psycopg.connect(dsn) as locker:
                locker.execute("LOCK rota.task_stat IN EXCLUSIVE MODE")
                first = asyncio.create_task(tally.flush(aconn))
                await until(lambda: conn.execute(WAITS, [aconn.info.backend_pid]).fetchone(), what="the first waits")
                assert tally.pending
                last = asyncio.create_task(tally.flush(other))
                if is_broken_off:
                    first.cancel()
                    await asyncio.wait({first})
            await last
            assert first.cancelled() if is_broken_off else first.done()
            assert not tally.pending
            assert (await control.task_stats(other, "work", period=timedelta(hours=1))).completed == 1

    async def test_a_run_claimed_before_it_was_due_counts_as_one_that_did_not_wait(self, aconn: AConn) -> None:
        events = Events()
        tally = Tally(events)
        events.emit(RunsFinished([ended(wait_s=-3.0), ended()]))
        await tally.flush(aconn)
        found = await control.task_stats(aconn, "work", period=timedelta(hours=1))
        assert found.completed == 2
        assert found.wait is not None
        assert found.wait.p50 == timedelta(0)

    async def test_a_task_that_has_not_run_has_zeros(self, aconn: AConn) -> None:
        found = await control.recent_stats(aconn, "work")
        assert list(found) == ["1h", "24h", "7d"]
        assert {each.completed for each in found.values()} == {0}
        assert found["7d"].failure_rate is found["7d"].duration is None

    @pytest.mark.parametrize("period", [timedelta(seconds=1), timedelta(days=36)])
    async def test_a_period_out_of_range_is_refused(self, aconn: AConn, period: timedelta) -> None:
        with pytest.raises(UsageError, match="from 1 minute to 35 days"):
            await control.list_stats(aconn, period=period)

    @pytest.mark.req("C11")
    async def test_rotas_own_are_hidden_unless_asked_for(self, aconn: AConn) -> None:
        events = Events()
        tally = Tally(events)
        events.emit(RunsFinished([ended("rota.tick")]))
        await tally.flush(aconn)
        assert await control.list_stats(aconn, period=timedelta(hours=1)) == []
        assert len(await control.list_stats(aconn, period=timedelta(hours=1), system=True)) == 1


@pytest.mark.req("C04")
async def test_a_worker_writes_down_what_it_has_counted_at_the_latest_when_it_stops(dsn: str, conn: Conn, aconn: AConn) -> None:
    engine = Engine(dsn, conn)

    @engine.task(retry=Retry(max_attempts=1))
    async def work(n: int) -> None:
        if n == 3:
            raise ValueError(uuid4())

    async with engine.worker(), engine.worker():
        for n in range(10):
            engine.enqueue(work, {"n": n}, max_attempts=1)
        await until(lambda: engine.count() == 0, what="all jobs ended")
    found = await control.task_stats(aconn, "work", period=timedelta(hours=1))
    assert (found.completed, found.failed) == (9, 1)


async def test_workers_of_one_application_each_count_their_own(dsn: str, conn: Conn, aconn: AConn) -> None:
    """They share the application's events."""
    engine = Engine(dsn, conn)

    @engine.task
    async def work() -> None: ...

    workers = [engine.make_worker() for _ in range(2)]
    workers[1].events = workers[0].events
    running = [asyncio.create_task(worker.run()) for worker in workers]
    for _ in range(10):
        engine.enqueue(work)
    await until(lambda: engine.count() == 0, what="all jobs ended")
    for worker in workers:
        worker.stop()
    await asyncio.gather(*running)
    assert (await control.task_stats(aconn, "work", period=timedelta(hours=1))).completed == 10
