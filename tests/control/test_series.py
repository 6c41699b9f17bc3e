"""Throughput and latency over time: every run is in one slot, none is in two, and percentiles are those of the slot."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as example
from hypothesis import strategies as st
from tests.support import jobs as given
from tests.support.shop import open_shop

from rota.contrib.testing.clock import Clock
from rota.control import series as control
from rota.engine.tally import merge_stats
from rota.errors import UsageError
from rota.model.histogram import bucket

pytestmark = pytest.mark.req("D03")

Conn = psycopg.Connection[Any]
AConn = psycopg.AsyncConnection[Any]

NOW = datetime(2030, 3, 30, 12, 34, 56, tzinfo=UTC)


def count(
    conn: Conn, ago: timedelta, *, task: str = "work", grain: str = "flush", times: list[float] | None = None, **outcomes: int
) -> None:
    """Write down what a worker has counted."""
    buckets = sorted({bucket(each) for each in times or []})
    counts = [sum(bucket(each) == of for each in times or []) for of in buckets]
    names = {"completed": 0, "failed": 0, "lost": 0, "canceled": 0, **outcomes}
    conn.execute(
        """INSERT INTO rota.task_stat (task, grain, at, completed, failed, lost, canceled,
                                       duration_buckets, duration_counts, wait_buckets, wait_counts)
           VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)""",
        [task, grain, NOW - ago, *names.values(), buckets, counts, buckets, counts],
    )


@pytest.fixture
def clock(conn: Conn) -> None:
    """Let time stand still."""
    Clock(conn).freeze(NOW)


@pytest.mark.usefixtures("clock")
class TestSeries:
    @pytest.mark.parametrize(
        ("period", "width", "slots"), [("1h", 60, 60), ("6h", 300, 72), ("24h", 3600, 24), ("7d", 7200, 84), ("30d", 21600, 120)]
    )
    async def test_slots(self, aconn: AConn, period: Any, width: int, slots: int) -> None:
        found = await control.series(aconn, period=period)
        assert (found.width, len(found.at)) == (width, slots)
        assert [after - before for before, after in pairwise(found.at)] == [width] * (slots - 1)
        assert found.at[-1] <= NOW.timestamp() < found.at[-1] + width
        for column in (found.completed, found.failed, found.canceled):
            assert column == [0] * slots
        for percentiles in (found.p50, found.p95, found.wait_p50, found.wait_p95):
            assert percentiles == [None] * slots
        assert (found.complete, found.hourly_before) == (True, None)

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @example(
        st.lists(st.tuples(st.integers(0, 31 * 86400), st.integers(0, 1000), st.integers(0, 50)), max_size=30),
        st.sampled_from(["1h", "6h", "24h", "7d", "30d"]),
        st.booleans(),
    )
    async def test_every_run_is_in_its_slot(
        self, conn: Conn, aconn: AConn, ended: list[tuple[int, int, int]], period: Any, merged: bool
    ) -> None:
        conn.execute("DELETE FROM rota.task_stat")
        for seconds_ago, completed, failed in ended:
            count(conn, timedelta(seconds=seconds_ago), completed=completed, failed=failed, lost=1)
        if merged:
            await merge_stats(aconn)
        found = await control.series(aconn, period=period)
        begin = found.at[0]
        if merged and found.width < 3600:
            # Hours that are spread: each as a whole, but for the one that reaches beyond the beginning.
            whole = [each for each in ended if (NOW.timestamp() - each[0]) // 3600 * 3600 >= begin]
            some = [each for each in ended if NOW.timestamp() - each[0] >= begin - 3600]
            assert sum(each[1] for each in whole) <= sum(found.completed) <= sum(each[1] for each in some)
        else:
            expected = dict.fromkeys(found.at, 0)
            for seconds_ago, completed, _ in ended:
                at = int(NOW.timestamp() - seconds_ago) // found.width * found.width
                if at in expected:
                    expected[at] += completed
            assert found.completed == list(expected.values())
            within = [each for each in ended if NOW.timestamp() - each[0] >= begin]
            assert sum(found.failed) == sum(each[2] + 1 for each in within)

    async def test_an_hour_is_spread_over_its_slots(self, conn: Conn, aconn: AConn) -> None:
        hour = NOW.replace(minute=0, second=0)
        count(conn, NOW - hour + timedelta(hours=4), grain="hour", completed=25, times=[1.0] * 25)
        count(conn, timedelta(minutes=1), completed=7, times=[4.0] * 7)
        found = await control.series(aconn, period="6h")
        begin = int((hour - timedelta(hours=4)).timestamp())
        place = found.at.index(begin)
        assert found.completed[place : place + 12] == [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3]
        assert sum(found.completed) == 32
        assert found.hourly_before == begin + 3600
        assert {round(each or 0, 1) for each in found.p50[place : place + 12]} == {1.0}
        assert (found.p95[-1] or found.p95[-2]) == pytest.approx(4.0, rel=0.05)

    async def test_percentiles_are_those_of_their_slot(self, conn: Conn, aconn: AConn) -> None:
        count(conn, timedelta(minutes=2), completed=100, times=[0.1] * 90 + [9.0] * 10)
        count(conn, timedelta(minutes=2), task="other", completed=100, times=[0.1] * 100)
        count(conn, timedelta(minutes=9), failed=1, times=[60.0])
        found = await control.series(aconn, period="1h")
        place = found.at.index(int((NOW - timedelta(minutes=2)).timestamp()) // 60 * 60)
        assert found.p50[place] == pytest.approx(0.1, rel=0.05)
        assert found.p95[place] == pytest.approx(0.1, rel=0.05)
        one = await control.series(aconn, period="1h", task="work")
        assert one.p95[place] == pytest.approx(9.0, rel=0.05)
        assert one.wait_p50[place] == pytest.approx(0.1, rel=0.05)
        assert [n for n, each in enumerate(one.p50) if each is not None] == [place - 7, place]

    async def test_whose_runs(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "post", queue="mail")
        for task in ("work", "post", "rota.prune"):
            count(conn, timedelta(minutes=1), task=task, completed=1)
        sums = [
            sum((await control.series(aconn, **options)).completed)
            for options in ({}, {"system": True}, {"task": "work"}, {"task": "rota.prune"}, {"queue": "mail"}, {"queue": "none"})
        ]
        assert sums == [2, 3, 1, 1, 1, 0]
        for wrong in ({"period": "2h"}, {"task": "work", "queue": "mail"}, {"task": "a\0"}):
            with pytest.raises(UsageError):
                await control.series(aconn, **wrong)  # type: ignore[arg-type]

    async def test_too_much_to_add_up_is_told(self, conn: Conn, aconn: AConn, monkeypatch: pytest.MonkeyPatch) -> None:
        for n in range(9):
            count(conn, timedelta(minutes=n), completed=1)
        monkeypatch.setattr(control, "ROWS", 5)
        found = await control.series(aconn, period="1h")
        assert (found.complete, sum(found.completed)) == (False, 5)  # the newest
        assert sum(found.completed[-6:]) == 5


async def test_over_http(dsn: str, conn: Conn) -> None:
    async with open_shop(dsn) as shop:
        conn.execute("INSERT INTO rota.task_stat (task, at, completed) VALUES ('send', rota.now(), 3)")
        found = await shop.get("/stats/series", period="1h", queue="mail")
        assert sum(found["completed"]) == 3
        assert {len(found[name]) for name in ("at", "completed", "failed", "canceled", "p50", "p95", "wait_p50", "wait_p95")} == {
            60
        }
        assert await shop.refused("GET", "/stats/series", params={"period": "2h"}) == (422, "validation")
        assert await shop.refused("GET", "/stats/series", params={"task": "a", "queue": "b"}) == (422, "usage")
