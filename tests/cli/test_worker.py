"""`rota worker`: one process or several, told by signals."""

from __future__ import annotations

import os
import random
import signal
import socket
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support import command
from tests.support.processes import alive, descendants, ended_after, running, until
from tests.support.wait import PATIENCE_S

APP = """
import asyncio, os, time
from rota import Rota

app = Rota()

@app.task
async def who() -> int:
    return os.getpid()

@app.task(queue="mail")
async def post() -> None: ...

@app.task
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"

@app.task
def block(seconds: float) -> None:
    time.sleep(seconds)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


@pytest.fixture
def enqueue(dsn: str, conn: psycopg.Connection[Any]) -> Callable[..., str]:
    """Enqueue by SQL, once a worker has made the task known."""

    def enqueue(task: str, payload: str = "{}") -> str:
        until(lambda: conn.execute("SELECT FROM rota.task WHERE name = %s", [task]).fetchall())
        (id_,) = conn.execute("SELECT rota.enqueue(%s, %s)", [task, payload]).fetchone() or ()
        return str(id_)

    return enqueue


def states(conn: psycopg.Connection[Any], id_: str) -> tuple[str, Any]:
    return conn.execute("SELECT state, result FROM rota.jobs WHERE id = %s", [id_]).fetchone() or ("", None)


def live_workers(conn: psycopg.Connection[Any]) -> list[int]:
    return [pid for (pid,) in conn.execute("SELECT pid FROM rota.worker WHERE stopped_at IS NULL")]


def test_it_works(project: Path, dsn: str, conn: psycopg.Connection[Any], enqueue: Callable[..., str]) -> None:
    with running("worker", "-a", "shop:app", cwd=project, dsn=dsn) as worker:
        job = enqueue("who")
        until(lambda: states(conn, job) == ("completed", worker.pid))
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE_S) == 0
    assert live_workers(conn) == []


@pytest.mark.req("Q13")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_running_jobs_finish(
    number: signal.Signals, project: Path, dsn: str, conn: psycopg.Connection[Any], enqueue: Callable[..., str]
) -> None:
    with running("worker", "-a", "shop", cwd=project, dsn=dsn) as worker:
        job = enqueue("nap", '{"seconds": 1}')
        until(lambda: states(conn, job)[0] == "running")
        worker.send_signal(number)
        assert worker.wait(PATIENCE_S) == 0
    assert states(conn, job) == ("completed", "rested")


@pytest.mark.req("Q13")
def test_a_second_signal_gives_jobs_back_at_once(
    project: Path, dsn: str, conn: psycopg.Connection[Any], enqueue: Callable[..., str]
) -> None:
    with running("worker", "-a", "shop", cwd=project, dsn=dsn) as worker:
        job = enqueue("nap", '{"seconds": 60}')
        until(lambda: states(conn, job)[0] == "running")
        worker.send_signal(signal.SIGTERM)
        until(lambda: "worker.stopping" in (project / "stderr").read_text())
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE_S) == 0
    assert states(conn, job)[0] == "queued"


@pytest.mark.req("Q13")
@pytest.mark.fault(15)
def test_a_thread_that_does_not_listen_does_not_keep_the_process(
    project: Path, dsn: str, conn: psycopg.Connection[Any], enqueue: Callable[..., str]
) -> None:
    (project / "rota.toml").write_text("[jobs]\nshutdown_timeout_s = 1\n")
    with running("worker", "-a", "shop", cwd=project, dsn=dsn) as worker:
        job = enqueue("block", '{"seconds": 60}')
        until(lambda: states(conn, job)[0] == "running")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE_S) == 0
    assert states(conn, job)[0] == "queued"


def test_only_the_queues_asked_for(project: Path, dsn: str, conn: psycopg.Connection[Any], enqueue: Callable[..., str]) -> None:
    with running("worker", "-a", "shop", "-q", "mail:3", "-c", "2", cwd=project, dsn=dsn):
        other, job = enqueue("who"), enqueue("post")
        until(lambda: states(conn, job)[0] == "completed")
        assert states(conn, other)[0] == "queued"
        assert conn.execute("SELECT queues, slots FROM rota.worker").fetchall() == [(["mail"], 2)]


@pytest.mark.req("O02", "O03")
def test_metrics_and_health(project: Path, dsn: str, conn: psycopg.Connection[Any], enqueue: Callable[..., str]) -> None:
    port = _free_port()
    conn.execute("INSERT INTO rota.queue (name) VALUES ('behind') ON CONFLICT DO NOTHING")
    conn.execute(
        """INSERT INTO rota.job (id, task, queue, run_at)
           SELECT rota.uuid7(), 'who', 'behind', now() - interval '1 h' FROM generate_series(1, 3)"""
    )
    with running("worker", "-a", "shop", "-q", "default", "--metrics-port", str(port), cwd=project, dsn=dsn):
        job = enqueue("who")
        until(lambda: states(conn, job)[0] == "completed")
        assert _get(port, "/healthz") == (200, '{"status":"ok","away":{}}')
        status, metrics = _get(port, "/metrics")
        assert status == 200
        assert 'rota_runs_finished_total{outcome="completed",queue="default",task="who"} 1.0' in metrics
        assert 'rota_jobs_claimed_total{queue="default"} 1.0' in metrics
        assert 'rota_run_duration_seconds_count{task="who"} 1.0' in metrics
        assert 'rota_queue_latency_seconds_count{queue="default"} 1.0' in metrics
        until(lambda: 'rota_queue_jobs{queue="behind",state="ready"} 3.0' in _get(port, "/metrics")[1])
        metrics = _get(port, "/metrics")[1]
        oldest = next(line for line in metrics.splitlines() if line.startswith('rota_queue_oldest_seconds{queue="behind"}'))
        assert 3600 <= float(oldest.split()[1]) < 3700
        second = command.run("worker", "-a", "shop", "--metrics-port", str(port), cwd=project, dsn=dsn)
        assert second.returncode == 4
        assert f"cannot serve metrics on port {port}" in second.stderr


def test_several_processes_have_a_port_each(project: Path, dsn: str) -> None:
    port = _free_port()
    with running("worker", "-a", "shop", "-p", "2", "--metrics-port", str(port), cwd=project, dsn=dsn):
        for each in (port, port + 1):
            assert until(lambda each=each: _get(each, "/healthz"))[0] == 200


def _free_port() -> int:
    """One that is free, like the next one, and that the system gives to nobody who asks for any."""
    while True:
        port = random.SystemRandom().randrange(10_000, 20_000)  # not by the seed that every process of the run has
        try:
            with socket.create_server(("127.0.0.1", port)), socket.create_server(("127.0.0.1", port + 1)):
                return port
        except OSError:
            continue


def _get(port: int, path: str) -> tuple[int, str] | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except OSError:
        return None


@pytest.mark.fault(1)
def test_several_processes(project: Path, dsn: str, conn: psycopg.Connection[Any], enqueue: Callable[..., str]) -> None:
    with running("worker", "-a", "shop", "-p", "2", cwd=project, dsn=dsn) as supervisor:
        first = until(lambda: len(pids := live_workers(conn)) == 2 and set(pids))
        assert first <= set(descendants(supervisor.pid))
        killed = first.pop()
        os.kill(killed, signal.SIGKILL)
        until(lambda: len(set(live_workers(conn)) - {killed}) == 2)
        job = enqueue("who")
        until(lambda: states(conn, job)[0] == "completed")
        supervisor.send_signal(signal.SIGINT)
        assert supervisor.wait(PATIENCE_S) == 0
    assert live_workers(conn) in ([], [killed])


@pytest.mark.req("Q13")
def test_ctrl_c_is_heard_once_by_each_of_several_processes(
    project: Path, dsn: str, conn: psycopg.Connection[Any], enqueue: Callable[..., str]
) -> None:
    started = command.start("worker", "-a", "shop", "-p", "2", cwd=project, dsn=dsn, start_new_session=True)
    with ended_after(started) as supervisor:
        job = enqueue("nap", '{"seconds": 1}')
        until(lambda: states(conn, job)[0] == "running")
        os.killpg(supervisor.pid, signal.SIGINT)  # what a terminal does
        assert supervisor.wait(PATIENCE_S) == 0
    assert states(conn, job) == ("completed", "rested")


@pytest.mark.fault(1)
def test_several_processes_end_with_a_killed_supervisor(project: Path, dsn: str, conn: psycopg.Connection[Any]) -> None:
    with running("worker", "-a", "shop", "-p", "2", cwd=project, dsn=dsn) as supervisor:
        pids = until(lambda: len(pids := live_workers(conn)) == 2 and pids)
        supervisor.kill()
        until(lambda: not any(alive(pid) for pid in pids))
    assert live_workers(conn) == []  # they had time to say good-bye


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["-a", "shop", "-c", "65"], 2, "jobs.worker_concurrency=65 is not allowed"),
        (["-a", "shop", "-q", "mail:0"], 2, "weight from 1 to 1000"),
        (["-a", "shop", "-q", "mial"], 2, "no queue 'mial': did you mean 'mail'?"),
        (["-a", "shop", "-p", "0"], 2, "--processes"),
        (["-a", "nowhere"], 2, "there is no module 'nowhere'"),
        (["-a", "nowhere", "-p", "2"], 2, "there is no module 'nowhere'"),
    ],
)
def test_what_is_wrong_is_said(args: list[str], code: int, message: str, project: Path, dsn: str) -> None:
    result = command.run("worker", *args, cwd=project, dsn=dsn)
    assert (result.returncode, result.stdout) == (code, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.req("F03")
def test_a_database_without_the_schema(project: Path, empty_dsn: str) -> None:
    result = command.run("worker", "-a", "shop", cwd=project, dsn=empty_dsn)
    assert result.returncode == 6
    assert "run `rota migrate up`" in result.stderr
