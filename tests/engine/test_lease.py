"""Leases and signs of life, with workers in processes of their own that are killed, paused, blocked and misled."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support import processes
from tests.support.engine import Engine
from tests.support.faulty import TABLE, app, noted
from tests.support.processes import WorkerProcess
from tests.support.wait import NEVER_S, wait_until

from rota.model.ids import new_id

APP = "tests.support.faulty:app"
LEASE_S = 2.5  # renewed at its half, which leaves a busy machine more than a second for that
SHORT = {"lease_s": LEASE_S, "heartbeat_s": 0.2}


@pytest.fixture(autouse=True)
def _table(engine: Engine) -> None:
    engine.conn.execute(TABLE)
    engine.tasks.update(app.tasks)


def begun(engine: Engine, times: int = 1) -> None:
    wait_until(lambda: len(noted(engine.conn)) >= times, what=f"{times} attempts begun")


@pytest.mark.req("Q11")
@pytest.mark.fault(1)
def test_the_jobs_of_a_killed_worker_run_again_within_seconds(engine: Engine) -> None:
    """With the default lease of five minutes; the worker comes back under the same host name."""
    with WorkerProcess(APP, engine.dsn) as worker:
        worker.wait_ready()
        first = worker.worker_id
        ids = [engine.enqueue("stay", {"seconds": 3.0}) for _ in range(3)]
        begun(engine, 3)
        worker.kill()
        worker.wait()
        worker.start().wait_ready()
        assert worker.worker_id != first
        begun(engine, 4)  # long before the lease ends
        wait_until(lambda: engine.count() == 0)
    assert [engine.outcomes(id) for id in ids] == [["lost", "completed"]] * 3
    reasons = dict(engine.conn.execute("SELECT id, stop_reason FROM rota.worker").fetchall())
    assert reasons[first] == "died"


@pytest.mark.req("Q11")
@pytest.mark.fault(2)
@pytest.mark.parametrize("task", ["stay", "stay_in_thread"])
def test_a_handler_may_run_for_three_leases(engine: Engine, task: str) -> None:
    options = {**SHORT, "concurrency": 1}
    with WorkerProcess(APP, engine.dsn, **options), WorkerProcess(APP, engine.dsn, **options):
        id = engine.enqueue(task, {"seconds": 3 * LEASE_S})
        wait_until(lambda: engine.count() == 0)
    assert noted(engine.conn) == [1]
    assert engine.outcomes(id) == ["completed"]


@pytest.mark.req("Q06", "Q11")
@pytest.mark.fault(3)
def test_a_paused_worker_loses_its_job_and_its_late_word_counts_for_nothing(engine: Engine, tmp_path: Path) -> None:
    log = tmp_path / "log"
    # Its heart beats so seldom that it does not learn of the loss before it says how its run ended.
    with log.open("wb") as errors, WorkerProcess(APP, engine.dsn, errors=errors, lease_s=LEASE_S, heartbeat_s=NEVER_S) as paused:
        paused.wait_ready()
        id = engine.enqueue("stay", {"seconds": 2.0, "again_until": "heard"})
        begun(engine)
        os.kill(paused.pid, signal.SIGSTOP)
        try:
            with WorkerProcess(APP, engine.dsn, **SHORT) as other:
                other.wait_ready()
                begun(engine, 2)
                os.kill(paused.pid, signal.SIGCONT)
                wait_until(lambda: b"run.lease_lost" in log.read_bytes(), what="it says that its lease is lost")
                assert engine.row(id).worker_id == other.worker_id, "its late word changed something"
                assert paused.code is None, "it goes on"
                engine.conn.execute("INSERT INTO ran (what) VALUES ('heard')")
                wait_until(lambda: engine.count() == 0)
        finally:
            os.kill(paused.pid, signal.SIGCONT)
    assert [(run.outcome, run.worker_id) for run in engine.runs(id)] == [("lost", paused.worker_id), ("completed", other.worker_id)]


@pytest.mark.req("Q11")
@pytest.mark.fault(3)
def test_a_paused_worker_keeps_its_session_and_so_its_jobs(engine: Engine) -> None:
    """Shorter than its lease: nobody takes them, however long that is beyond what counts as dead."""
    with WorkerProcess(APP, engine.dsn, dead_after_s=0.3) as paused, WorkerProcess(APP, engine.dsn, dead_after_s=0.3) as other:
        paused.wait_ready()
        other.wait_ready()
        id = engine.enqueue("stay", {"seconds": 3.0})
        begun(engine)
        holder = paused if engine.row(id).worker_id == paused.worker_id else other
        os.kill(holder.pid, signal.SIGSTOP)
        try:
            time.sleep(2.0)  # six times what would make it dead
            assert engine.row(id).worker_id == holder.worker_id
        finally:
            os.kill(holder.pid, signal.SIGCONT)
        wait_until(lambda: engine.count() == 0)
    assert engine.outcomes(id) == ["completed"]


@pytest.mark.req("Q11")
@pytest.mark.fault(4)
def test_a_blocked_event_loop_loses_no_lease(engine: Engine) -> None:
    with WorkerProcess(APP, engine.dsn, **SHORT) as blocked:
        blocked.wait_ready()
        ids = [engine.enqueue("block", {"seconds": 3 * LEASE_S}), engine.enqueue("stay", {"seconds": 0.1})]
        begun(engine)
        with WorkerProcess(APP, engine.dsn, queues={"other": 1}, **SHORT):  # it rescues, and claims none of these
            wait_until(lambda: engine.count() == 0)
    assert [engine.outcomes(id) for id in ids] == [["completed"]] * 2


@pytest.mark.req("Q11")
@pytest.mark.fault(4)
def test_handlers_that_hold_the_whole_pool_lose_no_lease(engine: Engine) -> None:
    with WorkerProcess(APP, engine.dsn, concurrency=3, **SHORT) as worker:
        worker.wait_ready()
        ids = [engine.enqueue("hog", {"seconds": 3 * LEASE_S}) for _ in range(3)]
        begun(engine, 3)
        with WorkerProcess(APP, engine.dsn, queues={"other": 1}, **SHORT):
            wait_until(lambda: engine.count() == 0)
    assert [engine.outcomes(id) for id in ids] == [["completed"]] * 3


@pytest.mark.fault(5)
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_an_hour_off_decides_nothing(engine: Engine, tmp_path: Path, hours: int) -> None:
    """No early claim, no early rescue, no late one: only the database's clock counts."""
    (tmp_path / "sitecustomize.py").write_text(
        f"import time, datetime\nreal, real_ns = time.time, time.time_ns\n"
        f"time.time = lambda: real() + {hours * 3600}\ntime.time_ns = lambda: real_ns() + {hours * 3600} * 10**9\n"
    )
    held = engine.hold(engine.enqueue("noop", queue="default"), lease_s=1800)  # by a worker that is neither dead nor late
    engine.conn.execute(
        """INSERT INTO rota.worker (id, host, pid, version, queues, tasks, slots, backend_pid, backend_start)
           SELECT %s, 'host', 1, '0', '{default}', '{noop}', 1, pid, backend_start
           FROM pg_stat_activity WHERE pid = pg_backend_pid()""",
        [held.worker],
    )
    later = engine.enqueue("noop", delay=timedelta(minutes=30))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        with WorkerProcess(APP, engine.dsn, forked=False, poll_interval_s=0.1, **SHORT) as worker:
            worker.wait_ready()
            now = engine.enqueue("tell_time")
            soon = engine.enqueue("noop", delay=timedelta(seconds=1))
            wait_until(lambda: engine.state(now) == engine.state(soon) == "completed")
            told = engine.job(now).result
            assert abs(told - time.time() - hours * 3600) < 600, "its clock was not moved: this has shown nothing"
            wait_until(lambda: engine.count("ran") == 1)
            time.sleep(2 * LEASE_S)  # several rounds of everything
            assert engine.state(later) == "queued"
            assert engine.row(held.id).worker_id == held.worker
    [run] = engine.runs(now)
    assert abs(run.finished_at.timestamp() - time.time()) < 600


@pytest.mark.req("Q13")
@pytest.mark.fault(15)
def test_sigterm_releases_what_does_not_end_in_its_grace(engine: Engine) -> None:
    with WorkerProcess(APP, engine.dsn, shutdown_timeout_s=1.0) as stopping:
        stopping.wait_ready()
        id = engine.enqueue("stay", {"seconds": NEVER_S}, max_attempts=1)
        thread = engine.enqueue("stay_in_thread", {"seconds": NEVER_S}, max_attempts=1)
        begun(engine, 2)
        worker_id = stopping.worker_id
        began = time.monotonic()
        assert stopping.stop() == 0
        assert time.monotonic() - began >= 1.0
        reasons = engine.conn.execute("SELECT stop_reason FROM rota.worker WHERE id = %s", [worker_id]).fetchall()
        assert reasons == [("stopped",)]
        assert [engine.outcomes(each) for each in (id, thread)] == [["released"]] * 2
        stopping.start().wait_ready()
        begun(engine, 4)  # both run again, once
    assert sorted(noted(engine.conn)) == [1, 1, 2, 2]
    assert noted(engine.conn, "stopped") == [1]


@pytest.mark.req("Q13")
def test_sigint_stops_in_order(engine: Engine) -> None:
    with WorkerProcess(APP, engine.dsn) as worker:
        worker.wait_ready()
        id = engine.enqueue("stay", {"seconds": 0.5})
        begun(engine)
        worker.kill(signal.SIGINT)
        assert worker.wait() == 0
    assert engine.outcomes(id) == ["completed"]
    assert not processes.alive(worker.pid)


@pytest.mark.req("Q11")
def test_several_rescuers_rescue_once(engine: Engine) -> None:
    """All of a dead worker's jobs, each of them once, however many look."""
    dead = new_id()
    engine.conn.execute(
        """INSERT INTO rota.worker (id, host, pid, version, queues, tasks, slots, backend_pid, backend_start)
           VALUES (%s, 'host', 1, '0', '{}', '{}', 1, 1, now() - interval '1 h')""",
        [dead],
    )
    engine.fill("noop", 1200)
    engine.conn.execute(
        """UPDATE rota.job SET state = 'running', worker_id = %s, token = 1, attempt = 1, claimed_at = now(),
                  lease_until = now() + interval '1 h'""",
        [dead],
    )
    with (
        WorkerProcess(APP, engine.dsn, dead_after_s=0.2, restart_grace_s=0),
        WorkerProcess(APP, engine.dsn, dead_after_s=0.2, restart_grace_s=0),
        WorkerProcess(APP, engine.dsn, dead_after_s=0.2, restart_grace_s=0),
    ):
        wait_until(lambda: engine.count(f"rota.job WHERE worker_id = '{dead}'") == 0)
        wait_until(lambda: engine.count(f"rota.worker WHERE id = '{dead}' AND stop_reason = 'died'") == 1)
    counts = engine.conn.execute("SELECT count(*), count(DISTINCT job_id) FROM rota.run WHERE outcome = 'lost'").fetchone()
    assert counts == (1200, 1200)
