"""`rota users` and `rota tokens`, on the database itself."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.invoke import Rota

from rota.control.accounts import hash_of

pytestmark = pytest.mark.req("H05")

ADA = "ada@example.org"


@pytest.fixture
def rota(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rota:
    return Rota(dsn, tmp_path, monkeypatch, capsys)


def test_accounts(rota: Rota, conn: psycopg.Connection[Any]) -> None:
    assert "rota users create EMAIL --admin" in rota("users", "list").err
    assert rota("users", "create", "Ada@example.org", "--admin").code == 0
    assert rota("users", "create", "ole@example.org", "--role", "operator").code == 0
    found = rota("users", "list", "--json").data["items"]
    assert [(each["email"], each["role"]) for each in found] == [(ADA, "admin"), ("ole@example.org", "operator")]
    assert rota("users", "set-role", "ole@example.org", "read_only").code == 0
    assert rota("users", "disable", "ole@example.org").code == 0
    assert "read_only" in rota("users", "list").out
    assert rota("users", "enable", "ole@example.org").code == 0
    assert "--after" in rota("users", "list", "-n", 1).err
    actors = conn.execute("SELECT DISTINCT role FROM rota.audit WHERE operation LIKE 'users.%'").fetchall()
    assert len(actors) == 1


def test_what_goes_wrong(rota: Rota) -> None:
    rota("users", "create", ADA, "--admin")
    for arguments, code, words in (
        (("create", ADA), 4, "has an account already"),
        (("create", "x"), 2, "not an address"),
        (("create", "ole@example.org", "--role", "root"), 2, "one of admin, operator, read_only, user"),
        (("set-role", "nobody@example.org", "admin"), 3, "there is no account"),
        (("set-role", ADA, "user"), 4, "the last admin"),
        (("disable", ADA), 4, "the last admin"),
        (("link", "nobody@example.org"), 3, "there is no account"),
    ):
        answer = rota("users", *arguments)
        assert answer.code == code, arguments
        assert words in answer.err


def test_a_link(rota: Rota, conn: psycopg.Connection[Any]) -> None:
    rota("users", "create", ADA, "--admin")
    answer = rota("users", "link", ADA)
    address, _, token = answer.out.strip().partition("?token=")
    assert address == "http://127.0.0.1:8000/auth/sign-in"
    assert conn.execute("SELECT email FROM rota.magic_link WHERE token_hash = %s", [hash_of(token)]).fetchone() == (ADA,)
    audited = conn.execute("SELECT operation, target, via FROM rota.audit ORDER BY id DESC LIMIT 1").fetchone()
    assert audited == ("users.link", ADA, "cli")


@pytest.mark.parametrize(
    ("machine", "seen", "url"),
    [
        (None, "0 s", "http://127.0.0.1:8123"),
        (None, "31 s", "http://127.0.0.1:8000"),  # it was killed
        ("another", "0 s", "http://127.0.0.1:8000"),
    ],
)
def test_a_link_leads_to_the_server_that_runs_on_this_machine(
    rota: Rota, conn: psycopg.Connection[Any], machine: str | None, seen: str, url: str
) -> None:
    rota("users", "create", ADA, "--admin")
    conn.execute(
        "INSERT INTO rota.server (id, machine, url, port, env, seen_at)"
        " VALUES (gen_random_uuid(), %s, 'http://127.0.0.1:8123', 8123, 'local', rota.now() - %s::interval)",
        [machine or socket.gethostname(), seen],
    )
    assert rota("users", "link", ADA).out.startswith(f"{url}/auth/sign-in?token=")
    rota.variables["ROTA_SERVER_URL"] = "https://rota.example.org"
    assert rota("users", "link", ADA).out.startswith("https://rota.example.org/auth/sign-in?token=")


def test_tokens(rota: Rota, conn: psycopg.Connection[Any]) -> None:
    rota("users", "create", ADA, "--admin")
    token = rota("tokens", "create", ADA, "deploy", "--scope", "jobs.read", "--days", 30).out.strip()
    assert conn.execute("SELECT scopes FROM rota.api_token WHERE token_hash = %s", [hash_of(token)]).fetchone() == (["jobs.read"],)
    (listed,) = rota("tokens", "list", "--json").data["items"]
    assert (listed["name"], listed["email"]) == ("deploy", ADA)
    assert token not in rota("tokens", "list", "--owner", ADA).out
    assert rota("tokens", "create", ADA, "x", "--scope", "nothing").code == 2
    assert rota("tokens", "revoke", listed["id"]).code == 2  # nobody is there to ask
    assert rota("tokens", "revoke", listed["id"], "--yes").code == 0
    assert rota("tokens", "revoke", 999, "--yes").code == 3
    assert rota("tokens", "list", "--json").data["items"][0]["revoked_at"] is not None
