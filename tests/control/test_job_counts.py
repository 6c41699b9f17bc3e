"""Counts by state and queue beyond 10,000: an estimate that follows, and which says that it is one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import psycopg
import pytest
from tests.support import jobs as given
from tests.support.engine import Engine
from tests.support.serving import serving, settings_for
from tests.support.wait import until

from rota import Rota
from rota.control import facets, overview, service
from rota.db.connection import connect_async
from rota.engine.depth import Depth, JobCounter
from rota.events import Events, QueuesMeasured
from rota.model.capped import Capped
from rota.model.filters import JobFilter
from rota.store.job_counts import by_state

pytestmark = pytest.mark.req("T06")

Conn = psycopg.Connection
AConn = psycopg.AsyncConnection
MANY = 12_345


def about(count: int) -> Capped:
    return Capped(count, estimated=True)


def add(conn: Conn, count: int, state: str = "queued", queue: str = "default", task: str = "work") -> None:
    conn.execute(
        """INSERT INTO rota.job (id, task, queue, state, pending_parents)
           SELECT rota.uuid7(), %(task)s, %(queue)s, %(state)s, %(parents)s
           FROM generate_series(1, %(count)s)""",
        {"count": count, "state": state, "parents": int(state == "waiting"), "queue": queue, "task": task},
    )


@pytest.fixture
async def counter(dsn: str) -> AsyncIterator[JobCounter]:
    counter = JobCounter(lambda: connect_async(dsn, "counter"), Events())
    yield counter
    await counter.aclose()


@pytest.fixture
def later(conn: Conn) -> Callable[[], None]:
    """Let the pause until the next count be over."""
    return lambda: conn.execute("DELETE FROM rota.lock") and None


async def count(counter: JobCounter, aconn: AConn) -> None:
    await counter.run_once(aconn)
    await counter.wait()


class TestLive:
    async def test_before_the_first_count_there_is_a_lower_bound(self, conn: Conn, aconn: AConn) -> None:
        add(conn, MANY)
        assert (await by_state(aconn))["queued"] == Capped(10_000, capped=True)

    async def test_stats_and_overview_go_beyond_the_cap(self, conn: Conn, aconn: AConn, counter: JobCounter) -> None:
        add(conn, MANY)
        add(conn, 20_000, "delayed")
        add(conn, 3, "waiting")
        await count(counter, aconn)
        states = await by_state(aconn)
        assert (states["queued"], states["waiting"]) == (about(32_345), Capped(3))
        seen = await overview.overview(aconn, lambda _operation: True)
        assert (seen.queued, seen.delayed) == (about(32_345), about(20_000))

    async def test_system_tasks_are_left_out(self, conn: Conn, aconn: AConn, counter: JobCounter) -> None:
        add(conn, MANY)
        add(conn, MANY, task="rota.tick")
        await count(counter, aconn)
        assert (await by_state(aconn))["queued"] == about(MANY)

    async def test_every_queue_has_its_own(self, conn: Conn, aconn: AConn, counter: JobCounter) -> None:
        conn.execute("INSERT INTO rota.queue (name) VALUES ('big'), ('later'), ('small')")
        add(conn, MANY, queue="big")
        add(conn, 100_001, "delayed", queue="later")
        add(conn, 7, "delayed", queue="big")
        add(conn, 5, queue="small")
        await count(counter, aconn)
        big, later, small = await service.list_queues(aconn)
        assert (big.ready, big.delayed) == (about(MANY), about(7))
        assert (later.ready, later.delayed) == (Capped(0), about(100_001))
        assert small.ready == Capped(5)

    async def test_the_gauge_does_not_saturate(self, conn: Conn, aconn: AConn, counter: JobCounter) -> None:
        conn.execute("INSERT INTO rota.queue (name) VALUES ('default')")
        add(conn, MANY)
        await count(counter, aconn)
        events, seen = Events(), list[QueuesMeasured]()
        events.subscribe(QueuesMeasured, seen.append)
        await Depth(events).measure(aconn)
        assert seen[0].queues[0].jobs["ready"] == MANY

    async def test_tasks_and_queues_that_a_search_can_be_narrowed_to(self, conn: Conn, aconn: AConn, counter: JobCounter) -> None:
        add(conn, MANY, queue="mail", task="old")
        add(conn, MANY)
        search = JobFilter(states=("queued",))
        found = await facets.job_facets(aconn, search)
        assert [(each.value, each.count) for each in found.tasks] == [("work", Capped(10_000, capped=True))]
        await count(counter, aconn)
        found = await facets.job_facets(aconn, search)
        assert [(each.value, each.count) for each in found.tasks] == [("old", about(MANY)), ("work", about(MANY))]
        assert [(each.value, each.count) for each in found.queues] == [("default", about(MANY)), ("mail", about(MANY))]
        assert not found.complete
        found = await facets.job_facets(aconn, JobFilter(queue="mail"))
        assert [(each.value, each.count) for each in found.tasks] == [("old", about(MANY))]

    async def test_counts_of_one_task_or_queue(self, conn: Conn, aconn: AConn, counter: JobCounter) -> None:
        add(conn, MANY, queue="mail")
        add(conn, MANY, task="other")
        await count(counter, aconn)
        for filter in (JobFilter(task="work"), JobFilter(queue="mail"), JobFilter(states=("queued",), task="work", queue="mail")):
            assert (await facets.job_facets(aconn, filter)).states["queued"] == about(MANY)
        assert (await service.count_jobs(aconn, JobFilter(states=("queued",)))) == about(2 * MANY)


class TestCounting:
    async def test_estimates_follow(self, conn: Conn, aconn: AConn, counter: JobCounter, later: Callable[[], None]) -> None:
        add(conn, MANY)
        await count(counter, aconn)
        add(conn, 1000)
        later()
        await count(counter, aconn)
        assert (await by_state(aconn))["queued"] == about(MANY + 1000)
        conn.execute("DELETE FROM rota.job WHERE id IN (SELECT id FROM rota.job LIMIT 5000)")
        assert (await by_state(aconn))["queued"] == Capped(MANY - 4000)  # exact as soon as it can be
        later()
        await count(counter, aconn)
        assert conn.execute("SELECT * FROM rota.job_count").fetchall() == []

    async def test_one_process_counts_at_a_time(self, conn: Conn, aconn: AConn, counter: JobCounter, dsn: str) -> None:
        add(conn, MANY)
        await count(counter, aconn)
        add(conn, 1000)
        other = JobCounter(lambda: connect_async(dsn, "counter"), Events())
        for each in (other, counter):
            await count(each, aconn)
        assert (await by_state(aconn))["queued"] == about(MANY)

    async def test_few_jobs_are_not_counted_in_the_background(self, conn: Conn, aconn: AConn, dsn: str) -> None:
        async def refuse() -> AConn:
            raise AssertionError("it connects")

        add(conn, 100)
        await count(JobCounter(refuse, Events()), aconn)

    async def test_workers_count(self, dsn: str, conn: Conn, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rota.engine.worker.COUNT_EVERY_S", 0.1)
        add(conn, MANY, queue="other")
        async with Engine(dsn, conn).worker():
            await until(lambda: conn.execute("SELECT sum(jobs) FROM rota.job_count").fetchone() == (MANY,))

    async def test_servers_without_a_worker_count(self, dsn: str, conn: Conn) -> None:
        add(conn, MANY)
        async with serving(Rota(settings=settings_for(dsn))):
            await until(lambda: conn.execute("SELECT sum(jobs) FROM rota.job_count").fetchone() == (MANY,))

    async def test_an_old_count_is_no_estimate(self, conn: Conn, aconn: AConn, counter: JobCounter) -> None:
        conn.execute("INSERT INTO rota.queue (name) VALUES ('default')")
        add(conn, MANY)
        await count(counter, aconn)
        conn.execute("UPDATE rota.job_count SET counted_at = rota.now() - %s", [timedelta(hours=1)])
        assert (await by_state(aconn))["queued"] == Capped(10_000, capped=True)
        assert (await service.list_queues(aconn))[0].ready == Capped(10_000, capped=True)


async def test_finished_jobs_are_estimated_by_the_planner(conn: Conn, aconn: AConn) -> None:
    conn.execute(
        """INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, finished_at, payload, created_at)
           SELECT rota.uuid7(), 1, CASE WHEN n % 5 = 0 THEN 'rota.tick' ELSE 'work' END, 'default',
                  CASE WHEN n % 4 = 0 THEN 'failed' ELSE 'completed' END, true, rota.now(), '{}', rota.now()
           FROM generate_series(1, 60000) n"""
    )
    assert (await by_state(aconn))["completed"].capped
    given.declare(conn, "rota.tick")
    conn.execute("ANALYZE rota.run")
    states = await by_state(aconn)
    assert states["completed"].estimated
    assert 30_000 < states["completed"].count < 42_000  # 36,000; the statistics are of a sample
    assert states["canceled"] == Capped(0)


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (Capped(12_345), "12,345"),
        (Capped(10_000, capped=True), "10k+"),
        (about(61_234), "≈ 61k"),
        (about(999_400), "≈ 999k"),
        (about(999_600), "≈ 1.0M"),
        (about(1_240_000), "≈ 1.2M"),
        (about(7), "≈ 7"),
        (Capped.sum([Capped(1), about(20_000)]), "≈ 20k"),
        (Capped.sum([Capped(3), Capped(10_000, capped=True), about(20_000)]), "30,003+"),
    ],
)
def test_words_say_which_it_is(count: Capped, words: str) -> None:
    assert str(count) == words
