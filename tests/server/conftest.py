"""A running server, and a client to talk to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.support.serving import Serving, serving, settings_for
from tests.support.shop import Shop, open_shop

from rota import Rota

Serve = Callable[..., AbstractAsyncContextManager[Serving]]


@pytest.fixture
def serve(dsn: str) -> Serve:
    """Run a server of an application without tasks of its own, during a block; arguments are settings: `http_enabled=True`."""

    def start(**overrides: Any) -> AbstractAsyncContextManager[Serving]:
        return serving(Rota(settings=settings_for(dsn, **overrides)))

    return start


@pytest.fixture
async def server(serve: Serve) -> AsyncIterator[Serving]:
    """A running server with default settings."""
    async with serve() as running:
        yield running


@pytest.fixture
async def shop(dsn: str) -> AsyncIterator[Shop]:
    """A running server of an application with some tasks, and its admin."""
    async with open_shop(dsn) as shop:
        yield shop
