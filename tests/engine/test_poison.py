"""Jobs that kill their worker: the culprit is found and fails, and those that were with it pay nothing."""

from __future__ import annotations

import os
from collections import Counter
from itertools import accumulate
from pathlib import Path
from uuid import UUID

import pytest
from tests.support.engine import Engine
from tests.support.isolated import app, notes
from tests.support.processes import WorkerProcess
from tests.support.wait import wait_until

from rota.engine.isolate import SUSPECTS_AT_A_TIME

QUICK = {"dead_after_s": 0.5}  # how soon a killed worker is noticed


@pytest.fixture(autouse=True)
def tasks(engine: Engine) -> None:
    engine.tasks.update(app.tasks)


def make_suspect(engine: Engine, id: UUID) -> None:
    """Let a worker that never was die with the job."""
    engine.conn.execute("UPDATE rota.job SET crashes = 1, attempt = 1 WHERE id = %s", [id])


async def test_a_suspect_runs_apart_from_the_worker(engine: Engine, tmp_path: Path) -> None:
    id = engine.enqueue("poison", {"path": str(tmp_path / "pids")}, max_attempts=3)
    make_suspect(engine, id)
    async with engine.worker():
        await engine.ended(id, state="failed")
    error = engine.job(id).last_error
    assert error["message"] == "its process ended with exit code 1 while running poison, attempt 3"
    assert str(os.getpid()) not in notes(tmp_path / "pids")


async def test_suspects_take_turns_and_waiting_is_not_on_their_time(engine: Engine, tmp_path: Path) -> None:
    count = 5 * SUSPECTS_AT_A_TIME
    ids = [engine.enqueue("take_turns", {"path": str(tmp_path / "turns")}, max_attempts=1) for _ in range(count)]
    for id in ids:
        make_suspect(engine, id)
    async with engine.worker(concurrency=count):  # the last ones wait longer than their timeout of 3 s
        await engine.ended(*ids)
    running = list(accumulate(1 if line == "begin" else -1 for line in notes(tmp_path / "turns")))
    assert len(running) == 2 * count
    assert max(running) <= SUSPECTS_AT_A_TIME


async def test_each_suspect_is_alone_in_its_process(engine: Engine, tmp_path: Path) -> None:
    """The poison among them dies by itself: those that are tried beside it complete."""
    poison = engine.enqueue("poison", {"path": str(tmp_path / "pids")}, max_attempts=2)
    others = [engine.enqueue("take_turns", {"path": str(tmp_path / "turns")}, max_attempts=1) for _ in range(4)]
    for id in (poison, *others):
        make_suspect(engine, id)
    async with engine.worker(concurrency=8):
        await engine.ended(*others)
        await engine.ended(poison, state="failed")


async def test_a_suspect_that_cannot_be_quarantined_does_not_run(engine: Engine) -> None:
    ran = []

    @engine.task
    async def local() -> None:
        ran.append(1)

    id = engine.enqueue(local, max_attempts=2)
    make_suspect(engine, id)
    async with engine.worker():
        await engine.ended(id, state="failed")
    error = engine.job(id).last_error
    assert error["type"] == "WorkerCrashed"
    assert "could not be tried in a process of its own" in error["message"]
    assert "define it at the top level of its module" in error["message"]
    assert not ran


@pytest.mark.fault(10)
@pytest.mark.req("Q11")
def test_poison_is_found_and_its_neighbours_are_not_charged(engine: Engine, tmp_path: Path) -> None:
    """In the workers themselves, without isolation: the first to meet it dies, the others find out who it was."""
    one, two = (WorkerProcess("tests.support.isolated:app", engine.dsn, **QUICK) for _ in range(2))
    with one, two:
        one.wait_ready()
        two.wait_ready()
        engine.conn.execute("BEGIN")
        path = str(tmp_path / "innocents")
        innocents = [engine.enqueue("innocent", {"path": path, "n": n}, max_attempts=1) for n in range(10)]
        poison = engine.enqueue("poison", {"path": str(tmp_path / "poison")}, max_attempts=3)
        innocents += [engine.enqueue("innocent", {"path": path, "n": n}, max_attempts=1) for n in range(10, 20)]
        engine.conn.execute("COMMIT")
        wait_until(lambda: engine.count() == 0, what="every job has ended")
        codes = sorted([one.code, two.code], key=str)
    assert codes == [1, None], "one worker died of it, the other lived"

    assert len(notes(tmp_path / "poison")) == 3
    assert engine.outcomes(poison) == ["lost", "failed", "failed"]
    last = engine.runs(poison)[-1]
    assert (last.final, last.error["type"]) == (True, "WorkerCrashed")
    assert last.error["message"] == "its process ended with exit code 1 while running poison, attempt 3"

    assert {engine.state(id) for id in innocents} == {"completed"}
    outcomes = Counter(outcome for id in innocents for outcome in engine.outcomes(id))
    assert set(outcomes) <= {"completed", "lost"}, "with one attempt each, a charge would have failed them"
    assert outcomes["completed"] == 20
    assert outcomes["lost"] > 0, "none was with it when it happened: this has shown nothing"
