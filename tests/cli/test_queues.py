"""`rota queues`."""

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


def test_list_pause_and_resume(rota: Rota, conn: Conn) -> None:
    given.declare(conn, "work", queue="mail")
    given.enqueue(conn)
    worker = given.start_worker(conn, queues=("mail",))

    paused = rota("queues", "pause", "mail", "--reason", "provider is down")
    assert (paused.code, paused.out) == (0, "")
    assert "`rota queues resume mail`" in paused.err
    assert given.claim(conn, worker, queue="mail") == []
    head, line = rota("queues", "list").out.splitlines()
    assert head.split()[:3] == ["QUEUE", "READY", "DELAYED"]
    assert line.split()[:5] == ["mail", "1", "0", "0", "0"]
    assert line.endswith("(provider is down)")
    [data] = rota("queues", "list", "--json").data
    assert (data["name"], data["ready"], data["workers"]) == ("mail", exactly(1), 1)
    assert data["pause_reason"] == "provider is down"

    assert rota("queues", "resume", "mail").code == 0
    assert len(given.claim(conn, worker, queue="mail")) == 1


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_an_unknown_queue(rota: Rota, conn: Conn, verb: str) -> None:
    given.declare(conn, queue="mail")
    answer = rota("queues", verb, "mial")
    assert (answer.code, answer.out) == (2, "")
    assert "error: there is no queue 'mial': did you mean 'mail'?" in answer.err


def test_no_queues(rota: Rota) -> None:
    answer = rota("queues", "list")
    assert (answer.code, answer.out) == (0, "")
    assert "there are no queues" in answer.err
