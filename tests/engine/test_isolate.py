"""Handlers in processes of their own: they are found there, and what they give or raise comes back."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.support.command import environment
from tests.support.engine import Engine
from tests.support.isolated import app
from tests.support.processes import WorkerProcess
from tests.support.wait import PATIENCE_S, until, wait_until

from rota.errors import UsageError
from rota.events import RunsFinished
from rota.model.task import check_importable


@pytest.fixture(autouse=True)
def tasks(engine: Engine) -> None:
    engine.tasks.update(app.tasks)


async def error_of(engine: Engine, id: UUID) -> dict[str, Any]:
    await engine.ended(id, state="failed")
    return engine.runs(id)[-1].error


async def test_it_works(engine: Engine) -> None:
    async with engine.worker():
        first, second = engine.enqueue("tell_pid"), engine.enqueue("tell_context", {"word": "hé"})
        await engine.ended(first, second)
        third = engine.enqueue("tell_pid")
        await engine.ended(third)
    assert engine.job(first).result != os.getpid()
    told = {"word": "hé", "job": str(second), "attempt": 1, "of": 4, "canceled": False}
    assert engine.job(second).result == told


async def test_results_come_back(engine: Engine) -> None:
    expected = {"nothing": None, "big": 2**80, "decimal": "1.50", "nul": "a\N{REPLACEMENT CHARACTER}b"}
    async with engine.worker():
        ids = {what: engine.enqueue("give", {"what": what}) for what in (*expected, "long")}
        await engine.ended(*ids.values())
    assert {what: engine.job(ids[what]).result for what in expected} == expected
    assert engine.job(ids["long"]).result["truncated"] is True


async def test_outcomes_come_back(engine: Engine) -> None:
    async with engine.worker():
        ids = {what: engine.enqueue("give", {"what": what}) for what in ("snooze", "cancel", "retry")}
        await until(lambda: all(engine.runs(id) for id in ids.values()))
    snoozed, canceled, failed = (engine.runs(ids[what])[0] for what in ("snooze", "cancel", "retry"))
    assert (snoozed.outcome, canceled.outcome, failed.outcome) == ("snoozed", "canceled", "failed")
    assert canceled.error["message"] == "not wanted ?"
    assert failed.error == {"type": "RetryAfter", "message": "the other side is busy"}
    for what in ("snooze", "retry"):
        assert engine.row(ids[what]).run_at - engine.row(ids[what]).updated_at == timedelta(hours=1)


async def test_errors_come_back_as_the_handler_raised_them(engine: Engine) -> None:
    async with engine.worker():
        error = await error_of(engine, engine.enqueue("fail", {"how": "value"}, max_attempts=1))
    assert (error["type"], error["message"]) == ("ValueError", "no such thing: \N{REPLACEMENT CHARACTER}")
    assert 'raise ValueError("no such thing' in error["traceback"]
    assert "rota/engine" not in error["traceback"]
    assert "causes" not in error


async def test_what_can_be_caught_does_not_end_the_process(engine: Engine) -> None:
    expected = {
        ("fail", "exit"): "SystemExit",
        ("fail", "interrupt"): "KeyboardInterrupt",
        ("fail", "memory"): "MemoryError",
        ("fail_async", "exit"): "SystemExit",
        ("fail_async", "cancelled"): "CancelledError",
    }
    async with engine.worker(concurrency=1):
        before = engine.enqueue("tell_pid")
        ids = {(task, how): engine.enqueue(task, {"how": how}, max_attempts=1) for task, how in expected}
        await engine.ended(*ids.values(), state="failed")
        after = engine.enqueue("tell_pid")
        await engine.ended(before, after)
    assert {way: engine.job(id).last_error["type"] for way, id in ids.items()} == expected
    assert engine.job(before).result == engine.job(after).result


async def test_arguments_that_do_not_fit_fail_the_run(engine: Engine) -> None:
    async with engine.worker():
        error = await error_of(engine, engine.enqueue("give", {"what": 7}, max_attempts=1))
    assert error["type"] == "PayloadError"


async def test_a_transaction_of_the_handler_ends_the_job(engine: Engine) -> None:
    engine.conn.execute("CREATE TABLE payment (job uuid, amount integer)")
    async with engine.worker():
        paid = {engine.enqueue("pay_async", {"amount": 10}, max_attempts=1): 10}
        for amount, then in enumerate(("end", "fail after", "die after")):
            paid[engine.enqueue("pay", {"amount": amount, "then": then}, max_attempts=1)] = amount
        unpaid = engine.enqueue("pay", {"amount": 20, "then": "fail within"}, max_attempts=1)
        await engine.ended(*paid)
        await engine.ended(unpaid, state="failed")
    assert dict(engine.conn.execute("SELECT job, amount FROM payment").fetchall()) == paid
    assert {id: engine.job(id).result for id in paid} == {id: {"paid": amount} for id, amount in paid.items()}
    assert all(len(engine.runs(id)) == 1 for id in (*paid, unpaid))
    told = {run.id: (run.outcome, run.result) for event in engine.seen(RunsFinished) for run in event.runs}
    assert [told[str(id)] for id in paid][:3] == [("completed", f'{{"paid":{amount}}}') for amount in (10, 0, 1)]


async def test_a_task_under_another_name_than_its_function(engine: Engine) -> None:
    async with engine.worker():
        id = engine.enqueue("renamed", {"n": 0})
        await engine.ended(id)
    assert engine.job(id).result != os.getpid()


async def test_two_tasks_of_one_function_name_are_not_mixed_up(engine: Engine) -> None:
    async with engine.worker():
        error = await error_of(engine, engine.enqueue("first_of_two", max_attempts=1))
        await engine.ended(engine.enqueue("second_of_two"))
    assert error["type"] == "LookupError"
    assert "give the function a name of its own" in error["message"]


def test_a_handler_must_be_importable() -> None:
    def inner() -> None: ...

    check_importable(note_nothing)
    for handler in (inner, lambda: None):
        with pytest.raises(UsageError, match="define it at the top level of its module"):
            check_importable(handler)


def note_nothing() -> None: ...


def test_log_lines_look_as_the_workers_do(engine: Engine, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file, WorkerProcess("tests.support.isolated:app", engine.dsn, errors=file) as worker:
        worker.wait_ready()
        id = engine.enqueue("say", {"word": "hello"})
        wait_until(lambda: engine.state(id) == "completed")
        assert worker.stop() == 0
    [line] = [line for line in log.read_text().splitlines() if '"said"' in line]
    assert f'"job_id":"{id}"' in line
    assert '"word":"hello"' in line


SCRIPT = """
import asyncio, os, sys
from rota import Rota
app = Rota(sys.argv[1])

@app.task(isolate=True)
def tell_pid() -> int:
    return os.getpid()

async def main():
    worker = app.worker()
    running = asyncio.create_task(worker.run())
    id = await tell_pid.aenqueue()
    while not await done(id):
        await asyncio.sleep(0.02)
    worker.stop()
    await running
    await app.aclose()

async def done(id):
    import psycopg
    async with await psycopg.AsyncConnection.connect(sys.argv[1]) as conn:
        cursor = await conn.execute("SELECT result FROM rota.run WHERE final")
        return await cursor.fetchone()
"""


@pytest.mark.parametrize("how", ["path", "module"])
def test_handlers_of_the_script_itself(engine: Engine, tmp_path: Path, how: str) -> None:
    script = tmp_path / "my_script.py"
    script.write_text(SCRIPT + "\nif __name__ == '__main__':\n    asyncio.run(main())\n")
    command = [sys.executable, *([str(script)] if how == "path" else ["-m", "my_script"]), engine.dsn]
    subprocess.run(command, cwd=tmp_path, env=environment(), timeout=PATIENCE_S, check=True)
    assert engine.count("rota.run WHERE outcome = 'completed'") == 1


def test_a_script_that_starts_a_worker_when_imported_does_not_multiply(engine: Engine, tmp_path: Path) -> None:
    script = tmp_path / "my_script.py"
    script.write_text(SCRIPT + "\nasyncio.run(app.worker().run())\n")
    id = engine.enqueue("tell_pid", max_attempts=1)
    process = subprocess.Popen([sys.executable, script, engine.dsn], cwd=tmp_path, env=environment())
    try:
        wait_until(lambda: engine.state(id) == "failed")
    finally:
        process.kill()
        process.wait()
    error = engine.job(id).last_error
    assert error["type"] == "ConfigError"
    assert "if __name__ == '__main__'" in error["message"]
    assert engine.count("rota.worker") == 1
