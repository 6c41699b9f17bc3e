"""`rota workers`."""

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


def test_list(rota: Rota, conn: psycopg.Connection[Any]) -> None:
    given.declare(conn, "work")
    worker = given.start_worker(conn, slots=8)
    made = [given.enqueue(conn) for _ in range(5)]
    given.claim(conn, worker, limit=5)
    head, line = rota("workers", "list").out.splitlines()
    assert head.split()[:4] == ["ID", "STATE", "APP", "HOST"]
    assert line.split()[:7] == [str(worker), "live", "default", "host-1", "4711", "default", "5"]
    assert line.endswith(f"work {made[2]}, 2 more")
    [data] = rota("workers", "list", "--json").data
    assert (data["id"], data["state"], data["holds"]) == (str(worker), "live", 5)
    assert [job["id"] for job in data["jobs"]] == [str(id) for id in made]


def test_nobody(rota: Rota) -> None:
    answer = rota("workers", "list")
    assert (answer.code, answer.out) == (0, "")
    assert "start one with `rota worker -a module:app`" in answer.err
