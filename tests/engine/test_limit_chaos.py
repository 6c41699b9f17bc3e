"""Limits over worker processes that are killed and stopped until their leases run out, by what their handlers note themselves."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from tests.support.engine import Engine
from tests.support.limited import OVERLAPS, PERIOD_S, STARTS, TABLES
from tests.support.limited import app as limited
from tests.support.processes import WorkerProcess
from tests.support.wait import wait_until

from rota.model.ids import new_id
from rota.model.task import TaskSpec
from rota.store import tasks

pytestmark = [pytest.mark.req("S09"), pytest.mark.fault(1)]

WORKERS = 4
LEASE_S = 2.0
DEADLINE_S = 240


@pytest.fixture(autouse=True)
def tables(engine: Engine) -> None:
    engine.conn.execute(TABLES)
    tasks.sync(engine.conn, tasks=limited.tasks.values(), queues=["default"])


def enqueue(engine: Engine, task: TaskSpec, payloads: list[dict[str, object]]) -> None:
    """All at once, as they come by COPY."""
    with (
        engine.conn.cursor() as cursor,
        cursor.copy("COPY rota.job (id, task, payload, limited, state, max_attempts) FROM STDIN") as copy,
    ):
        for payload in payloads:
            copy.write_row((new_id(), task.name, json.dumps(payload), True, "held", 50))


@contextmanager
def workers(engine: Engine, *, concurrency: int) -> Iterator[list[WorkerProcess]]:
    """Four processes, of which each serves the queue."""
    options = {"concurrency": concurrency, "lease_s": LEASE_S, "heartbeat_s": 0.5, "scheduler": False}
    with ExitStack() as stack:
        yield [
            stack.enter_context(WorkerProcess("tests.support.limited:app", engine.dsn, **options)).wait_ready()
            for _ in range(WORKERS)
        ]


def pass_time(seconds: float) -> None:
    """Nothing tells that a lease has run out, or that the others have come some way, but time."""
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() > end)


def torment(engine: Engine, crew: list[WorkerProcess], *, seed: int) -> tuple[int, int]:
    """Kill a worker, or stop it until its lease has run out, again and again until all is done; how often each."""
    dice = random.Random(seed)
    kills = stops = 0
    deadline = time.monotonic() + DEADLINE_S
    while engine.count() > 0:
        assert time.monotonic() < deadline, f"stuck with {engine.count()} jobs"
        victim = dice.choice(crew)
        note = "INSERT INTO ending (pid) VALUES (%s)"
        if dice.random() < 0.6:
            victim.kill(signal.SIGKILL)
            engine.conn.execute(note, [victim.pid])
            victim.wait()
            victim.start()
            kills += 1
        else:
            victim.kill(signal.SIGSTOP)
            engine.conn.execute(note, [victim.pid])
            pass_time(LEASE_S * 1.5)
            victim.kill(signal.SIGCONT)
            stops += 1
        pass_time(0.7)
    return kills, stops


def test_one_at_a_time_over_two_thousand_jobs(engine: Engine) -> None:
    enqueue(engine, limited.tasks["alone"], [{"seconds": 0.005}] * 2000)
    with workers(engine, concurrency=8) as crew:
        kills, stops = torment(engine, crew, seed=1)
    assert engine.conn.execute(OVERLAPS, ["alone"]).fetchone() == (0,)
    assert engine.count("(SELECT DISTINCT job FROM visit WHERE ended IS NOT NULL) v") == 2000
    assert engine.count("(SELECT DISTINCT pid FROM visit) p") >= WORKERS, "only one took part: this has shown nothing"
    assert min(kills, stops) >= 2, f"{kills} kills and {stops} stops: this has shown nothing"


def test_one_of_each_key_at_a_time(engine: Engine) -> None:
    enqueue(engine, limited.tasks["served"], [{"customer": f"c{n % 40}", "seconds": 0.02} for n in range(2000)])
    with workers(engine, concurrency=8) as crew:
        torment(engine, crew, seed=2)
    assert engine.conn.execute(OVERLAPS, ["served"]).fetchone() == (0,)
    assert engine.count("(SELECT DISTINCT job FROM visit WHERE ended IS NOT NULL) v") == 2000


def test_no_period_has_more_starts(engine: Engine) -> None:
    enqueue(engine, limited.tasks["paced"], [{}] * 400)
    with workers(engine, concurrency=8) as crew:
        torment(engine, crew, seed=3)
    # A claimed job begins at once, or within a quarter of a second: so much less than a period is looked at. Those of a worker that
    # was stopped began when it was woken up, in a lease that had run out, and were fenced.
    most = engine.conn.execute(
        """WITH v AS (SELECT * FROM visit v WHERE NOT EXISTS (SELECT FROM ending e WHERE e.pid = v.pid AND e.at < v.began))
           SELECT max((SELECT count(*) FROM v o WHERE o.began >= v.began AND o.began < v.began + make_interval(secs => %s)))
           FROM v""",
        [PERIOD_S - 0.3],
    ).fetchone()
    assert most is not None
    assert most[0] <= STARTS
    assert engine.count("(SELECT DISTINCT job FROM visit WHERE ended IS NOT NULL) v") == 400
