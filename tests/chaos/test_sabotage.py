"""What `--sabotage` takes out is still where it looks for it."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from tests.chaos import sabotage

from rota.engine.claimer import Claimer
from rota.store import runs


@pytest.mark.parametrize("kind", sabotage.KINDS)
def test_there_is_something_to_take_out(kind: str, conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "SQL", dict(runs.SQL))
    monkeypatch.setattr(Claimer, "_wait_for_wake", Claimer._wait_for_wake)
    sabotage.in_database(conn, kind)
    sabotage.in_worker(kind)
