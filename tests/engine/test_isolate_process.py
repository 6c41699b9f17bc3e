"""The processes of isolated handlers: used again, stopped, killed, and no harm to anybody when they die."""

from __future__ import annotations

import asyncio
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.support.engine import Engine
from tests.support.isolated import app, note, notes
from tests.support.processes import WorkerProcess, alive
from tests.support.wait import PATIENCE_S, until, wait_until

from rota.engine import isolate, isolated_process
from rota.events import RunInterrupted
from rota.model.task import TaskSpec


@pytest.fixture(autouse=True)
def tasks(engine: Engine) -> None:
    engine.tasks.update(app.tasks)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers that were told to stop have all the time that a busy machine may take."""
    monkeypatch.setattr(isolate, "GRACE_S", PATIENCE_S)


async def error_of(engine: Engine, id: UUID) -> dict[str, Any]:
    await engine.ended(id, state="failed")
    return engine.runs(id)[-1].error


async def test_a_process_is_used_again_and_ends_with_the_worker(engine: Engine) -> None:
    async with engine.worker(concurrency=1):
        ids = [engine.enqueue("tell_pid") for _ in range(20)]
        await engine.ended(*ids)
        pids = {engine.job(id).result for id in ids}
        assert len(pids) == 1
        assert alive(*pids)
    await until(lambda: not alive(*pids))


async def test_an_idle_process_is_ended(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolate, "IDLE_S", 0.1)
    async with engine.worker():
        id = engine.enqueue("tell_pid")
        await engine.ended(id)
        await until(lambda: not alive(engine.job(id).result))
        again = engine.enqueue("tell_pid")
        await engine.ended(again)
    assert engine.job(again).result != engine.job(id).result


@pytest.mark.fault(10)
@pytest.mark.usefixtures("patient")
async def test_a_process_that_dies_hurts_no_neighbour(engine: Engine, tmp_path: Path) -> None:
    ends = {
        "exit": "ended with exit code 3",
        "null": "was ended by SIGSEGV",
        "SIGABRT": "was ended by SIGABRT",
        "SIGKILL": "was ended by SIGKILL (out of memory?)",
        "fork": "ended with exit code 4",
        "close": "ended with exit code 1",
        "hang up": "ended with exit code 1",
    }
    async with engine.worker(concurrency=4) as worker:
        isolated = engine.enqueue("wait_politely", {"path": str(tmp_path / "pid")})
        await until(lambda: notes(tmp_path / "pid"))
        dead = {how: engine.enqueue("die", {"how": how}, max_attempts=1) for how in ends}
        inside = [engine.enqueue("innocent", {"path": str(tmp_path / "ran"), "n": n}) for n in range(20)]
        await engine.ended(*dead.values(), state="failed")
        await engine.ended(*inside)
        assert engine.state(isolated) == "running"
        engine.conn.execute("SELECT rota.cancel_job(%s)", [isolated])
        await engine.ended(isolated)
    for how, end in ends.items():
        message = f"its process {end} while running die, attempt 1"
        assert engine.job(dead[how]).last_error == {"type": "WorkerCrashed", "message": message}
    assert engine.job(isolated).result == "what there was"
    assert {(run.attempt, run.worker_id) for id in (isolated, *inside) for run in engine.runs(id)} == {(1, worker.id)}


@pytest.mark.fault(10)
async def test_a_process_that_hangs_up_and_goes_on_is_killed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can hear of what it does; that the worker killed it is not told as if the system had."""
    monkeypatch.setattr(isolated_process, "END_WITHIN_S", 0.1)
    async with engine.worker():
        error = await error_of(engine, engine.enqueue("die", {"how": "hang up and stay"}, max_attempts=1))
    assert error["message"] == "its process closed its connection to the worker and had to be killed while running die, attempt 1"


@pytest.mark.fault(10)
async def test_a_process_that_dies_is_charged(engine: Engine) -> None:
    async with engine.worker():
        id = engine.enqueue("die", {"how": "exit"}, max_attempts=2)
        await engine.ended(id, state="failed")
    assert engine.outcomes(id) == ["failed", "failed"]


async def test_what_a_dead_process_forked_goes_with_it(engine: Engine, tmp_path: Path) -> None:
    async with engine.worker():
        await error_of(engine, engine.enqueue("hang", {"path": str(tmp_path / "pids")}, max_attempts=1))
        pids = [int(pid) for pid in notes(tmp_path / "pids")]
        assert len(pids) == 2
        await until(lambda: not any(map(alive, pids)))


@pytest.mark.req("Q18")
async def test_a_timeout_kills_the_process(engine: Engine, tmp_path: Path) -> None:
    async with engine.worker(concurrency=1):
        error = await error_of(engine, id := engine.enqueue("hang", {"path": str(tmp_path / "pids")}, max_attempts=1))
        assert not alive(int(notes(tmp_path / "pids")[0])), "the run was ended before its process"
        after = engine.enqueue("tell_pid")
        await engine.ended(after)
    assert (error["type"], error["message"]) == ("JobTimeout", "Job exceeded timeout of 2s")
    [run] = engine.runs(id)
    assert timedelta(seconds=2) <= run.finished_at - run.started_at


@pytest.mark.req("Q18")
async def test_the_start_of_the_process_is_not_on_the_handlers_time(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = isolate.Quarantine._prepare

    async def prepare_slowly(self: isolate.Quarantine, spec: TaskSpec) -> isolated_process.IsolatedProcess:
        await asyncio.sleep(2.5)  # longer than the handler may take
        return await prepare(self, spec)

    monkeypatch.setattr(isolate.Quarantine, "_prepare", prepare_slowly)
    async with engine.worker():
        id = engine.enqueue("hurry", max_attempts=1)
        await engine.ended(id)


@pytest.mark.req("Q09")
@pytest.mark.usefixtures("patient")
async def test_an_async_handler_is_cancelled(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    async with engine.worker(concurrency=1):
        id = engine.enqueue("wait_async", {"path": str(path)})
        await until(lambda: notes(path))
        engine.conn.execute("SELECT rota.cancel_job(%s)", [id])
        await engine.ended(id, state="canceled")
        after = engine.enqueue("tell_pid")
        await engine.ended(after)
    assert notes(path) == [str(engine.job(after).result), "cleaned up"], "the process was killed, not told"


@pytest.mark.req("Q09")
@pytest.mark.usefixtures("patient")
async def test_a_handler_that_ends_without_having_heard_has_completed(engine: Engine, tmp_path: Path) -> None:
    """What it did is done: it must not be run again because a stop came while it was ending."""
    path = tmp_path / "notes"
    async with engine.worker():
        id = engine.enqueue("finish_regardless", {"path": str(path)})
        await until(lambda: notes(path))
        engine.conn.execute("SELECT rota.cancel_job(%s)", [id])
        await until(lambda: engine.seen(RunInterrupted))
        note(str(path), "go")
        await engine.ended(id)


@pytest.mark.req("Q09")
async def test_a_handler_that_does_not_listen_is_killed(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    async with engine.worker():
        id = engine.enqueue("wait_stubbornly", {"path": str(path)})
        await until(lambda: notes(path))
        engine.conn.execute("SELECT rota.cancel_job(%s)", [id])
        await engine.ended(id, state="canceled")
        assert not alive(int(notes(path)[0]))


@pytest.mark.req("Q13")
async def test_a_stop_releases_what_still_runs(engine: Engine, tmp_path: Path) -> None:
    paths = {task: tmp_path / task for task in ("wait_async", "wait_stubbornly")}
    async with engine.worker(shutdown_timeout_s=0):
        ids = [engine.enqueue(task, {"path": str(path)}) for task, path in paths.items()]
        await until(lambda: all(notes(path) for path in paths.values()))
    assert not any(alive(int(notes(path)[0])) for path in paths.values())
    assert [(engine.state(id), engine.outcomes(id)) for id in ids] == [("queued", ["released"])] * 2


async def test_a_lost_lease_kills_the_process_at_once(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    async with engine.worker(lease_s=3.0, heartbeat_s=0.1, concurrency=1):
        id = engine.enqueue("wait_async", {"path": str(path)})
        await until(lambda: notes(path))
        engine.conn.execute("UPDATE rota.job SET run_at = now() + interval '1 h' WHERE id = %s", [id])
        engine.take_away(id)
        engine.conn.execute("UPDATE rota.job SET state = 'delayed', run_at = now() + interval '1 h' WHERE id = %s", [id])
        await until(lambda: not alive(int(notes(path)[0])))
    assert len(notes(path)) == 1, "it was asked to stop: only a kill is quick enough for a job that is another's by now"


async def test_signals_for_the_whole_service_are_the_workers_business(engine: Engine) -> None:
    async with engine.worker():
        id = engine.enqueue("survive_signals")
        await engine.ended(id)


async def test_no_connection_of_the_worker_is_inherited(engine: Engine) -> None:
    async with engine.worker():
        id = engine.enqueue("tell_sockets")
        await engine.ended(id)
        ours = app.tasks["tell_sockets"].handler()
    assert len(ours) > 4, "the worker has its connections, the test has some too"
    assert not {*ours} & {*engine.job(id).result}


@pytest.mark.fault(1)
def test_a_killed_worker_takes_its_processes_along(engine: Engine, tmp_path: Path) -> None:
    with WorkerProcess("tests.support.isolated:app", engine.dsn) as worker:
        worker.wait_ready()
        for task in ("wait_async", "wait_stubbornly", "wait_politely"):
            engine.enqueue(task, {"path": str(tmp_path / "pids")})
        pids = wait_until(lambda: len(found := notes(tmp_path / "pids")) == 3 and found)
        assert all(alive(int(pid)) for pid in pids)
        worker.kill(signal.SIGKILL)
        wait_until(lambda: not any(alive(int(pid)) for pid in pids))
