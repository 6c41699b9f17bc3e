"""What tests of the applications share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from tests.support.engine import Engine
from tests.support.outside import Outside, outside
from tests.support.working import working

from rota import Rota
from rota.config import load_settings

MakeApp = Callable[..., Rota]


@pytest.fixture
async def server() -> AsyncIterator[Outside]:
    """Somebody's server, on this machine."""
    async with outside() as server:
        yield server


@pytest.fixture
def engine(dsn: str, conn: psycopg.Connection[Any]) -> Engine:
    """Jobs and runs of the test's own database."""
    return Engine(dsn, conn)


@pytest.fixture
def make_app(dsn: str) -> MakeApp:
    """Make an application that may call this machine; arguments are settings."""

    def make(**settings: Any) -> Rota:
        given = {
            "database_url": dsn,
            "app_env": "local",
            "http_enabled": True,
            "http_allow": "127.0.0.1",
            "housekeeping_enabled": False,
        }
        return Rota(settings=load_settings(**{**given, **settings}))

    return make


@pytest.fixture
async def app(make_app: MakeApp) -> AsyncIterator[Rota]:
    """An application with HTTP jobs."""
    async with make_app() as app:
        yield app


@pytest.fixture
def work() -> Any:
    """Run a worker of an application during a block."""
    return asynccontextmanager(working)
