"""A server of Rota in a thread of its own, for what talks to it without an event loop: the command line."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from structlog.testing import capture_logs
from tests.support.invoke import Rota as Command
from tests.support.serving import serving
from tests.support.wait import PATIENCE_S

from rota import Rota

NOWHERE = "postgresql://nobody@127.0.0.1:1/none?connect_timeout=2"


def over_api(cli: Command, url: str, token: str) -> Command:
    """Give the same command line over the API; a database it has none."""
    return Command(NOWHERE, cli.folder, cli.monkeypatch, cli.capsys, ROTA_URL=url, ROTA_TOKEN=token)


@contextmanager
def served(app: Rota) -> Iterator[str]:
    """Run a server of an application during a block, and give its address."""
    loop = asyncio.new_event_loop()
    started, stopping = threading.Event(), asyncio.Event()
    address: list[str] = []

    async def serve() -> None:
        try:
            async with serving(app) as server:
                address.append(server.url)
                started.set()
                await stopping.wait()
        finally:
            started.set()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert started.wait(PATIENCE_S)
        assert address, "the server did not start"
        with capture_logs():  # what it logs is not what the command prints
            yield address[0]
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join(PATIENCE_S)
        loop.close()
