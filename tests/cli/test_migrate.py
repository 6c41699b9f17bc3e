"""`rota migrate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support import command

from rota.db import migrations
from rota.model.ids import new_id

LAST = migrations.available()[-1]


@pytest.mark.req("F03")
def test_up_status_down(empty_dsn: str, tmp_path: Path) -> None:
    missing = command.run("migrate", "status", cwd=tmp_path, dsn=empty_dsn)
    assert missing.returncode == 6
    assert "missing" in missing.stdout
    assert "run `rota migrate up`" in missing.stderr

    up = command.run("migrate", "up", cwd=tmp_path, dsn=empty_dsn)
    assert (up.returncode, up.stdout) == (0, "")
    assert f"applied {LAST.number:04} {LAST.name}" in up.stderr
    assert "nothing to do" in command.run("migrate", "up", cwd=tmp_path, dsn=empty_dsn).stderr

    status = command.run("migrate", "status", "--json", cwd=tmp_path, dsn=empty_dsn)
    assert status.returncode == 0
    answer = json.loads(status.stdout)
    assert answer["version"] == 1
    assert {each["state"] for each in answer["data"]} == {"applied"}
    assert answer["data"][0]["applied_at"].endswith("Z")

    down = command.run("migrate", "down", "--to", "0", "--yes", cwd=tmp_path, dsn=empty_dsn)
    assert down.returncode == 0
    assert "rolled back 0001" in down.stderr


@pytest.mark.req("F03")
def test_down_wants_to_be_sure(dsn: str, tmp_path: Path) -> None:
    assert command.run("migrate", "down", cwd=tmp_path, dsn=dsn).returncode == 2
    refused = command.run("migrate", "down", "--to", "0", cwd=tmp_path, dsn=dsn)
    assert refused.returncode == 2
    assert "add --yes" in refused.stderr
    assert command.run("migrate", "status", cwd=tmp_path, dsn=dsn).returncode == 0


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [("-1", 2, "--to=-1 is out of range"), ("4711", 3, "there is no migration 4711: this version has 0001 to")],
)
def test_a_wrong_number(number: str, code: int, message: str, dsn: str, tmp_path: Path) -> None:
    result = command.run("migrate", "up", "--to", number, cwd=tmp_path, dsn=dsn)
    assert result.returncode == code
    assert message in result.stderr


def test_a_database_that_is_away(tmp_path: Path) -> None:
    result = command.run("migrate", "up", cwd=tmp_path, dsn="postgresql://me:s3cret@127.0.0.1:1/x")
    assert result.returncode == 6
    assert result.stderr.startswith("error: PostgreSQL cannot be reached")
    assert "Traceback" not in result.stderr
    assert "s3cret" not in result.stderr


def test_no_database_at_all(tmp_path: Path) -> None:
    result = command.run("migrate", "up", cwd=tmp_path)
    assert result.returncode == 2
    assert "no database is configured" in result.stderr


@pytest.mark.req("C10")
def test_grant(dsn: str, tmp_path: Path, conn: psycopg.Connection[Any]) -> None:
    role = f"rota_{new_id().hex}"
    conn.execute(f"CREATE ROLE {role}".encode())
    try:
        shown = command.run("migrate", "grant", role, "--as", "read", "--print", cwd=tmp_path, dsn=dsn)
        assert (shown.returncode, f'GRANT SELECT ON rota.run TO "{role}";' in shown.stdout) == (0, True)
        assert conn.execute("SELECT has_table_privilege(%s, 'rota.run', 'SELECT')", [role]).fetchone() == (False,)
        done = command.run("migrate", "grant", role, "--as", "operate", cwd=tmp_path, dsn=dsn)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", f"role {role} may operate now\n")
        rights = "SELECT has_table_privilege(%s, 'rota.run', 'SELECT'), has_table_privilege(%s, 'rota.run', 'INSERT')"
        assert conn.execute(rights, [role, role]).fetchone() == (True, False)
        assert command.run("migrate", "grant", role, "--as", "king", cwd=tmp_path, dsn=dsn).returncode == 2
        assert command.run("migrate", "grant", "nobody-here", "--as", "read", cwd=tmp_path, dsn=dsn).returncode == 3
    finally:
        conn.execute(f"DROP OWNED BY {role}".encode())
        conn.execute(f"DROP ROLE {role}".encode())


@pytest.mark.req("T05")
def test_included_applications(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from rota import Rota\n\napp = Rota()\napp.include('rota.apps.feeds')\n")

    def rota(*args: str) -> Any:
        return command.run(*args, cwd=tmp_path, dsn=dsn)

    status = rota("migrate", "status")
    assert (status.returncode, "lacks 1 migration: feeds 0001 feeds: run `rota migrate up`" in status.stderr) == (6, True)
    assert "lacks 1 migration: feeds 0001 feeds" in rota("worker").stderr  # which would fail at each job
    doctor = rota("doctor")
    assert doctor.returncode == 1
    assert "the database lacks 1 migration: feeds 0001 feeds\n" in doctor.stdout
    assert "→ rota migrate up\n" in doctor.stdout

    assert rota("migrate", "up").stderr == "applied feeds 0001 feeds\n"
    states = json.loads(rota("migrate", "status", "--json").stdout)["data"]
    assert (states[-1]["namespace"], states[-1]["number"], states[-1]["state"]) == ("feeds", 1, "applied")
    assert rota("doctor").returncode == 0
    assert rota("migrate", "down", "--of", "feeds", "--to", "0", "--yes").stderr == "rolled back feeds 0001 feeds\n"
    assert rota("migrate", "down", "--of", "calendars", "--to", "0", "--yes").returncode == 3
