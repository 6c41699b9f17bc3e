"""`rota secrets`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.invoke import Rota

from rota import seal
from rota.model import secret
from rota.model.secret import key_id

OLD, NEW = "o" * 40, "n" * 40


@pytest.fixture
def rota(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rota:
    monkeypatch.setattr(secret, "_required", False)
    return Rota(dsn, tmp_path, monkeypatch, capsys, ROTA_SECRETS_KEY=f"{NEW},{OLD}")


def given(monkeypatch: pytest.MonkeyPatch, *keys: str) -> None:
    monkeypatch.setattr(secret, "_keys", keys)


@pytest.mark.req("T07")
def test_a_key_is_replaced(rota: Rota, conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, OLD)
    sealed = seal("canary", kind="webhook", id=1, field="secret")
    conn.execute("INSERT INTO rota.webhook (url, secret) VALUES ('https://example.org', %s)", [sealed])
    given(monkeypatch)
    uses = {use["id"]: use for use in rota("secrets", "list", "--json").data}
    assert uses[key_id(OLD)] == {"id": key_id(OLD), "known": True, "newest": False, "secrets": 1, "requests": 0}
    assert uses[key_id(NEW)]["newest"] is True

    given(monkeypatch)
    done = rota("secrets", "rotate")
    assert (done.code, done.err) == (0, f"1 secrets are now encrypted with key {key_id(NEW)}\n")
    [(operation, target)] = conn.execute("SELECT operation, target FROM rota.audit").fetchall()
    assert (operation, target) == ("secrets.rotate", key_id(NEW))

    given(monkeypatch)
    rota.variables["ROTA_SECRETS_KEY"] = OLD  # somebody has the old key only
    done = rota("secrets", "rotate")
    assert done.code == 1
    assert "1 secrets need a key that is missing here" in done.err


def test_without_a_key(rota: Rota) -> None:
    del rota.variables["ROTA_SECRETS_KEY"]
    assert "there are no keys and no encrypted secrets" in rota("secrets", "list").err
    assert "set secrets.key (ROTA_SECRETS_KEY)" in rota("secrets", "rotate").err
