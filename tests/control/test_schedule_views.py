"""Schedules as operators see them: pages, next times, and the story of their instants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from tests.support import jobs as given

from rota.contrib.testing.clock import Clock
from rota.control import schedule_views as views
from rota.control import schedules
from rota.db.carriers import AsyncPsycopgCarrier
from rota.db.connection import AsyncConn
from rota.db.steps import carry_out_async
from rota.engine.scheduler import Scheduler
from rota.errors import NotFound, UsageError
from rota.events import Events
from rota.model.schedule import cron, every, init
from rota.store import schedule_reads

Conn = psycopg.Connection[Any]
NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)


@pytest.fixture
def clock(conn: Conn) -> Clock:
    clock = Clock(conn)
    clock.freeze(NOON)
    given.declare(conn, "work")
    return clock


async def make(aconn: AsyncConn, name: str, timing: Any, **options: Any) -> None:
    await carry_out_async(AsyncPsycopgCarrier(aconn), schedules.create(name, "work", timing, **options))


async def tick(aconn: AsyncConn) -> None:
    await Scheduler(Events()).tick(aconn)


async def line(aconn: AsyncConn, **filter: Any) -> schedule_reads.ScheduleLine:
    [line] = (await views.list_schedules(aconn, **filter)).schedules
    return line


class TestList:
    async def test_the_last_firing(self, aconn: AsyncConn, conn: Conn, clock: Clock) -> None:
        worker = given.start_worker(conn)
        await make(aconn, "beat", every("1h", overlap="skip"))
        assert views.last_state(await line(aconn)) is None
        clock.move(timedelta(hours=1))
        await tick(aconn)
        assert views.last_state(await line(aconn)) == "queued"
        clock.move(timedelta(hours=1))
        await tick(aconn)
        assert views.last_state(await line(aconn)) == "skipped: overlap"
        given.fail(conn, worker)
        clock.move(timedelta(hours=1))
        await tick(aconn)
        [(job, token)] = given.claim(conn, worker)
        assert views.last_state(await line(aconn)) == "running"
        given.finish(conn, job, token, worker, "completed")
        assert views.last_state(await line(aconn)) == "completed"
        conn.execute("DELETE FROM rota.run")
        assert views.last_state(await line(aconn)) == "fired"  # its history is gone

    async def test_the_last_firing_of_an_init_task(self, aconn: AsyncConn, conn: Conn, clock: Clock) -> None:
        worker = given.start_worker(conn)
        await make(aconn, "once", init)
        await tick(aconn)
        assert views.last_state(await line(aconn)) == "queued"
        given.fail(conn, worker)
        assert views.last_state(await line(aconn)) == "failed"

    async def test_the_last_firing_of_a_recurring_row(self, aconn: AsyncConn, conn: Conn, clock: Clock) -> None:
        worker = given.start_worker(conn)
        conn.execute("SELECT rota.ensure_recurring('work', 'a')")
        assert views.last_state(await line(aconn, recurring=True)) is None
        await tick(aconn)
        assert views.last_state(await line(aconn, recurring=True)) == "queued"
        [(job, token)] = given.claim(conn, worker)
        given.finish(conn, job, token, worker, "completed", delay=timedelta(minutes=1))
        assert views.last_state(await line(aconn, recurring=True)) == "completed"
        clock.move(timedelta(minutes=1))
        await tick(aconn)
        given.fail(conn, worker)
        assert views.last_state(await line(aconn, recurring=True)) == "failed, 1 in a row"

    async def test_failing_rows_in_pages(self, aconn: AsyncConn, conn: Conn, clock: Clock) -> None:
        for number in range(5):
            conn.execute("SELECT rota.ensure_recurring('work', %s)", [f"{number}"])
        # Two at the same time: the order is still one.
        conn.execute("UPDATE rota.schedule SET failing_since = rota.now() - (key::int / 2) * interval '1 hour'")
        labels, after = [], None
        while True:
            page = await views.list_schedules(aconn, failing=True, after=after, limit=2)
            labels += [each.record.label for each in page.schedules]
            if (after := page.next) is None:
                break
        assert labels[0] == "work/4"
        assert sorted(labels) == [f"work/{number}" for number in range(5)]

    async def test_a_limit_out_of_range(self, aconn: AsyncConn) -> None:
        for limit in (0, 1001):
            with pytest.raises(UsageError, match=f"limit={limit} is out of range: from 1 to 1000"):
                await views.list_schedules(aconn, limit=limit)

    async def test_a_page_of_many_is_found_by_index(self, aconn: AsyncConn, conn: Conn) -> None:
        conn.execute(
            """INSERT INTO rota.schedule (task, key, strategy, every)
               SELECT 'task-' || n % 3, n, 'recurring', '1 hour' FROM generate_series(1, 30000) n"""
        )
        conn.execute("INSERT INTO rota.schedule (name, task, strategy, every) VALUES ('one', 'task-1', 'interval', '1 hour')")
        conn.execute("UPDATE rota.schedule SET failing_since = rota.now() WHERE key = '77'")
        await aconn.execute("SET enable_seqscan = off")  # as the command line's sessions have it
        await aconn.execute("SET enable_bitmapscan = off")
        read = "SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables WHERE relid = 'rota.schedule'::regclass"
        for filter, found in (
            ({}, 1),
            ({"recurring": True, "limit": 20}, 20),
            ({"task": "task-1", "limit": 20}, 20),
            ({"task": "task-1", "after": "task-1/5", "limit": 20}, 20),
            ({"failing": True}, 1),
        ):
            async with aconn.transaction():
                assert len((await views.list_schedules(aconn, **filter)).schedules) == found
                row = await (await aconn.execute(read)).fetchone()
                assert row is not None
                assert row[0] <= 200, f"{filter} read {row[0]} rows"


class TestUpcoming:
    async def times(self, aconn: AsyncConn, count: int = 3) -> list[str]:
        return [f"{each.at_utc:%d %H:%M}" for each in await views.next_times(aconn, "beat", count)]

    async def test_cron_in_its_zone(self, aconn: AsyncConn, clock: Clock) -> None:
        await make(aconn, "beat", cron("0 9 * * *", tz="Asia/Tokyo"))
        [first, *_] = await views.next_times(aconn, "beat", 3)
        assert first.local.isoformat() == "2030-06-02T09:00:00+09:00"
        assert await self.times(aconn) == ["02 00:00", "03 00:00", "04 00:00"]

    async def test_bounds(self, aconn: AsyncConn, clock: Clock) -> None:
        bounds = {"starts_at": NOON + timedelta(days=1), "ends_at": NOON + timedelta(days=2)}
        await make(aconn, "beat", cron("0 12 * * *", **bounds))
        assert await self.times(aconn) == ["02 12:00", "03 12:00"]

    async def test_one_that_is_overdue_comes_first(self, aconn: AsyncConn, clock: Clock) -> None:
        await make(aconn, "beat", every("1h"))
        clock.move(timedelta(minutes=90))
        assert await self.times(aconn) == ["01 13:00", "01 14:00", "01 15:00"]

    async def test_one_that_is_not_planned_yet(self, aconn: AsyncConn, conn: Conn, clock: Clock) -> None:
        await make(aconn, "beat", cron("0 * * * *"))
        conn.execute("UPDATE rota.schedule SET next_run_at = NULL")
        assert await self.times(aconn) == ["01 13:00", "01 14:00", "01 15:00"]

    async def test_none(self, aconn: AsyncConn, conn: Conn, clock: Clock) -> None:
        await make(aconn, "beat", every("1h"), enabled=False)
        assert await self.times(aconn) == []
        with pytest.raises(NotFound, match="there is no schedule 'bat'"):
            await views.next_times(aconn, "bat", 3)


class TestStory:
    async def test_the_last_thirty(self, aconn: AsyncConn, clock: Clock) -> None:
        await make(aconn, "beat", every("1m", misfire="all"))
        clock.move(timedelta(minutes=40))
        await tick(aconn)
        detail = await views.show_schedule(aconn, "beat")
        assert len(detail.ledger) == 30
        assert detail.ledger[0].instant == NOON + timedelta(minutes=40)
        assert [line.instant for line in detail.ledger] == sorted((line.instant for line in detail.ledger), reverse=True)

    async def test_what_was_skipped_says_why_and_how_much(self, aconn: AsyncConn, clock: Clock) -> None:
        await make(aconn, "beat", cron("* * * * *", misfire="skip"))
        clock.move(timedelta(minutes=30, seconds=59))
        await tick(aconn)
        [fired, skipped] = (await views.show_schedule(aconn, "beat")).ledger
        assert (fired.outcome, fired.state, fired.instant) == ("fired", "queued", NOON + timedelta(minutes=30))
        assert (skipped.outcome, skipped.reason, skipped.instants) == ("skipped", "misfire", 29)
        assert (skipped.instant, skipped.until) == (NOON + timedelta(minutes=1), NOON + timedelta(minutes=29))

    async def test_a_firing_tells_of_its_job(self, aconn: AsyncConn, conn: Conn, clock: Clock) -> None:
        worker = given.start_worker(conn)
        await make(aconn, "beat", every("1h"))
        clock.move(timedelta(hours=1, seconds=2))
        await tick(aconn)
        job = given.fail(conn, worker, error="no route to host")
        [fired] = (await views.show_schedule(aconn, "beat")).ledger
        assert (fired.job_id, fired.state, fired.error) == (job, "failed", "ValueError: no route to host")
        assert fired.decided_at - fired.instant == timedelta(seconds=2)
        assert fired.started_at is not None
        assert fired.finished_at is not None
