"""`rota tasks`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support import jobs as given
from tests.support.invoke import Rota

Conn = psycopg.Connection[Any]

APPLICATION = '''
from rota import Rota, cron

app = Rota(name="shop")

@app.task(tags=["mail"], fields={"team": "billing", "sla_hours": 4}, default_payload={"user_id": 1}, max_concurrency=2)
def send(user_id: int, lang: str = "en") -> None:
    """Sends a letter."""

@app.task(schedule=cron("0 9 * * *"))
def digest() -> None:
    """Digests."""
'''


@pytest.fixture
def rota(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Rota]:
    (tmp_path / "shop_app.py").write_text(APPLICATION)
    yield Rota(dsn, tmp_path, monkeypatch, capsys)
    forget(tmp_path)


def forget(folder: Path) -> None:
    """Let the next command import the application anew."""
    sys.modules.pop("shop_app", None)
    sys.path[:] = [entry for entry in sys.path if entry != str(folder)]


def rewrite(folder: Path, old: str, new: str) -> None:
    """Deploy other code."""
    forget(folder)
    text = (folder / "shop_app.py").read_text()
    assert old in text
    (folder / "shop_app.py").write_text(text.replace(old, new) + "\n" * 7)  # another size, or Python would take it for the same


def names(answer: Any) -> list[str]:
    return [task["name"] for task in answer.data["tasks"]]


@pytest.mark.req("C02", "C03")
def test_sync_list_and_show(rota: Rota, conn: Conn) -> None:
    assert "no tasks" in rota("tasks", "list").err
    synced = rota("tasks", "sync", "-a", "shop_app:app")
    assert (synced.code, synced.out) == (0, "created:  digest, send\n")
    assert "knows the 2 tasks of shop" in synced.err
    again = rota("tasks", "sync", "-a", "shop_app:app", "--json")
    assert again.data == {"created": [], "changed": [], "returned": [], "gone": []}

    listed = rota("tasks", "list").out.splitlines()
    assert listed[0].split() == ["TASK", "STRATEGY", "QUEUE", "ENABLED", "LIMIT", "WORKERS", "TAGS", "DESCRIPTION"]
    assert [line.split()[0] for line in listed[1:]] == ["digest", "send"], "Rota's own are not shown"
    assert "no live worker knows it" in listed[1]
    assert "Sends a letter." in listed[2]
    assert names(rota("tasks", "list", "--tag", "mail", "--json")) == ["send"]
    assert names(rota("tasks", "list", "--field", "team=billing", "--field", "sla_hours=4", "--json")) == ["send"]
    assert rota("tasks", "list", "--field", "team=shipping").err == "no task matches\n"
    assert "such as team=billing" in rota("tasks", "list", "--field", "team").err
    assert "mail, sla_hours=4, team=billing" in listed[2]
    everything = names(rota("tasks", "list", "--all", "--json"))
    assert everything == names(rota("tasks", "list", "--system", "--json"))
    assert {"rota.tick", "send", "digest"} <= set(everything)

    given.start_worker(conn, tasks=("send",))
    shown = rota("tasks", "show", "send")
    assert "Sends a letter." in shown.out
    assert "2 at once" in shown.out
    assert "sla_hours=4, team=billing" in shown.out
    assert "1 live" in shown.out
    data = rota("tasks", "show", "send", "--json").data
    assert (data["strategy"], data["tags"], data["workers"], data["unknown_to_workers"]) == ("on_demand", ["mail"], 1, False)
    assert (data["default_payload"], data["apps"], data["deleted_from_code"]) == ({"user_id": 1}, ["shop"], False)
    assert rota("tasks", "show", "digest", "--json").data["strategy"] == "cron"


@pytest.mark.req("C02")
def test_a_deploy(rota: Rota, conn: Conn, tmp_path: Path) -> None:
    rota("tasks", "sync", "-a", "shop_app:app")
    nothing = rota("tasks", "plan", "-a", "shop_app:app")
    assert nothing.code == 0
    assert "a sync would change nothing" in nothing.err
    job = given.enqueue(conn, "send", payload={"user_id": 7})

    rewrite(tmp_path, "max_concurrency=2", "max_concurrency=5")
    plan = rota("tasks", "plan", "-a", "shop_app:app")
    assert plan.code == 0
    assert "max_concurrency: 2 → 5" in plan.out
    rewrite(tmp_path, "user_id: int, lang", "user: int, lang")
    rewrite(tmp_path, '"user_id": 1', '"user": 1')
    plan = rota("tasks", "plan", "-a", "shop_app:app")
    assert plan.code == 4
    assert str(job) in plan.out
    assert "could not run" in plan.err
    data = rota("tasks", "plan", "-a", "shop_app:app", "--json").data
    assert (data["compatible"], data["payloads"][0]["task"], data["payloads"][0]["jobs"]) == (False, "send", 1)
    assert data["scanned"] >= 1
    assert rota("tasks", "plan", "-a", "shop_app:app", "--scan", "0").code == 0

    rewrite(tmp_path, "def send(", "def post(")
    plan = rota("tasks", "plan", "-a", "shop_app:app")
    assert plan.code == 4
    assert "no code has its task" in plan.out
    assert rota("tasks", "sync", "-a", "shop_app:app").out == "created:  post\ngone:     send\n"
    assert "gone from code" in rota("tasks", "list").out
    refused = rota("tasks", "trigger", "send")
    assert (refused.code, "no code has it" in refused.err) == (4, True)


@pytest.mark.req("C02")
def test_force(rota: Rota) -> None:
    rota("tasks", "sync", "-a", "shop_app:app")
    rota("tasks", "disable", "send")
    rota("tasks", "disable", "digest")
    plan = rota("tasks", "plan", "-a", "shop_app:app")
    assert (plan.code, plan.out.count("enabled")) == (0, 2)
    asked = rota("tasks", "sync", "-a", "shop_app:app", "--force")
    assert (asked.code, "--yes" in asked.err) == (2, True)
    rota("tasks", "sync", "-a", "shop_app:app", "--force", "send")
    assert [rota("tasks", "show", name, "--json").data["enabled"] for name in ("send", "digest")] == [True, False]
    assert rota("tasks", "sync", "-a", "shop_app:app", "--force", "--yes").code == 0
    assert rota("tasks", "show", "digest", "--json").data["enabled"]
    assert rota("tasks", "sync", "-a", "shop_app:app", "send").code == 2
    unknown = rota("tasks", "sync", "-a", "shop_app:app", "--force", "snd")
    assert (unknown.code, "snd" in unknown.err) == (2, True)


@pytest.mark.req("C03")
def test_enable_and_disable(rota: Rota, conn: Conn) -> None:
    rota("tasks", "sync", "-a", "shop_app:app")
    disabled = rota("tasks", "disable", "send", "--reason", "the provider is down")
    assert (disabled.code, disabled.out) == (0, "")
    assert "`rota tasks enable send`" in disabled.err
    job = given.enqueue(conn, "send", payload={"user_id": 7})
    [line] = [line for line in rota("tasks", "list").out.splitlines() if line.startswith("send")]
    assert "(the provider is down), 1 job held" in line
    why = rota("jobs", "why", job)
    assert "is disabled since" in why.out
    assert "the provider is down" in why.out
    assert rota("tasks", "enable", "send").code == 0
    assert "is disabled" not in rota("jobs", "why", job).out
    for command in ("enable", "disable", "show"):
        missing = rota("tasks", command, "sned")
        assert (missing.code, "send" in missing.err) == (3, True)


@pytest.mark.req("C03")
def test_trigger(rota: Rota, conn: Conn) -> None:
    rota("tasks", "sync", "-a", "shop_app:app")
    job = rota("tasks", "trigger", "send", "--payload", '{"lang": "de"}').out.strip()
    row = conn.execute("SELECT payload, triggered_by ->> 'kind' FROM rota.job WHERE id = %s", [job]).fetchone()
    assert row == ({"user_id": 1, "lang": "de"}, "manual")
    data = rota("tasks", "trigger", "send", "-a", "shop_app:app", "--json").data
    assert data["task"] == "send"
    wrong = rota("tasks", "trigger", "send", "-a", "shop_app:app", "--payload", '{"user_id": "x"}')
    assert (wrong.code, "user_id" in wrong.err) == (2, True)
    assert rota("tasks", "trigger", "send", "--payload", "[1]").code == 2
    assert rota("tasks", "trigger", "send", "--payload", '{"colour": 1}').code == 2
    assert rota("tasks", "trigger", "sned").code == 3


@pytest.mark.req("C03")
def test_set_and_unset(rota: Rota) -> None:
    rota("tasks", "sync", "-a", "shop_app:app")
    done = rota("tasks", "set", "send", "max_concurrency=5", "retry.max_attempts=8", "timeout=5m", "retention_days=7")
    assert done.code == 0
    assert "changed from what code says: max_concurrency=5, max_attempts=8, timeout=300.0, retention_days=7" in done.err
    data = rota("tasks", "show", "send", "--json").data
    assert (data["max_concurrency"], data["max_attempts"], data["timeout_s"], data["retention_days"]) == (5, 8, 300.0, 7)
    assert rota("tasks", "set", "send", "max_concurrency=none", 'default_payload={"user_id": 2}').code == 0
    data = rota("tasks", "show", "send", "--json").data
    assert (data["max_concurrency"], data["default_payload"]) == (None, {"user_id": 2})
    assert "5 at once" not in rota("tasks", "show", "send").out
    assert rota("tasks", "unset", "send", "max_concurrency").code == 0
    assert rota("tasks", "show", "send", "--json").data["max_concurrency"] == 2
    assert rota("tasks", "unset", "send").code == 0
    assert rota("tasks", "show", "send", "--json").data["overrides"] is None
    for wrong in ("max_concurrency", "max_concurrency=0", "colour=red", "timeout=soon", "default_payload=[1]"):
        assert rota("tasks", "set", "send", wrong).code == 2
    assert rota("tasks", "set", "sned", "max_attempts=2").code == 3
