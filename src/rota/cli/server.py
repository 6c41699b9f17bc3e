"""`rota server`: the API over HTTP, in one process or several."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import secrets
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from rota.cli import garbage
from rota.cli.database import check_schema
from rota.cli.locate import AppOption, find_app
from rota.cli.output import say
from rota.cli.signals import on_signals
from rota.config import Settings, load_settings
from rota.engine.supervisor import Supervisor, end_with_parent
from rota.errors import ConfigError, how_to_install
from rota.log import configure_logging
from rota.server.listening import address_of, open_socket, take_over

if TYPE_CHECKING:
    from rota.app import Rota

KILL_AFTER_S = 15.0  # beyond the shutdown timeout: a process that is still there hangs
EXTRA = ("fastapi", "uvicorn", "jwt", "aiosmtplib")

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def server(
    location: AppOption = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on; else server.host.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="The port to listen on; else server.port.")] = None,
    processes: Annotated[int, typer.Option("--processes", "-p", min=1, max=256, help="Processes to run.")] = 1,
    fd: Annotated[int | None, typer.Option(min=3, help="Listen on this file descriptor, which is open already.")] = None,
) -> None:
    """Serve the API over HTTP until SIGINT or SIGTERM.

    It keeps nothing in memory that matters: run as many as you like. It needs no application; one that is found lends its
    tasks. With jobs.enabled each process also runs a worker and a scheduler. The first signal lets requests and jobs at hand
    end within jobs.shutdown_timeout_s; the second ends it at once.
    """
    end_with_parent()
    if missing := missing_extra():
        raise ConfigError(f"`rota server` needs {', '.join(missing)}: {how_to_install('server')}")
    settings = load_settings()
    configure_logging(settings.log, env=settings.app.env)
    _have_secret(settings)
    if fd is not None:
        _serve(location, take_over(fd), inherited=True)
    listening = open_socket(host or settings.server.host, settings.server.port if port is None else port)

    def say_so() -> None:
        say(f"listening on {address_of(listening)}{settings.server.root_path}")

    if processes == 1:
        _serve(location, listening, say_so)
    check_schema(settings.database)
    raise typer.Exit(asyncio.run(_supervise(location, listening, processes, settings, say_so)))


def missing_extra() -> list[str]:
    """The libraries that the server needs and that are not installed."""
    return [name for name in EXTRA if importlib.util.find_spec(name) is None]


def command_of(location: str | None, listening: socket.socket) -> list[str]:
    """The command that serves on a socket which is handed on to it."""
    flags = ["-a", location] if location else []
    return [sys.executable, "-m", "rota", "server", "--fd", str(listening.fileno()), *flags]


def _have_secret(settings: Settings) -> None:
    """Without a secret of its own a server on somebody's own computer makes one up, for all of its processes."""
    if settings.auth.secret is None and settings.app.env == "local":
        os.environ["ROTA_AUTH_SECRET"] = secrets.token_urlsafe(48)
        say("auth.secret is not set: one was made up, and everybody must sign in again after the next start")


def _serve(
    location: str | None, listening: socket.socket, on_listening: Callable[[], None] = lambda: None, *, inherited: bool = False
) -> None:
    import uvloop

    from rota.server.run import serve

    application = find_app(location) or _bare_app()
    check_schema(application.settings.database, application.migrations)
    garbage.settle()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        raise typer.Exit(runner.run(serve(application, listening, on_signals, on_listening, inherited=inherited)))


def _bare_app() -> Rota:
    from rota.app import Rota

    return Rota()


async def _supervise(
    location: str | None, listening: socket.socket, processes: int, settings: Settings, on_listening: Callable[[], None]
) -> int:
    supervisor = Supervisor(
        lambda _number: command_of(location, listening),
        processes,
        kill_after_s=settings.jobs.shutdown_timeout_s + KILL_AFTER_S,
        pass_fds=[listening.fileno()],
    )
    on_signals(supervisor.stop)
    waiting = asyncio.create_task(_wait_for_answer(listening, on_listening))
    try:
        return await supervisor.run()
    finally:
        waiting.cancel()


async def _wait_for_answer(listening: socket.socket, on_answer: Callable[[], None]) -> None:
    """Call `on_answer` when the first child answers. Until then connections to the shared socket wait in its queue."""
    url = urlsplit(address_of(listening))
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(url.hostname, url.port)
            try:
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                if await reader.read(1):
                    on_answer()
                    return
            finally:
                writer.close()
        await asyncio.sleep(0.1)
