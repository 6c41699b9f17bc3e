"""The way to a server: who is known, what cannot be reached, what is not Rota, and what is never sent twice."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support import command
from tests.support import jobs as given
from tests.support.answering import answering
from tests.support.api import over_api, served
from tests.support.invoke import Rota
from tests.support.serving import settings_for
from tests.support.wait import PATIENCE_S, wait_until

import rota
from rota import Secret

Conn = psycopg.Connection[Any]

NOWHERE = "postgresql://nobody@127.0.0.1:1/none?connect_timeout=2"
ADMIN = "ann@example.org"


class TestConnection:
    @pytest.fixture
    def cli(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rota:
        return Rota(NOWHERE, tmp_path, monkeypatch, capsys)

    @pytest.mark.parametrize(
        "args",
        [
            ("worker", "-a", "app"),
            ("scheduler", "tick"),
            ("migrate", "status"),
            ("doctor",),
            ("dev",),
            ("demo",),
            ("server",),
            ("seed",),
            ("tasks", "sync"),
            ("tasks", "plan"),
        ],
    )
    def test_what_needs_the_database_says_so(self, cli: Rota, args: tuple[str, ...]) -> None:
        answer = cli("--url", "http://127.0.0.1:1", *args)
        assert (answer.code, answer.out) == (2, "")
        assert "works on the database itself, not over the API: leave out --url, or unset ROTA_URL" in answer.err

    def test_but_not_to_who_asks_for_help(self, cli: Rota) -> None:
        assert cli("--url", "http://127.0.0.1:1", "worker", "--help").code == 0

    def test_an_application_means_nothing_there(self, cli: Rota) -> None:
        answer = cli("--url", "http://127.0.0.1:1", "tasks", "trigger", "send", "-a", "shop:app")
        assert answer.code == 2
        assert "-a shop:app means nothing over the API" in answer.err

    @pytest.mark.parametrize(
        "args",
        [
            ("tasks", "show", "\udcff"),
            ("queues", "pause", "\udcff"),
            ("tasks", "list", "--tag", "\udcff"),
            ("jobs", "list", "-t", "\udcff"),
        ],
    )
    def test_what_is_no_text_is_refused(self, cli: Rota, args: tuple[str, ...]) -> None:
        answer = cli("--url", "http://127.0.0.1:1", *args)
        assert (answer.code, answer.out) == (2, "")
        assert "cannot store" in answer.err

    def test_nobody_listens(self, cli: Rota) -> None:
        answer = cli("--url", "http://127.0.0.1:1", "jobs", "list")
        assert (answer.code, answer.out) == (6, "")
        assert "http://127.0.0.1:1 cannot be reached: Connection refused" in answer.err

    @pytest.mark.parametrize(
        "url",
        ["localhost:8000", "ftp://host", "http://", "http://ann:secret@host", "http://host?x=1", "http://ho st", "http://h:x"],
    )
    def test_what_is_no_address_is_refused(self, cli: Rota, url: str) -> None:
        answer = cli("--url", url, "jobs", "list")
        assert answer.code == 2
        assert "--url" in answer.err
        assert "secret" not in answer.err

    @pytest.mark.parametrize("token", ["two words", "line\nbreak", "h\u00e9"])
    def test_a_token_that_is_none_is_refused_and_not_told(self, cli: Rota, token: str) -> None:
        answer = cli("--url", "http://127.0.0.1:1", "--token", token, "jobs", "list")
        assert answer.code == 2
        assert token not in answer.err

    def test_who_is_not_known_and_who_may_not(self, cli: Rota, dsn: str) -> None:
        local = Rota(dsn, cli.folder, cli.monkeypatch, cli.capsys)
        assert local("users", "create", "rita@example.org", "--role", "read_only").code == 0
        token = local("tokens", "create", "rita@example.org", "laptop").out.strip()
        with served(rota.Rota(settings=settings_for(dsn))) as url:
            nobody = cli("--url", url, "jobs", "list")
            assert (nobody.code, nobody.out) == (5, "")
            assert "no token was sent: give one with --token or ROTA_TOKEN" in nobody.err
            wrong = cli("--url", url, "--token", "rota_wrong", "jobs", "list")
            assert wrong.code == 5
            assert "rota_wrong" not in wrong.err
            refused = cli("--url", url, "--token", token, "queues", "pause", "default")
            assert (refused.code, refused.out) == (5, "")
            assert "queues.change" in refused.err
            assert cli("--url", url, "--token", token, "queues", "list").code == 0
            assert cli("--url", f"{url}/nowhere", "--token", token, "queues", "list").code == 3

    def test_payloads_are_checked_and_stored_by_the_servers_code(self, cli: Rota, dsn: str, conn: Conn) -> None:
        app = rota.Rota(settings=settings_for(dsn, secrets_key="k" * 40))

        @app.task
        def send(user_id: int, card: Secret) -> None: ...

        local = Rota(dsn, cli.folder, cli.monkeypatch, cli.capsys)
        code = "from rota import Rota\napp = Rota()\n@app.task\ndef send(user_id: int, card: str): ...\n"
        (cli.folder / "shop_code.py").write_text(code)
        assert local("tasks", "sync", "-a", "shop_code:app").code == 0
        assert local("users", "create", ADMIN, "--admin").code == 0
        token = local("tokens", "create", ADMIN, "laptop").out.strip()
        with served(app) as url:
            there = over_api(local, url, token)
            wrong = there("jobs", "enqueue", "send", '{"user_id": "x", "card": "1"}')
            assert (wrong.code, wrong.out) == (2, "")
            assert "user_id" in wrong.err
            assert there("jobs", "enqueue", "send", '{"user_id": 7, "card": "4711-4711"}').code == 0
        assert conn.execute("SELECT payload::text FROM rota.job WHERE payload::text LIKE '%4711-4711%'").fetchall() == []

    @pytest.mark.req("C07")
    def test_logs_are_followed(self, dsn: str, conn: Conn, tmp_path: Path, cli: Rota) -> None:
        local = Rota(dsn, cli.folder, cli.monkeypatch, cli.capsys)
        assert local("users", "create", ADMIN, "--admin").code == 0
        token = local("tokens", "create", ADMIN, "laptop").out.strip()
        given.declare(conn, "work")
        job = given.enqueue(conn)

        def say(number: int, message: str) -> None:
            conn.execute("INSERT INTO rota.log VALUES (rota.now(), 'work', %s, 1, %s, 20, %s, NULL)", [job, number, message])

        say(1, "first")
        with served(rota.Rota(settings=settings_for(dsn))) as url:
            env = command.environment(ROTA_URL=url, ROTA_TOKEN=token)
            process = command.start("logs", "-f", cwd=tmp_path, env=env)
            try:
                wait_until(lambda: "first" in (tmp_path / "stdout").read_text())
                say(2, "second")
                wait_until(lambda: "second" in (tmp_path / "stdout").read_text())
            finally:
                process.terminate()
                process.wait(PATIENCE_S)
        assert (tmp_path / "stdout").read_text().count("first") == 1


class TestAnswers:
    @pytest.fixture
    def cli(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rota:
        return Rota(NOWHERE, tmp_path, monkeypatch, capsys)

    @pytest.mark.parametrize(
        ("status", "code", "exit_code"),
        [
            (404, "not_found", 3),
            (409, "invalid_transition", 4),
            (412, "stale", 4),
            (401, "auth", 5),
            (403, "forbidden", 5),
            (422, "validation", 2),
            (422, "query", 2),
            (429, "rate_limited", 1),
            (500, "internal", 1),
            (500, "config", 1),
            (503, "database", 6),
            (503, "too_slow", 6),
            (503, "something_new", 6),
            (418, "something_new", 1),
        ],
    )
    def test_errors_have_the_exit_codes_that_they_have_without_a_network(
        self, cli: Rota, status: int, code: str, exit_code: int
    ) -> None:
        body = {
            "code": code,
            "detail": "it cannot be done",
            "errors": [{"field": "body.x", "detail": "too long"}],
            "request_id": "r1",
        }
        with answering(status, json.dumps(body).encode(), "application/problem+json") as (url, got):
            answer = cli("--url", url, "--token", "t", "jobs", "retry", "01980000-0000-7000-8000-000000000000")
        assert (answer.code, answer.out) == (exit_code, "")
        assert ("too long" if code == "validation" else "it cannot be done") in answer.err
        assert got == ["POST /api/admin/jobs/01980000-0000-7000-8000-000000000000/retry Bearer t"]  # once

    @pytest.mark.parametrize(
        ("status", "body"),
        [(200, b"<html>"), (502, b"<html>"), (404, b"<html>"), (200, b"[1]"), (200, b"{}"), (200, b'{"items": [1]}')],
    )
    def test_what_is_not_rota_is_told(self, cli: Rota, status: int, body: bytes) -> None:
        with answering(status, body) as (url, _):
            answer = cli("--url", url, "jobs", "list")
        assert (answer.code, answer.out) == (6, "")
        assert "error: " in answer.err

    def test_a_redirect_is_not_followed_and_the_token_goes_nowhere_else(self, cli: Rota) -> None:
        with (
            answering(200, b"{}") as (elsewhere, stolen),
            answering(307, b"", Location=elsewhere) as (url, got),
        ):
            answer = cli("--url", url, "--token", "t0ken", "jobs", "list")
        assert answer.code == 6
        assert f"a redirect to {elsewhere}" in answer.err
        assert (len(got), stolen) == (1, [])

    def test_a_change_without_an_answer_is_not_sent_again(self, cli: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rota.cli.remote.transport.ANSWER_S", 0.3)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            answer = cli("--url", url, "queues", "pause", "default")
            accepted = listening.accept()[0]
            accepted.close()
            listening.settimeout(0.1)
            with pytest.raises(TimeoutError):
                listening.accept()
        assert answer.code == 6
        assert "no answer within 0.3 s: it may have been done all the same, so look before you try again" in answer.err


@pytest.mark.req("K01")
@pytest.mark.parametrize(
    "args",
    [
        ("jobs", "enqueue", "work", "{"),
        ("jobs", "enqueue", "work", "[1]"),
        ("jobs", "enqueue", "work", '{"n": NaN}'),
        ("jobs", "retry", "01980000-0000-7000-8000-000000000000", "--payload", "{"),
        ("jobs", "retry", "01980000-0000-7000-8000-000000000000", "--set", "x={"),
        ("schedules", "create", "s", "work", "--every", "5m", "--payload", "{"),
        ("schedules", "update", "s", "--enabled", "yes"),
        ("schedules", "update", "s", "--payload", "7"),
        ("schedules", "update", "s"),
        ("tasks", "trigger", "work", "--payload", "{"),
        ("tasks", "set", "work", "default_payload={"),
    ],
)
def test_bad_json_and_booleans_are_refused_before_any_request(
    args: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(200, b"{}") as (url, got):
        answer = Rota(NOWHERE, tmp_path, monkeypatch, capsys, ROTA_URL=url)(*args)
    assert (answer.code, answer.out, got) == (2, "", [])
