"""Runs the server in this process, until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI

from rota.config import ServerSettings, Settings
from rota.control.servers import configured_url
from rota.outbound.address import own_ports
from rota.server.asgi import make_asgi
from rota.server.connections import Gate, Protocol, reserve_descriptors
from rota.server.listening import BACKLOG
from rota.store.servers import RunningServer

if TYPE_CHECKING:
    from rota.app import Rota
    from rota.server.state import State

KEEP_ALIVE_S = 65  # longer than proxies keep a connection for another request
REQUESTS_S = 10.0  # for the requests at hand when the jobs have used up jobs.shutdown_timeout_s
UNREAD_S = 1.0  # for clients that do not read the end of their answer, once everything else has ended

log = logging.getLogger("rota.server")


class Listener(uvicorn.Server):
    """Uvicorn without its handling of signals, and on a socket that is open already."""

    def __init__(
        self,
        asgi: FastAPI,
        *,
        stop_within_s: float,
        gate: Gate | None = None,
        on_listening: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_listening = on_listening
        protocol: Any = partial(Protocol, gate=gate or Gate(ServerSettings()))
        super().__init__(
            uvicorn.Config(
                asgi,
                http=protocol,
                backlog=BACKLOG,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=max(1, round(stop_within_s)),
            )
        )
        self._stopping = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and report it once requests are answered."""
        await super().startup(sockets)
        if self.started:
            self._on_listening()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the business of who runs it."""
        yield

    async def main_loop(self) -> None:
        """Waits to be told to stop, instead of asking ten times a second; once a second the header Date moves on."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), 1)

    def stop(self, within_s: float | None = None) -> None:
        """Takes no more connections, and ends when the requests at hand have been answered; called again, at once."""
        if within_s is not None:
            self.config.timeout_graceful_shutdown = max(1, round(within_s))
        self.force_exit = self.should_exit
        self.should_exit = True
        self._stopping.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends; a client that does not read the end of its answer does not hold this up."""
        cutting = asyncio.create_task(self._cut_unread())
        try:
            await super().shutdown(sockets)
        finally:
            cutting.cancel()

    async def _cut_unread(self) -> None:
        await asyncio.sleep(UNREAD_S)
        while self.server_state.connections:
            if not self.server_state.tasks:
                for connection in list(self.server_state.connections):
                    connection.transport.abort()
            await asyncio.sleep(0.1)


def _listening_on(settings: Settings, listening: socket.socket) -> Settings:
    """Return the settings with the address that --host, --port or --fd have chosen; a Unix socket has none."""
    if listening.family not in (socket.AF_INET, socket.AF_INET6):
        return settings
    host, port = listening.getsockname()[:2]
    return settings.model_copy(update={"server": settings.server.model_copy(update={"host": host, "port": port})})


async def serve(
    app: Rota,
    listening: socket.socket,
    on_stop: Callable[[Callable[[], None]], None],
    on_listening: Callable[[], None] = lambda: None,
    *,
    inherited: bool = False,
) -> int:
    """Serve on a socket, perhaps `inherited`, until the function passed to `on_stop` is called, and return the exit code.

    The order of a stop: `/readyz` answers 503 and the worker inside claims nothing more, while requests are still answered; its
    jobs end within jobs.shutdown_timeout_s, and what remains of them goes back to the queue; then streams end, no new connections
    are taken and the requests at hand end; then the connections to the database are closed. A second stop does all of it at once.
    """
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)  # what it says of its start and end we say ourselves
    settings = _listening_on(app.settings, listening)
    asgi = make_asgi(app, settings=settings)
    state: State = asgi.state.rota
    own_ports.add(settings.server.port)
    state.address = RunningServer(configured_url(settings), settings.server.port, settings.app.env)
    state.inherited = inherited
    stop_within_s = app.settings.jobs.shutdown_timeout_s
    gate = Gate(app.settings.server, reserve_descriptors(app.settings))
    listener = Listener(asgi, stop_within_s=stop_within_s, gate=gate, on_listening=on_listening)
    broken = False
    ending: asyncio.Task[None] | None = None

    async def end(deadline: float) -> None:
        await state.drained()
        state.stop()
        listener.stop(max(REQUESTS_S, deadline - monotonic()))

    def stop() -> None:
        nonlocal ending
        if ending is None:
            log.info("stopping")
            state.drain()
            ending = asyncio.create_task(end(monotonic() + stop_within_s), name="rota-stop")
            return
        log.info("stopping at once")
        ending.cancel()
        state.stop()
        listener.stop()
        listener.stop()

    def end_broken() -> None:
        nonlocal broken
        broken = True
        log.error("the worker inside the server has ended by itself: the server ends too, so that somebody starts both anew")
        stop()

    state.on_broken = end_broken
    on_stop(stop)
    try:
        await listener.serve([listening])
    finally:
        await state.aclose()  # if it was forced to end, or did not come to start
        await app.aclose()
    return 1 if broken else 0
