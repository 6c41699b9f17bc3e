"""`rota seed`: a demo user, and HTTP jobs that do all that HTTP jobs can do."""

from __future__ import annotations

import json
import shlex
import socket
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen
from uuid import UUID

import psycopg
import pytest
from tests.support.answering import answering
from tests.support.api import over_api, served
from tests.support.invoke import Rota
from tests.support.serving import settings_for

import rota
from rota.contrib.testing.harness import harness

Conn = psycopg.Connection[Any]

pytestmark = pytest.mark.req("H10", "K02")


@pytest.fixture
def cli(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rota:
    variables = {"ENV": "local", "ROTA_HTTP_ENABLED": "true", "ROTA_HTTP_ALLOW": "127.0.0.1"}
    return Rota(dsn, tmp_path, monkeypatch, capsys, **variables)


def test_jobs_succeed_fail_with_retries_and_time_out(cli: Rota, dsn: str, conn: Conn) -> None:
    with answering(lambda path: 200 if path == "/healthz" else 404) as (target, got):
        seeded = cli("seed", "--target", target, "--json")
        assert seeded.code == 0, seeded.err
        assert seeded.data["user"] == "seed@test.local"
        assert len({job["id"] for job in seeded.data["jobs"]}) == 20
        assert got == []  # one minute from now
        app = rota.Rota(settings=settings_for(dsn, http_enabled=True, http_allow="127.0.0.1"))
        with harness(app, dsn) as test:
            test.drain_sync(travel="10m", concurrency=4)
            jobs = {job.id: job for job in test.jobs("http_call")}
    became = Counter((job["kind"], jobs[UUID(job["id"])].state, jobs[UUID(job["id"])].attempt) for job in seeded.data["jobs"])
    assert became == {("succeeds", "completed", 1): 10, ("fails", "failed", 3): 6, ("times out", "failed", 2): 4}
    for job in seeded.data["jobs"]:
        error = jobs[UUID(job["id"])].last_error
        if job["kind"] == "times out":
            assert error is not None
            assert error["call"]["reason"] == "timeout"


def test_it_is_done_once(cli: Rota, conn: Conn) -> None:
    first = cli("seed", "--target", "http://127.0.0.1:1", "--json")
    again = cli("seed", "--target", "http://127.0.0.1:1", "--json")
    assert [job["id"] for job in again.data["jobs"]] == [job["id"] for job in first.data["jobs"]]
    assert ({job["created"] for job in first.data["jobs"]}, {job["created"] for job in again.data["jobs"]}) == ({True}, {False})
    assert conn.execute("SELECT count(*) FROM rota.account").fetchone() == (1,)
    assert conn.execute("SELECT count(*) FROM rota.job WHERE task = 'http_call'").fetchone() == (20,)


def test_what_it_prints_can_be_copied(cli: Rota, dsn: str) -> None:
    with served(rota.Rota(settings=settings_for(dsn, http_enabled=True))) as url:
        cli.variables["ROTA_SERVER_URL"] = url
        answer = cli("seed")
        assert answer.code == 0, answer.err
        lines = answer.out.splitlines()
        assert len(lines) == 1 + 20 + 4
        assert lines[21] == "TOKEN=$(rota tokens create seed@test.local curl)"
        assert all(line.startswith(f"curl -s {url}/jobs") for line in lines[22:])
        token = cli("tokens", "create", "seed@test.local", "curl").out.strip()
        for line in lines[22:]:
            address = line.split()[2]
            with urlopen(Request(address, headers={"Authorization": f"Bearer {token}"})) as found:
                document = json.load(found)
            assert len(document.get("items", document.get("jobs", [1]))) in (0, 1, 20)
        # The demo user has jobs of their own, and nothing of the operators'.
        assert over_api(cli, url, token)("jobs", "list").code == 5


@pytest.mark.parametrize(
    "target", [None, "http://localhost:8000", "http://127.0.0.1:8000", "http://[::1]:8000", "http://10.1.1.1", "http://a.localhost"]
)
def test_the_commands_that_it_asks_for_are_enough(cli: Rota, conn: Conn, target: str | None) -> None:
    """Rota's own server is sealed against calls; following what the refusal says must not lead to another refusal."""
    cli.variables.clear()
    a_server_runs(conn, "http://127.0.0.1:8123")
    arguments = ["seed", *(["--target", target] if target else [])]
    refused = cli(*arguments)
    assert refused.code == 2
    assert f"jobs may not call {target or 'http://127.0.0.1:8123'} yet: HTTP jobs are off; " in refused.err
    assert conn.execute("SELECT count(*) FROM rota.account").fetchone() == (0,)
    for line in refused.err.splitlines():
        if line.startswith("  rota "):
            assert cli(*shlex.split(line)[1:]).code == 0
    assert cli(*arguments).code == 0


def test_what_is_allowed_already_stays_allowed(cli: Rota) -> None:
    cli.variables["ROTA_HTTP_ALLOW"] = "10.0.0.1,*.internal"
    assert "  rota config set http.allow '10.0.0.1,*.internal,127.0.0.1'\n" in cli("seed").err


def test_what_is_denied_is_not_promised(cli: Rota, conn: Conn) -> None:
    cli.variables["ROTA_HTTP_DENY"] = "127.0.0.1"
    refused = cli("seed", "--target", "http://127.0.0.1:1")
    assert refused.code == 2
    assert "127.0.0.1 is denied by [http] deny" in refused.err
    assert "config set" not in refused.err
    assert conn.execute("SELECT count(*) FROM rota.account").fetchone() == (0,)


def test_a_local_server_that_runs_makes_the_question_needless(cli: Rota, conn: Conn) -> None:
    """`rota dev` is local, but commands in another terminal read a rota.toml that says production."""
    cli.variables["ENV"] = "production"
    assert cli("seed", "--target", "http://127.0.0.1:1").code == 2
    a_server_runs(conn, "http://127.0.0.1:8123")
    assert cli("seed", "--target", "http://127.0.0.1:1").code == 0


def a_server_runs(conn: Conn, url: str) -> None:
    """Record a server as running on this machine."""
    conn.execute(
        "INSERT INTO rota.server (id, machine, url, port, env) VALUES (gen_random_uuid(), %s, %s, %s, 'local')",
        [socket.gethostname(), url, urlsplit(url).port],
    )


def test_where_it_is_not_local_it_asks(cli: Rota) -> None:
    cli.variables["ENV"] = "production"
    answer = cli("seed", "--target", "http://127.0.0.1:1")
    assert answer.code == 2
    assert "app.env is production. Go on? Nobody is here to ask: add --yes" in answer.err
    assert cli("seed", "--target", "http://127.0.0.1:1", "--yes").code == 0
