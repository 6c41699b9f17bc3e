"""What tests of feeds are given."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from tests.feeds.world import Site, World, site


@pytest.fixture
async def web() -> AsyncIterator[Site]:
    """Somebody's web server, on this machine."""
    async with site() as server:
        yield server


@pytest.fixture
async def world(dsn: str, conn: psycopg.Connection[Any], aconn: psycopg.AsyncConnection[Any]) -> AsyncIterator[World]:
    """An application with feeds whose clock stands still."""
    made = World(dsn, conn, aconn)
    yield made
    await made.app.aclose()
