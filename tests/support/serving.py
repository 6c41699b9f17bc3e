"""A server of Rota in the test's own event loop, on a port of its own, and a client to talk to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from fastapi import FastAPI
from tests.support.wait import until

from rota import Rota
from rota.config import Settings, load_settings
from rota.server.asgi import make_asgi
from rota.server.connections import Gate
from rota.server.listening import open_socket
from rota.server.run import Listener
from rota.server.state import State

SECRET = "only-for-tests-" + "x" * 32


@dataclass
class Serving:
    """A running server."""

    app: Rota
    asgi: FastAPI
    port: int
    client: aiohttp.ClientSession  # knows the address: `client.get("/healthz")`; keeps no cookies

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def state(self) -> State:
        """What its routes have at hand."""
        state: State = self.asgi.state.rota
        return state


def settings_for(dsn: str, **overrides: object) -> Settings:
    """Give settings for a server of a test: local, with a secret; `auth_signup="open"` and so on overrule."""
    return load_settings(**{"database_url": dsn, "app_env": "local", "auth_secret": SECRET, **overrides})


@asynccontextmanager
async def serving(app: Rota) -> AsyncIterator[Serving]:
    """Run a server of an application during a block."""
    asgi = make_asgi(app)
    try:
        async with listening_to(asgi, Gate(app.settings.server)) as (port, client):
            try:
                yield Serving(app, asgi, port, client)
            finally:
                asgi.state.rota.stop()  # streams would not end by themselves
    finally:
        await app.aclose()


@asynccontextmanager
async def listening_to(asgi: Any, gate: Gate | None = None) -> AsyncIterator[tuple[int, aiohttp.ClientSession]]:
    """Run any ASGI application on a free port during a block; that port, and a client of it, which keeps no cookies."""
    with open_socket("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        listener = Listener(asgi, stop_within_s=5, gate=gate)
        task = asyncio.create_task(listener.serve([listening]))
        try:
            await until(lambda: listener.started or task.done(), what="for the server to start")
            if task.done():
                task.result()
            async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", cookie_jar=aiohttp.DummyCookieJar()) as client:
                yield port, client
        finally:
            listener.stop()
            await task
