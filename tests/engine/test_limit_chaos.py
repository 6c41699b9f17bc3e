"""Limits over worker processes that are killed and stopped until their leases run out, by what their handlers note themselves."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg
import pytest
from tests.support.engine import Engine
from tests.support.limited import OVERLAPS, PERIOD_S, STARTS, TABLES
from tests.support.limited import app as limited
from tests.support.postgres import Databases
from tests.support.processes import WorkerProcess
from tests.support.wait import wait_until

from rota.model.ids import new_id
from rota.model.task import TaskSpec
from rota.store import tasks

pytestmark = [pytest.mark.req("S09"), pytest.mark.fault(1)]

WORKERS = 4
LEASE_S = 2.0
DEADLINE_S = 240
FAULTS = 14
ALONE, SERVED, PACED = 2000, 2000, 400  # jobs


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
    """Kill a worker, or stop it until its lease has run out, a number of times, and let them finish; how often each."""
    dice = random.Random(seed)
    kills = stops = 0
    note = "INSERT INTO ending (pid) VALUES (%s)"
    while engine.count() > 0 and kills + stops < FAULTS:
        victim = dice.choice(crew)
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
    wait_until(lambda: engine.count() == 0, DEADLINE_S, "nobody is stuck")
    return kills, stops


@pytest.fixture(scope="module")
def tormented(postgres: Databases) -> Iterator[Engine]:
    """What is left when the jobs of all three kinds have gone through the same workers, side by side."""
    with postgres.fresh() as name, psycopg.connect(postgres.dsn(name), autocommit=True) as conn:
        engine = Engine(postgres.dsn(name), conn)
        conn.execute(TABLES)
        tasks.sync(conn, tasks=limited.tasks.values(), queues=["default"])
        enqueue(engine, limited.tasks["alone"], [{"seconds": 0.001}] * ALONE)
        enqueue(engine, limited.tasks["served"], [{"customer": f"c{n % 40}", "seconds": 0.02} for n in range(SERVED)])
        enqueue(engine, limited.tasks["paced"], [{}] * PACED)
        with workers(engine, concurrency=8) as crew:
            kills, stops = torment(engine, crew, seed=1)
        assert min(kills, stops) >= 2, f"{kills} kills and {stops} stops: this has shown nothing"
        assert engine.count("(SELECT DISTINCT pid FROM visit) p") >= WORKERS, "only one took part: this has shown nothing"
        yield engine


def done(engine: Engine, task: str) -> int:
    """How many jobs of a task have come to the end of their handler."""
    return engine.count(f"(SELECT DISTINCT job FROM visit WHERE task = '{task}' AND ended IS NOT NULL) v")


def test_one_at_a_time_over_two_thousand_jobs(tormented: Engine) -> None:
    assert tormented.conn.execute(OVERLAPS, ["alone"]).fetchone() == (0,)
    assert done(tormented, "alone") == ALONE


def test_one_of_each_key_at_a_time(tormented: Engine) -> None:
    assert tormented.conn.execute(OVERLAPS, ["served"]).fetchone() == (0,)
    assert done(tormented, "served") == SERVED


def test_no_period_has_more_starts(tormented: Engine) -> None:
    # A claimed job begins at once, or within most of a second on a busy machine: so much less than a period is looked at. What a
    # worker began that had been stopped, it began when it was woken up, in a lease that had run out, and was fenced.
    most = tormented.conn.execute(
        """WITH v AS (SELECT * FROM visit v WHERE v.task = 'paced'
                      AND NOT EXISTS (SELECT FROM ending e WHERE e.pid = v.pid AND e.at < v.began))
           SELECT max((SELECT count(*) FROM v o WHERE o.began >= v.began AND o.began < v.began + make_interval(secs => %s)))
           FROM v""",
        [PERIOD_S - 0.8],
    ).fetchone()
    assert most is not None
    assert most[0] <= STARTS
    assert done(tormented, "paced") == PACED
