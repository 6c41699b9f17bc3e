"""What the engine's tests share."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from tests.support.engine import Engine
from tests.support.scheduling import Scheduling
from tests.support.wait import NEVER_S

from rota.contrib.testing.clock import Clock
from rota.engine import claimer
from rota.engine.claimer import Claimer
from rota.engine.transport import Session

pytest.register_assert_rewrite("tests.engine.transport_contract")  # its tests are in no file of tests


@pytest.fixture
def engine(dsn: str, conn: psycopg.Connection[Any]) -> Engine:
    """Tasks, jobs and workers on the test's own database."""
    return Engine(dsn, conn)


@pytest.fixture
def clock(conn: psycopg.Connection[Any]) -> Clock:
    """The database's clock, which can be moved."""
    return Clock(conn)


@pytest.fixture
def scheduling(dsn: str, conn: psycopg.Connection[Any]) -> Scheduling:
    """Schedules in the test's own database."""
    return Scheduling(dsn, conn)


@pytest.fixture
def asleep(monkeypatch: pytest.MonkeyPatch) -> set[Claimer]:
    """Collect the workers that wait for a wake-up and will not look by themselves, given a poll interval of NEVER_S."""
    monkeypatch.setattr(claimer, "FIRST_LOOK_S", NEVER_S)  # or each would look a few times after falling asleep
    sleeping: set[Claimer] = set()
    wait_for_wake = Claimer._wait_for_wake

    async def note(self: Claimer, session: Session, seconds: float) -> None:
        if seconds > NEVER_S / 2:
            sleeping.add(self)
        try:
            await wait_for_wake(self, session, seconds)
        finally:
            sleeping.discard(self)

    monkeypatch.setattr(Claimer, "_wait_for_wake", note)
    return sleeping
