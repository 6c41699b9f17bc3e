"""What the engine's tests share."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from tests.support.engine import Engine

from rota.contrib.testing.clock import Clock


@pytest.fixture
def engine(dsn: str, conn: psycopg.Connection[Any]) -> Engine:
    """Tasks, jobs and workers on the test's own database."""
    return Engine(dsn, conn)


@pytest.fixture
def clock(conn: psycopg.Connection[Any]) -> Clock:
    """The database's clock, which can be moved."""
    return Clock(conn)
