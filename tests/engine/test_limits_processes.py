"""A task's max_concurrency over worker processes, by what their handlers say of themselves."""

from __future__ import annotations

import pytest
from tests.support.engine import Engine
from tests.support.narrow import LIMIT, MOST, TABLE
from tests.support.narrow import app as narrow
from tests.support.processes import WorkerProcess
from tests.support.wait import wait_until

pytestmark = pytest.mark.req("S09")

APP = "tests.support.narrow:app"
VISIT = narrow.tasks["visit"]


@pytest.fixture(autouse=True)
def table(engine: Engine) -> None:
    engine.conn.execute(TABLE)


def most(engine: Engine) -> int:
    row = engine.conn.execute(MOST.encode()).fetchone()
    assert row is not None
    return int(row[0])


def test_two_processes_share_one_limit(engine: Engine) -> None:
    with WorkerProcess(APP, engine.dsn, concurrency=8) as one, WorkerProcess(APP, engine.dsn, concurrency=8) as two:
        for process in (one, two):
            process.wait_ready()
        for _ in range(60):
            engine.enqueue(VISIT, {"seconds": 0.05})
        wait_until(lambda: engine.count() == 0)
    assert most(engine) == LIMIT
    assert engine.count("visit WHERE ended IS NOT NULL") == 60
    assert engine.count("(SELECT DISTINCT pid FROM visit) p") == 2, "only one took part: this has shown nothing"


@pytest.mark.fault(1)
def test_a_killed_worker_takes_no_place_with_it(engine: Engine) -> None:
    with WorkerProcess(APP, engine.dsn, concurrency=8) as killed:
        killed.wait_ready()
        ids = [engine.enqueue(VISIT, {"seconds": 0.05, "first_s": 600.0}) for _ in range(LIMIT)]
        wait_until(lambda: engine.count("visit") == LIMIT, what="it has all places")
        with WorkerProcess(APP, engine.dsn, concurrency=8) as other:
            other.wait_ready()
            ids += [engine.enqueue(VISIT, {"seconds": 0.05}) for _ in range(20)]
            killed.kill()
            killed.wait()
            wait_until(lambda: engine.count() == 0)
    assert engine.count("visit WHERE ended IS NOT NULL") == len(ids) == LIMIT + 20
    assert most(engine) <= LIMIT
    assert [engine.outcomes(id) for id in ids[:LIMIT]] == [["lost", "completed"]] * LIMIT
