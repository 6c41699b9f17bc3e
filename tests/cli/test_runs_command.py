"""`rota runs`."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support import jobs as given
from tests.support.invoke import Rota

from rota.contrib.testing.clock import Clock
from rota.model.ids import new_id

Conn = psycopg.Connection[Any]


@pytest.fixture
def rota(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rota:
    return Rota(dsn, tmp_path, monkeypatch, capsys)


@pytest.mark.req("C03", "C04")
class TestList:
    def test_it_works(self, rota: Rota, conn: Conn) -> None:
        given.declare(conn, "mail", "sms")
        worker = given.start_worker(conn)
        mail = given.enqueue(conn, "mail", triggered_by='{"kind": "manual", "user": "ada"}')
        given.fail(conn, worker, error="no route")
        sms = given.enqueue(conn, "sms")
        given.claim(conn, worker)
        head, first, second = rota("runs", "list").out.splitlines()
        assert head.split()[:4] == ["RUN", "STATUS", "TASK", "STARTED"]
        assert first.split()[:3] == [f"{sms}/1", "running", "sms"]
        assert second.split()[:3] == [f"{mail}/1", "failed", "mail"]
        assert second.endswith("manual ada    ValueError: no route")
        assert rota("runs", "list", "--status", "failed", "--task", "m*", "--worker", worker, "--since", "1h").out.count("\n") == 2
        nothing = rota("runs", "list", "--triggered-by", "hook")
        assert (nothing.code, nothing.out, nothing.err) == (0, "", "no run matches\n")

    def test_pages_and_json(self, rota: Rota, conn: Conn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        made = [given.enqueue(conn) for _ in range(3)]
        clock = Clock(conn)
        clock.freeze()
        for _ in range(3):
            [(id, token)] = given.claim(conn, worker)
            clock.move(timedelta(milliseconds=10))
            given.finish(conn, id, token, worker, "failed", can_retry=False)
        data = rota("runs", "list", "--limit", 2, "--json").data
        assert [run["id"] for run in data["runs"]] == [f"{made[2]}/1", f"{made[1]}/1"]
        assert data["runs"][0]["duration"] == 0.01
        assert data["runs"][0]["triggered_by"]["kind"] == "sql"
        assert data["next"] == f"{made[1]}/1"
        said = rota("runs", "list", "--limit", 2).err
        assert said == f"there may be more: add --before {made[1]}/1\n"
        rest = rota("runs", "list", "--before", data["next"], "--json").data
        assert [run["job_id"] for run in rest["runs"]] == [str(made[0])]
        assert rest["next"] is None

    @pytest.mark.parametrize(
        ("options", "code", "says"),
        [
            (("--status", "gone"), 2, "'gone' is not a status of runs: one of running"),
            (("--before", "nonsense"), 2, "--before='nonsense' is not a run: write JOB/ATTEMPT"),
            (("--before", f"{new_id()}"), 2, "is not a run: write JOB/ATTEMPT"),
            (("--before", f"{new_id()}/x"), 2, "is not a run"),
            (("--since", "yesterday"), 2, "--since='yesterday' is not a duration"),
            (("--schedule", "nightly"), 3, "there is no schedule 'nightly': `rota schedules list`"),
        ],
    )
    def test_nonsense_is_refused(self, rota: Rota, options: tuple[str, ...], code: int, says: str) -> None:
        answer = rota("runs", "list", *options)
        assert (answer.code, answer.out) == (code, "")
        assert says in answer.err


@pytest.mark.req("C04")
class TestShow:
    def test_it_shows_payload_and_error(self, rota: Rota, conn: Conn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        id = given.enqueue(conn, payload={"n": 12345678901234567890123})
        given.fail(conn, worker, error="no route")
        for name in (id, f"{id}/1"):
            shown = rota("runs", "show", name).out
            assert f"run:           {id}/1" in shown
            assert "status:        failed, for good" in shown
            assert 'payload:       {"n": 12345678901234567890123}' in shown
            assert f"worker:        {worker}" in shown
            assert "ValueError: no route" in shown
            assert "triggered by:  sql" in shown
        data = rota("runs", "show", id, "--json").data
        assert (data["id"], data["payload"]["n"], data["final"]) == (f"{id}/1", 12345678901234567890123, True)
        assert data["error"] == {"type": "ValueError", "message": "no route"}

    def test_causes_and_groups_are_shown(self, rota: Rota, conn: Conn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        given.enqueue(conn)
        [(id, token)] = given.claim(conn, worker)
        error = """{"type": "Refused", "module": "shop", "message": "no\\u001b[31m", "traceback": "  File x\\n    call()\\n",
                    "causes": [{"type": "KeyError", "message": "'k'"}],
                    "errors": [{"type": "OSError", "message": "away"}]}"""
        conn.execute("SELECT rota.finish_run(%s, %s, %s, 'failed', 0, 0, %s, NULL, '0', false)", [id, token, worker, error])
        lines = rota("runs", "show", id).out.splitlines()
        assert lines[-7:] == [
            "  File x",
            "    call()",
            "shop.Refused: no\N{REPLACEMENT CHARACTER}[31m",
            "  error 1 of the group:",
            "    OSError: away",
            "caused by, or raised while handling:",
            "  KeyError: 'k'",
        ]

    def test_there_is_no_such_run(self, rota: Rota) -> None:
        answer = rota("runs", "show", new_id())
        assert (answer.code, answer.out) == (3, "")
        assert "there is no run of job" in answer.err
        assert rota("runs", "show", "nonsense").code == 2


@pytest.mark.req("C04")
def test_stats(rota: Rota, conn: Conn) -> None:
    assert rota("runs", "stats").err == "nothing has run in the last 24h\n"
    conn.execute(
        """INSERT INTO rota.task_stat (task, at, completed, failed, duration_buckets, duration_counts, wait_buckets, wait_counts)
           VALUES ('mail', rota.now(), 90, 10, '{160}', '{100}', '{80}', '{100}')"""
    )
    head, line = rota("runs", "stats").out.splitlines()
    assert head.split()[:3] == ["TASK", "COMPLETED", "FAILED"]
    assert line.split()[:2] == ["mail", "90"]
    assert "10.0%" in line
    [data] = rota("runs", "stats", "mail", "--since", "1h", "--json").data
    assert (data["completed"], data["failure_rate"]) == (90, 0.1)
    assert data["duration"]["p50"] == pytest.approx(1.0, rel=0.05)
    assert rota("runs", "stats", "--since", "400d").code == 2
    given.declare(conn, "mail", "sms")
    shown = rota("tasks", "show", "mail").out.splitlines()
    assert [line.split()[0] for line in shown[-4:]] == ["IN", "1h", "24h", "7d"]
    assert "10.0%" in shown[-1]
    assert rota("tasks", "show", "mail", "--json").data["stats"]["1h"]["completed"] == 90
    assert "IN THE LAST" not in rota("tasks", "show", "sms").out
