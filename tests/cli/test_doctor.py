"""`rota doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support import jobs as given
from tests.support.invoke import Rota


@pytest.fixture
def rota(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rota:
    return Rota(dsn, tmp_path, monkeypatch, capsys)


def test_nothing_is_broken(rota: Rota) -> None:
    answer = rota("doctor")
    assert answer.code == 0
    levels = {line.split()[1]: line.split()[0] for line in answer.out.splitlines() if not line.startswith(" ")}
    assert levels.pop("durability") == "warn"  # the tests' own server has no fsync
    assert set(levels.values()) == {"ok"}
    assert answer.err == "0 to repair, 1 to look at\n"


def test_an_unknown_variable_is_reported(rota: Rota) -> None:
    rota.variables["ROTA_JOBS_POLL_INTERVALL_MS"] = "500"
    answer = rota("doctor")
    assert "warn  settings       ROTA_JOBS_POLL_INTERVALL_MS is ignored: " in answer.out
    assert "did you mean ROTA_JOBS_POLL_INTERVAL_MS?\n" in answer.out


def test_something_is_broken(rota: Rota, conn: psycopg.Connection[Any]) -> None:
    given.declare(conn, "work")
    given.enqueue(conn)
    answer = rota("doctor")
    assert answer.code == 1
    assert "fail  workers        no worker is live, and 1 job due\n" in answer.out
    assert "→ rota worker -a module:app\n" in answer.out
    data = rota("doctor", "--json")
    assert data.code == 1
    assert [each["level"] for each in data.data if each["check"] == "workers"] == ["fail"]


def test_the_database_is_away(rota: Rota) -> None:
    rota.dsn = "postgresql://me:s3cret@127.0.0.1:1/x"
    answer = rota("doctor")
    assert answer.code == 1
    assert "PostgreSQL cannot be reached" in answer.out
    assert "s3cret" not in answer.out + answer.err


def test_an_application_that_cannot_be_imported_is_named_and_the_database_looked_at(rota: Rota) -> None:
    (rota.folder / "app.py").write_text("app = = 1")
    answer = rota("doctor")
    assert answer.code == 1
    assert "fail  application    " in answer.out
    assert "ok    leases" in answer.out
