"""The database goes away, in all the ways it does: everything heals by itself, is told once, and nothing is lost."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from structlog.testing import capture_logs
from tests.support.engine import Engine
from tests.support.faulty import app
from tests.support.postgres import Databases, migrate
from tests.support.processes import WorkerProcess
from tests.support.proxy import Proxy
from tests.support.wait import NEVER_S, PATIENCE_S, until, wait_until

from rota.db.embedded import EmbeddedPostgres
from rota.engine.claimer import Claimer
from rota.engine.journal import Journal
from rota.events import DatabaseBack, DatabaseLost, RunLeaseLost, RunsFinished, WorkerDied

ROTA = "application_name LIKE 'rota %' AND datname = current_database()"


@pytest.fixture
def proxy(postgres: Databases, dsn: str) -> Iterator[Proxy]:
    with Proxy(postgres.tcp_dsn(urlsplit(dsn).path.lstrip("/"))) as proxy:
        yield proxy


@pytest.mark.fault(7)
@pytest.mark.req("H09")
async def test_terminated_backends_are_replaced(engine: Engine) -> None:
    """Over and over, in the middle of everything: each job ends once, and no worker is taken for dead."""
    ended: Counter[str] = Counter()

    @engine.task
    async def work() -> None:
        await asyncio.sleep(0.001)

    async with engine.worker(concurrency=8, heartbeat_s=0.2) as worker, engine.worker(concurrency=8, heartbeat_s=0.2) as other:
        for each in (worker, other):
            each.events.subscribe(RunsFinished, lambda event: ended.update(run.id for run in event.runs))
        engine.fill(work, 3000)
        for _ in range(15):
            engine.conn.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ROTA} AND random() < 0.5")
            await asyncio.sleep(0.1)
        await engine.drained()
        # All are back but perhaps a completer, which learns that its connection is gone when it has something to say.
        await until(lambda: engine.count(f"pg_stat_activity WHERE {ROTA} AND application_name !~ 'completer'") == 8)
    assert engine.count("rota.run WHERE final AND outcome = 'completed'") == 3000
    assert max(ended.values()) == 1
    assert engine.seen(DatabaseLost) != []
    assert engine.seen(WorkerDied) == []


@pytest.mark.fault(7)
@pytest.mark.req("H09")
def test_an_immediate_restart_of_the_server_heals(own_postgres: EmbeddedPostgres) -> None:
    dsn = own_postgres.dsn()
    migrate(dsn)
    with psycopg.connect(dsn, autocommit=True) as conn:
        Engine(dsn, conn).fill("noop", 30_000)
    with WorkerProcess("tests.support.faulty:app", dsn) as worker:
        worker.wait_ready()
        first = worker.worker_id
        for _ in range(2):
            _progress(dsn, 1000)
            before = _completed(dsn)
            own_postgres.restart("immediate")
            assert _completed(dsn) >= before, "what was recorded is gone"
            _progress(dsn, 1)
        wait_until(lambda: _completed(dsn) == 30_000)
        assert worker.code is None, "it was not restarted"
    with psycopg.connect(dsn, autocommit=True) as conn:
        assert conn.execute("SELECT count(*), count(DISTINCT job_id) FROM rota.run WHERE final").fetchone() == (30_000, 30_000)
        assert conn.execute("SELECT id, stop_reason FROM rota.worker").fetchall() == [(first, None)]


def _completed(dsn: str) -> int:
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute("SELECT count(*) FROM rota.run").fetchone()
    assert row is not None
    return int(row[0])


def _progress(dsn: str, jobs: int) -> None:
    target = _completed(dsn) + jobs
    wait_until(lambda: _completed(dsn) >= min(target, 30_000), what="progress")


@pytest.mark.fault(6)
@pytest.mark.parametrize("service", ["claimer", "completer", "heartbeat", "upkeep"])
async def test_a_half_open_connection_is_replaced_and_reported(engine: Engine, proxy: Proxy, service: str) -> None:
    """Nothing comes through any more, and nobody says so. For the claimer's, that is also every NOTIFY lost."""
    told: list[str] = []

    @engine.task
    async def work() -> None: ...

    with pytest.MonkeyPatch.context() as patch:
        for module in ("claimer", "completer", "heartbeat", "upkeep"):
            patch.setattr(f"rota.engine.{module}.ANSWER_WITHIN_S", 1.0)
        async with engine.worker(dsn=proxy.dsn, poll_interval_s=0.5, heartbeat_s=0.3) as worker:
            worker.events.subscribe(DatabaseLost, lambda event: told.append(event.service))
            await engine.ended(engine.enqueue(work))
            await until(lambda: engine.count("rota.worker WHERE wants_wake") == 1)
            proxy.strand(f"rota {service}")
            id = engine.enqueue(work)
            await until(lambda: service in told, what="it is reported")
            await engine.ended(id)
            await until(lambda: service in [event.service for event in engine.seen(DatabaseBack)])
            assert worker.options.lease_s == 300
    assert engine.outcomes(id) == ["completed"]


@pytest.mark.fault(6)
async def test_every_notify_lost_is_no_more_than_slower(engine: Engine, proxy: Proxy) -> None:
    """The claimer's connection is dead while the worker sleeps: the poll finds out, within its interval and the patience."""

    @engine.task
    async def work() -> None: ...

    async with engine.worker(dsn=proxy.dsn, poll_interval_s=0.2):
        await until(lambda: engine.count("rota.worker WHERE wants_wake") == 1)
        engine.conn.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ROTA} AND application_name LIKE '%claimer'"
        )
        await engine.ended(engine.enqueue(work))


@pytest.mark.fault(18)
async def test_an_outage_is_told_in_a_few_lines_and_ends_by_itself(engine: Engine, proxy: Proxy) -> None:
    """At most a line a second, whatever the number of connections that are away, and tries that are never far apart."""
    begun, gate = asyncio.Event(), asyncio.Event()

    @engine.task
    async def work() -> None:
        begun.set()
        await gate.wait()

    with capture_logs() as lines:
        async with engine.worker(dsn=proxy.dsn, concurrency=2) as worker:
            Journal(worker.events, worker.id)
            running = engine.enqueue(work)
            await until(begun.is_set)
            lines.clear()
            proxy.refuse()
            waiting = engine.enqueue(work)
            gate.set()  # it ends while there is nobody to tell
            began = time.monotonic()
            await until(lambda: len(engine.seen(DatabaseLost)) >= 30 and lines, what="thirty tries to come back")
            outage_s = time.monotonic() - began
            said = [line for line in lines if line["log_level"] != "debug"]
            assert 1 <= len(said) <= 1 + outage_s, said
            waits: dict[str, list[float]] = defaultdict(list)
            for event in engine.seen(DatabaseLost):
                waits[event.service].append(event.retry_in_s)
            for seconds in waits.values():
                assert all(wait >= 0.8 for wait in seconds[5:]), f"it knocks too often: {waits}"
                assert max(seconds) <= 5.0, "it comes back too late, with ten seconds promised"
            assert len({round(wait, 4) for each in waits.values() for wait in each}) > 5, "in step"
            proxy.accept()
            await engine.ended(running, waiting)
            await until(lambda: "database.back" in [line["event"] for line in lines])
    assert engine.outcomes(running) == ["completed"], "what ended in the dark was recorded afterwards"
    assert [line["event"] for line in lines].count("database.back") == 1


@pytest.mark.fault(8)
@pytest.mark.req("Q06")
@pytest.mark.parametrize("fail", [False, True])
async def test_an_ending_whose_answer_never_arrives(engine: Engine, proxy: Proxy, fail: bool) -> None:
    """The connection is cut after the server has recorded it: it is said again, and was ours."""
    begun: list[int] = []
    gate = asyncio.Event()
    gate.set()

    @engine.task
    async def work(fail: bool) -> None:
        begun.append(1)
        await gate.wait()
        if fail:
            raise ValueError

    async with engine.worker(dsn=proxy.dsn):
        # Once before, so that the statement is prepared: what is sent next is its execution.
        await engine.ended(engine.enqueue(work, {"fail": fail}, max_attempts=1), state="failed" if fail else "completed")
        gate.clear()
        begun.clear()
        id = engine.enqueue(work, {"fail": fail}, max_attempts=1)
        await until(lambda: begun)
        proxy.cut_after(str(id).encode(), "rota completer")
        gate.set()
        await until(lambda: str(id) in [run.id for event in engine.seen(RunsFinished) for run in event.runs])
    assert proxy.has_cut, "nothing was cut: this has shown nothing"
    assert engine.outcomes(id) == ["failed" if fail else "completed"]
    assert len(begun) == 1
    assert engine.seen(RunLeaseLost) == []
    assert [event.service for event in engine.seen(DatabaseLost)] == ["completer"]


@pytest.mark.fault(8)
@pytest.mark.req("Q04")
async def test_a_claim_whose_answer_never_arrives(engine: Engine, proxy: Proxy, asleep: set[Claimer]) -> None:
    """The job is the worker's, and the worker does not know: it gives back what it does not know of, uncharged."""
    begun: list[int] = []

    @engine.task
    async def work() -> None:
        begun.append(1)

    async with engine.worker(dsn=proxy.dsn, poll_interval_s=NEVER_S):
        await engine.ended(engine.enqueue(work))
        await until(lambda: asleep)  # the next claim is the one that the job wakes it for
        proxy.cut_after(b"default", "rota claimer")
        id = engine.enqueue(work)
        await engine.ended(id)
    assert proxy.has_cut
    assert len(begun) == 2
    [run] = engine.runs(id)
    assert (run.outcome, run.attempt, run.token) == ("completed", 1, 2), "it was not claimed before the cut"


async def test_a_worker_starts_before_its_database(engine: Engine, proxy: Proxy) -> None:
    engine.tasks.update(app.tasks)
    proxy.refuse()
    worker = engine.make_worker(dsn=proxy.dsn)
    running: asyncio.Task[Any] = asyncio.create_task(worker.run())
    try:
        id = engine.enqueue("noop")
        await until(lambda: engine.seen(DatabaseLost))
        proxy.accept()
        await engine.ended(id)
    finally:
        worker.stop()
        await asyncio.wait_for(running, PATIENCE_S)
