"""`rota errors`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support import jobs as given
from tests.support.counts import exactly
from tests.support.invoke import Rota

Conn = psycopg.Connection[Any]


@pytest.fixture
def rota(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rota:
    return Rota(dsn, tmp_path, monkeypatch, capsys)


@pytest.mark.req("C04", "Q18")
class TestErrors:
    def test_list_show_and_retry(self, rota: Rota, conn: Conn) -> None:
        given.declare(conn, "mail", "sms")
        worker = given.start_worker(conn)
        made = []
        for n in range(3):
            made.append(given.enqueue(conn, "mail"))
            given.fail(conn, worker, error=f"no user {n}")
        given.enqueue(conn, "sms")
        given.fail(conn, worker, error="busy")
        head, first, second = rota("errors", "list").out.splitlines()
        assert head.split()[:2] == ["FINGERPRINT", "COUNT"]
        assert first.endswith("sms    ValueError: busy")
        assert second.endswith("mail   ValueError: no user 2")
        [data] = rota("errors", "list", "--task", "mail", "--since", "1h", "--json").data
        assert (data["type"], data["tasks"], data["count"]) == (
            "ValueError",
            ["mail"],
            exactly(3),
        )

        shown = rota("errors", "show", data["fingerprint"][:6]).out
        assert f"error group:   {data['fingerprint']}" in shown
        assert "count:         3 failed attempts" in shown
        assert "ValueError: no user 2" in shown
        assert [f"{id}/1" in shown for id in made] == [True] * 3
        as_json = rota("errors", "show", data["fingerprint"], "--json").data
        assert as_json["error"] == {"type": "ValueError", "message": "no user 2"}
        assert [each["run"] for each in as_json["latest"]] == [f"{id}/1" for id in reversed(made)]

        refused = rota("errors", "retry", data["fingerprint"])
        assert (refused.code, refused.out) == (2, "")
        assert "This will retry 3 failed jobs. Go on? Nobody is here to ask: add --yes" in refused.err
        done = rota("errors", "retry", data["fingerprint"], "--yes")
        assert (done.code, done.out, done.err) == (0, "", "3 retried\n")
        again = rota("errors", "retry", data["fingerprint"], "--yes")
        assert (again.code, again.err) == (0, "no job has failed for good with this error\n")
        assert rota("errors", "retry", data["fingerprint"], "--json").data == {"changed": 0, "skipped": 0}

    def test_there_are_none(self, rota: Rota) -> None:
        answer = rota("errors", "list")
        assert (answer.code, answer.out, answer.err) == (0, "", "no attempt has failed\n")
        for verb in ("show", "retry"):
            answer = rota("errors", verb, "0123456789abcdef")
            assert (answer.code, answer.out) == (3, "")
            assert "there is no error 0123456789abcdef: `rota errors list`" in answer.err
            assert rota("errors", verb, "nonsense").code == 2
