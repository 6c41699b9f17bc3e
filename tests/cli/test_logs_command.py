"""`rota logs`, and what `rota jobs show` tells of what was said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.support import jobs as given
from tests.support.invoke import Rota
from tests.support.processes import running
from tests.support.wait import wait_until

pytestmark = pytest.mark.req("C07")


@pytest.fixture
def rota(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rota:
    return Rota(dsn, tmp_path, monkeypatch, capsys)


def say(conn: psycopg.Connection[Any], job: UUID, number: int, message: str, level: int = 20, **fields: Any) -> None:
    conn.execute(
        "INSERT INTO rota.log VALUES (rota.now() - interval '1 h' + %s * interval '1 s', 'work', %s, 1, %s, %s, %s, %s)",
        [number, job, number, level, message, json.dumps(fields) if fields else None],
    )


def test_show(rota: Rota, conn: psycopg.Connection[Any]) -> None:
    given.declare(conn, "work")
    job, other = given.enqueue(conn), given.enqueue(conn)
    say(conn, job, 1, "begin", user=7, who="me")
    say(conn, job, 2, "failed \x1b[31m", 40, exception="Traceback …\nValueError: no")
    say(conn, other, 3, "other")
    answer = rota("logs")
    first, second, *trace, last = answer.out.splitlines()
    assert (answer.code, answer.err) == (0, "")
    assert first.split("  ")[1:] == ["info    ", f"work {job}/1", "begin", "user=7 who=me"] or first.endswith(
        f"work {job}/1  begin  user=7 who=me"
    )
    assert "error" in second
    assert "\x1b" not in answer.out
    assert trace == ["Traceback …", "ValueError: no"]
    assert last.endswith("other")
    assert len(rota("logs", "--job", job).out.splitlines()) == 4
    assert len(rota("logs", "--run", f"{job}/2").out.splitlines()) == 0
    assert "failed" in rota("logs", "--level", "ERROR").out
    assert rota("logs", "-q", "begin").out.splitlines() == [first]
    assert rota("logs", "--since", "1m").err.startswith("no line matches")
    some = rota("logs", "-n", "1")
    assert some.out.splitlines() == [last]
    assert "these are the last 1" in some.err


def test_json(rota: Rota, conn: psycopg.Connection[Any]) -> None:
    given.declare(conn, "work")
    job = given.enqueue(conn)
    say(conn, job, 1, "begin", big=2**70)
    data = rota("logs", "--json").data
    assert data["more"] is False
    [line] = data["lines"]
    assert (line["message"], line["level"], line["fields"], line["job_id"]) == ("begin", "info", {"big": 2**70}, str(job))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--level", "loud"], "level='loud' is not a level: one of debug, info"),
        (["--job", "7"], "neither a job's id nor a run's"),
        (["--until", "2030-01-01", "-f"], "--until is over before --follow begins"),
        (["--since", "soon"], "soon"),
    ],
)
def test_what_cannot_be_asked_for(rota: Rota, options: list[str], why: str) -> None:
    answer = rota("logs", *options)
    assert answer.code == 2
    assert why in answer.err


def test_follow(conn: psycopg.Connection[Any], dsn: str, tmp_path: Path) -> None:
    given.declare(conn, "work")
    job = given.enqueue(conn)
    with running("logs", "-f", "--job", str(job), cwd=tmp_path, dsn=dsn):
        for number in range(1, 4):
            conn.execute("INSERT INTO rota.log VALUES (rota.now(), 'work', %s, 1, %s, 20, %s)", [job, number, f"line {number}"])
            wait_until(lambda number=number: f"line {number}" in (tmp_path / "stdout").read_text())  # type: ignore[misc]
    assert (tmp_path / "stdout").read_text().count("line 2") == 1


def test_jobs_show(rota: Rota, conn: psycopg.Connection[Any]) -> None:
    given.declare(conn, "work")
    job = given.enqueue(conn)
    conn.execute("""UPDATE rota.job SET progress = '{"done": 45, "total": 120, "message": "importing", "attempt": 1}'""")
    for number in range(1, 31):
        say(conn, job, number, f"line {number}")
    out = rota("jobs", "show", job).out
    assert "progress:      45 of 120 (37 %), importing" in out
    assert out.splitlines()[-1].endswith("line 30")
    assert "line 11" in out
    assert "line 10" not in out
    data = rota("jobs", "show", job, "--json").data
    assert data["job"]["progress"]["done"] == 45
    assert len(data["logs"]) == 20
