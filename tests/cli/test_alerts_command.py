"""`rota alerts` and `rota webhooks`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support import jobs as given
from tests.support.invoke import Rota

Conn = psycopg.Connection[Any]

pytestmark = pytest.mark.req("O03", "Y05")


@pytest.fixture
def rota(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rota:
    return Rota(dsn, tmp_path, monkeypatch, capsys, ROTA_APP_ENV="local")  # where webhooks need no key


def fail_one(conn: Conn) -> None:
    """Let a job fail for good, and count it as a worker would."""
    given.declare(conn, "work")
    given.enqueue(conn)
    given.fail(conn, given.start_worker(conn))


def count(rota: Rota) -> None:
    """Let a scheduler's tick count what there is."""
    assert rota("scheduler", "tick").code == 0


class TestAlerts:
    def test_list_show_and_acknowledge(self, rota: Rota, conn: Conn) -> None:
        none = rota("alerts", "list")
        assert (none.code, none.out) == (0, "")
        assert "no open alerts" in none.err

        fail_one(conn)
        count(rota)
        head, line = rota("alerts", "list").out.splitlines()
        assert head.split()[:4] == ["ID", "SEVERITY", "KIND", "SUBJECT"]
        assert line.split()[1:5] == ["error", "job_failed", "work", "1"]
        [data] = rota("alerts", "list", "--json").data
        assert (data["kind"], data["state"], data["count"]) == ("job_failed", "open", 1)

        shown = rota("alerts", "show", data["id"])
        assert "ValueError: boom" in shown.out
        assert rota("alerts", "show", data["id"], "--json").data == data

        done = rota("alerts", "ack", data["id"], "--note", "known")
        assert (done.code, done.out) == (0, "")
        assert rota("alerts", "list").out == ""
        [after] = rota("alerts", "list", "--all", "--kind", "job_failed", "--json").data
        assert (after["state"], after["note"], bool(after["acknowledged_by"])) == ("acknowledged", "known", True)
        assert "known" in rota("alerts", "show", data["id"]).out

    def test_what_is_not_there(self, rota: Rota) -> None:
        for command in (("show", "17"), ("ack", "17")):
            answer = rota("alerts", *command)
            assert (answer.code, answer.out) == (3, "")
            assert "there is no alert 17: `rota alerts list --all`" in answer.err
        assert rota("alerts", "list", "--kind", "job_faild").code == 2
        assert rota("alerts", "list", "--limit", "0").code == 2

    def test_several_at_once(self, rota: Rota, conn: Conn) -> None:
        conn.execute("INSERT INTO rota.signal (kind, subject) VALUES ('job_failed', 'a'), ('job_failed', 'b')")
        count(rota)
        ids = [id for (id,) in conn.execute("SELECT id FROM rota.alert").fetchall()]
        assert rota("alerts", "ack", *ids).code == 0
        assert conn.execute("SELECT state FROM rota.alert").fetchall() == [("acknowledged",)] * 2


class TestWebhooks:
    URL = "https://hooks.example.org/services/pathsecret"

    def test_add_list_test_and_remove(self, rota: Rota, conn: Conn) -> None:
        assert "there are no webhooks" in rota("webhooks", "list").err
        added = rota("webhooks", "add", self.URL, "--kind", "job_failed")
        secret = added.out.strip()
        assert (added.code, secret.startswith("whsec_")) == (0, True)
        assert secret not in added.err

        listed = rota("webhooks", "list")
        assert "https://hooks.example.org/…" in listed.out
        for answer in (listed, rota("webhooks", "list", "--json")):
            assert secret not in answer.out
            assert "pathsecret" not in answer.out
        [webhook] = rota("webhooks", "list", "--json").data
        assert (webhook["kinds"], webhook["enabled"]) == (["job_failed"], True)

        delivery = rota("webhooks", "test", webhook["id"]).out.strip()
        [data] = rota("webhooks", "deliveries", "--json").data
        assert (data["id"], data["state"], data["attempt"]) == (delivery, "pending", 0)
        assert delivery in rota("webhooks", "deliveries", "--webhook", webhook["id"]).out

        assert rota("webhooks", "disable", webhook["id"]).code == 0
        assert rota("webhooks", "list", "--json").data[0]["enabled"] is False
        assert rota("webhooks", "enable", webhook["id"]).code == 0
        refused = rota("webhooks", "remove", webhook["id"])
        assert (refused.code, "--yes" in refused.err) == (2, True)
        assert rota("webhooks", "remove", webhook["id"], "--yes").code == 0
        assert conn.execute("SELECT count(*) FROM rota.webhook").fetchone() == (0,)

    def test_what_makes_no_sense(self, rota: Rota) -> None:
        answer = rota("webhooks", "add", "ftp://example.org")
        assert (answer.code, answer.out) == (2, "")
        assert "https://host/path" in answer.err
        assert rota("webhooks", "add", self.URL, "--kind", "nothing").code == 2
        for verb in ("test", "enable", "disable"):
            assert rota("webhooks", verb, "7").code == 3
        assert rota("webhooks", "remove", "7", "--yes").code == 3
