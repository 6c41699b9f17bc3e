"""`rota server` as a process: how it starts, how it refuses to, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import aiohttp
import psycopg
import pytest
from tests.support import command, people
from tests.support.processes import alive, descendants, ended_after, until
from tests.support.serving import SECRET, serving, settings_for
from tests.support.sse import listen
from tests.support.wait import PATIENCE_S

from rota import Rota
from rota.cli import server as server_command

Conn = psycopg.Connection[Any]

APP = """
import time
from pathlib import Path
from rota import Rota

app = Rota()

@app.task
def wait_for(file: str) -> str:
    while not Path(file).exists():
        time.sleep(0.01)
    return "done"
"""


@contextmanager
def served(folder: Path, dsn: str, *flags: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run `rota server` on a free port during a block; the process, and the port."""
    timeouts = ("JOBS_SHUTDOWN_TIMEOUT_S", "SERVER_HEADER_TIMEOUT_S", "SERVER_BODY_TIMEOUT_S")
    env = command.environment(
        ROTA_DATABASE_URL=dsn,
        ROTA_AUTH_SECRET=SECRET,
        ROTA_SERVER_PORT="0",
        ROTA_SERVER_METRICS_PUBLIC="true",
        **{**{f"ROTA_{name}": "300" for name in timeouts}, **variables},  # more than the patience of these tests
    )
    errors = folder / "stderr"
    try:
        with ended_after(command.start("server", *flags, cwd=folder, env=env)) as process:
            port = int(until(lambda: re.search(r"listening on http://127.0.0.1:(\d+)", errors.read_text()), why="to listen")[1])
            until(lambda: process.poll() is not None or is_ready(port), why="to be ready")
            yield process, port
    except BaseException:
        print(errors.read_text()[-5000:])
        raise


def is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=PATIENCE_S) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.req("Q13", "H02")
def test_it_stops_in_order(tmp_path: Path, dsn: str) -> None:
    """A request that is half sent is answered, an idle connection is closed, no new one is taken."""
    with served(tmp_path, dsn) as (process, port), socket.create_connection(("127.0.0.1", port)) as idle:
        body = b'{"email": "ada@example.org"}'
        head = f"POST /auth/magic-link HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(head.encode() + body[:5])
            until(lambda: open_requests(port) == 2, why="for the request to be at hand")
            process.send_signal(signal.SIGTERM)
            until(lambda: refuses(port))
            idle.settimeout(PATIENCE_S)
            assert idle.recv(100) == b""
            client.sendall(body[5:])
            client.settimeout(PATIENCE_S)
            answer = b"".join(iter(lambda: client.recv(65536), b""))  # until it is closed
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"a link is on its way" in answer
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.req("H05", "H10")
@pytest.mark.parametrize(("flags", "left"), [((), 0), (("-p", "2"), 2)])
def test_others_learn_which_port_it_took(tmp_path: Path, dsn: str, conn: Conn, flags: tuple[str, ...], left: int) -> None:
    """It is on record where the server is reached: a link from another terminal, and the mail of the server itself, lead there."""
    with served(tmp_path, dsn, *flags, ROTA_APP_ENV="local") as (process, port):
        until(
            lambda: (
                conn.execute("SELECT url, port, env FROM rota.server").fetchall()
                == [(f"http://127.0.0.1:{port}", port, "local")] * max(left, 1)
            )
        )
        elsewhere = command.environment(ROTA_DATABASE_URL=dsn)
        command.run("users", "create", "ada@example.org", cwd=tmp_path, env=elsewhere)
        link = command.run("users", "link", "ada@example.org", cwd=tmp_path, env=elsewhere).stdout.strip()
        assert link.startswith(f"http://127.0.0.1:{port}/auth/sign-in?token=")
        asked = Request(
            f"http://127.0.0.1:{port}/auth/magic-link", b'{"email": "ada@example.org"}', {"Content-Type": "application/json"}
        )
        urlopen(asked, timeout=PATIENCE_S).close()
        until(lambda: f"\\nhttp://127.0.0.1:{port}/auth/sign-in?token=" in (tmp_path / "stderr").read_text(), why="for the mail")
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    # Processes of which one replaces another leave their records to grow old.
    assert len(conn.execute("SELECT FROM rota.server").fetchall()) == left


def open_requests(port: int) -> int:
    """How many requests a server has at hand, this one included; only where metrics are public."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        found = re.search(r"^rota_http_requests_open (\d+)", answer.read().decode(), re.MULTILINE)
    assert found is not None
    return int(found[1])


@pytest.mark.req("Q13")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_its_worker_drains(tmp_path: Path, dsn: str, conn: Conn, number: int) -> None:
    """A job at hand ends well, and nothing is left."""
    (tmp_path / "app.py").write_text(APP)
    with served(tmp_path, dsn, ROTA_JOBS_ENABLED="true") as (process, port):
        job = start_job(conn, tmp_path / "go")
        process.send_signal(number)
        until(lambda: not is_ready(port), why="for /readyz to say no")
        (tmp_path / "go").touch()
        assert process.wait(PATIENCE_S) == 0
    assert conn.execute("SELECT outcome, result FROM rota.run WHERE job_id = %s", [job]).fetchall() == [("completed", "done")]
    nothing_is_left(conn)


@pytest.mark.req("Q13")
def test_a_job_that_outlasts_the_shutdown_timeout_goes_back_to_the_queue(tmp_path: Path, dsn: str, conn: Conn) -> None:
    (tmp_path / "app.py").write_text(APP)
    with served(tmp_path, dsn, ROTA_JOBS_ENABLED="true", ROTA_JOBS_SHUTDOWN_TIMEOUT_S="1") as (process, _):
        job = start_job(conn, tmp_path / "never")
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    assert conn.execute("SELECT state FROM rota.job WHERE id = %s", [job]).fetchall() == [("queued",)]
    assert conn.execute("SELECT outcome FROM rota.run WHERE job_id = %s", [job]).fetchall() == [("released",)]
    nothing_is_left(conn)


def nothing_is_left(conn: Conn) -> None:
    """Fail if a worker is still registered, or a session of the server stays open."""
    assert conn.execute("SELECT FROM rota.worker WHERE stopped_at IS NULL").fetchall() == []
    # A session ends a moment after its client.
    ours = "SELECT FROM pg_stat_activity WHERE application_name LIKE 'rota %%' AND datname = current_database()"
    until(lambda: not conn.execute(ours).fetchall())


@pytest.mark.req("T04", "Q13")
async def test_requests_are_answered_while_jobs_drain(tmp_path: Path, dsn: str, conn: Conn) -> None:
    """HTTP closes last: after the jobs have drained, and with a stream open that nobody ends."""
    (tmp_path / "app.py").write_text(APP)
    async with serving(Rota(settings=settings_for(dsn))) as here:
        await people.make(here, "ada@example.org", "admin")
        ada = await people.cookie(here, "ada@example.org")
    with served(tmp_path, dsn, ROTA_JOBS_ENABLED="true") as (process, port):
        job = await asyncio.to_thread(start_job, conn, tmp_path / "go")
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client, listen(client, ada) as stream:
            await stream.next()
            process.terminate()
            await asyncio.to_thread(until, lambda: not is_ready(port), why="for /readyz to say no")
            async with client.get("/readyz") as answer:
                assert (answer.status, (await answer.json())["wrong"]) == (503, "the server is stopping")
            async with aiohttp.ClientSession() as another:
                async with another.get(f"http://127.0.0.1:{port}/api/admin/jobs/{job}", headers=ada) as answer:
                    assert (answer.status, (await answer.json())["job"]["state"]) == (200, "running")
                async with another.get(f"http://127.0.0.1:{port}/healthz") as answer:
                    assert answer.status == 200
            (tmp_path / "go").touch()
            await stream.until("end")
            assert await asyncio.to_thread(process.wait, PATIENCE_S) == 0
        assert refuses(port)
    assert conn.execute("SELECT outcome FROM rota.run WHERE job_id = %s", [job]).fetchall() == [("completed",)]


@pytest.mark.req("T04", "Q13")
def test_the_second_signal_ends_a_drain_at_once(tmp_path: Path, dsn: str, conn: Conn) -> None:
    (tmp_path / "app.py").write_text(APP)
    with served(tmp_path, dsn, ROTA_JOBS_ENABLED="true") as (process, port):
        job = start_job(conn, tmp_path / "never")
        process.terminate()
        until(lambda: not is_ready(port), why="for /readyz to say no")
        assert not refuses(port)
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    assert conn.execute("SELECT outcome FROM rota.run WHERE job_id = %s", [job]).fetchall() == [("released",)]


def start_job(conn: Conn, file: Path) -> Any:
    """Enqueue a job that waits for a file, and return its id when it runs."""
    until(lambda: conn.execute("SELECT FROM rota.task WHERE name = 'wait_for'").fetchall())
    (job,) = conn.execute("SELECT rota.enqueue('wait_for', %s::jsonb)", [json.dumps({"file": str(file)})]).fetchone() or (None,)
    until(lambda: conn.execute("SELECT FROM rota.job WHERE id = %s AND state = 'running'", [job]).fetchall())
    return job


@pytest.mark.req("Q13", "H02")
async def test_streams_do_not_hold_it_up(tmp_path: Path, dsn: str) -> None:
    # The account is made by a server in this process: they share nothing but the database and the secret.
    async with serving(Rota(settings=settings_for(dsn))) as here:
        await people.make(here, "ada@example.org", "admin")
        ada = await people.cookie(here, "ada@example.org")
        with served(tmp_path, dsn) as (process, port):
            async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client, listen(client, ada) as stream:
                await stream.next()
                with socket.create_connection(("127.0.0.1", port)) as unread:
                    cookie = ada["Cookie"]
                    unread.sendall(f"GET /api/admin/stream HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n".encode())
                    await asyncio.to_thread(until, lambda: open_requests(port) == 3)
                    process.terminate()
                    await stream.until("end")
                    assert await asyncio.to_thread(process.wait, PATIENCE_S) == 0


@pytest.mark.req("Q13")
def test_the_second_signal_ends_it_at_once(tmp_path: Path, dsn: str) -> None:
    with served(tmp_path, dsn) as (process, port), socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"POST /auth/magic-link HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345")
        until(lambda: open_requests(port) == 2)
        process.terminate()
        until(lambda: refuses(port))
        assert process.poll() is None
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.req("H02")
def test_several_processes_share_a_port_and_are_replaced(tmp_path: Path, dsn: str) -> None:
    with served(tmp_path, dsn, "--processes", "2") as (process, port):
        family = until(lambda: len(found := descendants(process.pid)) == 2 and found)
        os.kill(family[0], signal.SIGKILL)
        until(lambda: len(found := descendants(process.pid)) == 2 and family[0] not in found)
        assert is_ready(port)
        family = descendants(process.pid)
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
        until(lambda: not any(alive(pid) for pid in family))
        assert refuses(port)


class TestRefusals:
    def test_a_database_without_the_schema(self, tmp_path: Path, empty_dsn: str) -> None:
        result = self.run(tmp_path, empty_dsn, ROTA_AUTH_SECRET=SECRET)
        assert result.returncode == 6
        assert "run `rota migrate up`" in result.stderr

    def test_without_a_secret(self, tmp_path: Path, dsn: str) -> None:
        result = self.run(tmp_path, dsn)
        assert result.returncode == 2
        assert "auth.secret is not set" in result.stderr
        assert "secrets.token_urlsafe" in result.stderr

    def test_without_a_secret_in_several_processes(self, tmp_path: Path, dsn: str) -> None:
        result = self.run(tmp_path, dsn, "--processes", "2")
        assert result.returncode == 2
        assert "auth.secret is not set" in result.stderr

    def test_a_port_that_somebody_has(self, tmp_path: Path, dsn: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            result = self.run(tmp_path, dsn, "--port", str(port), ROTA_AUTH_SECRET=SECRET)
        assert result.returncode == 2
        assert f"cannot listen on 127.0.0.1:{port}" in result.stderr

    def test_a_descriptor_that_is_no_socket(self, tmp_path: Path, dsn: str) -> None:
        result = self.run(tmp_path, dsn, "--fd", "77", ROTA_AUTH_SECRET=SECRET)
        assert result.returncode == 2
        assert "--fd 77 is no socket" in result.stderr

    def test_without_what_the_extra_brings(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert server_command.missing_extra() == []
        monkeypatch.setattr(server_command, "EXTRA", ("fastapi", "not_there"))
        assert server_command.missing_extra() == ["not_there"]

    def run(self, folder: Path, dsn: str, *flags: str, **variables: str) -> command.Result:
        env = command.environment(ROTA_DATABASE_URL=dsn, ENV=None, ROTA_SERVER_PORT="0", **variables)
        result = command.run("server", *flags, cwd=folder, env=env)
        assert "listening" not in result.stderr
        return result
