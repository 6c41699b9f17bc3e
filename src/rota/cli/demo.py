"""`rota demo`: a busy application to look at, on a PostgreSQL of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from rota.cli.dev import embedded_database, local_server, sign_in_link, sign_in_words
from rota.cli.output import say
from rota.cli.server import command_of, missing_extra
from rota.cli.signals import on_signals
from rota.config import load_settings
from rota.db.embedded import EmbeddedPostgres
from rota.engine.supervisor import HOPELESS, Supervisor
from rota.errors import RotaError, how_to_install
from rota.log import configure_logging

FOLDER = Path(".rota/demo")
WORKERS = 2
SHUTDOWN_S = 1.0
KILL_AFTER_S = 3.5  # whatever hangs, Ctrl-C ends everything in less than five seconds

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def demo(
    seconds: Annotated[float | None, typer.Option(min=1, help="End after this time.")] = None,
    rate: Annotated[float, typer.Option(min=1, max=2000, help="Jobs to enqueue per second.")] = 100,
) -> None:
    """Watch a busy application, on a PostgreSQL of its own, with a server to sign in to.

    Its jobs succeed, retry, time out, snooze, fan out and fan in, and its schedules fire. Kill a worker process to see its
    jobs taken over.
    """
    settings = load_settings()
    say(f"starting PostgreSQL in {FOLDER} …")
    EmbeddedPostgres(FOLDER).remove()  # what an earlier demo left may be of another version, and is worth nothing
    with embedded_database(settings, FOLDER) as url, open(FOLDER / "worker.log", "ab") as log:
        # The demo is the same everywhere, whatever this folder's rota.toml says of queues and time limits.
        os.environ |= {
            "ROTA_DATABASE_URL": url,
            "ROTA_DATABASE_PASSWORD_FILE": "off",
            "ROTA_DATABASE_PASSWORD_COMMAND": "off",
            "ROTA_JOBS_QUEUES": "default,http,images,mail,payments",
            "ROTA_JOBS_ENABLED": "false",
            "ROTA_HTTP_ENABLED": "true",
            "ROTA_JOBS_WORKER_CONCURRENCY": "16",
            "ROTA_JOBS_SHUTDOWN_TIMEOUT_S": str(SHUTDOWN_S),
            "ROTA_LOG_FORMAT": "json",
        }
        with open(log.name, "a") as own_log, contextlib.ExitStack() as stack:
            configure_logging(load_settings().log, own_log)
            listening, words, link = None, [], None
            if missing := missing_extra():
                words = [f"There is no server: it needs {', '.join(missing)}; {how_to_install('server')}."]
                say(words[0])
            else:
                listening = stack.enter_context(local_server(settings.server.port, secrets.token_urlsafe(48)))
                server, link = sign_in_link(listening)
                words = [f"Server: {server}"]
                say(sign_in_words(server, link))
            hints = [*words, f"PostgreSQL: {url}", f"Log: {log.name}"]
            asyncio.run(_show(url, hints, link, rate, seconds, log, listening))
    say("stopped: nothing is left running")


async def _show(
    url: str,
    hints: Sequence[str],
    link: str | None,
    rate: float,
    seconds: float | None,
    log: IO[bytes],
    listening: socket.socket | None,
) -> None:
    from rota.demo import app as shop
    from rota.demo import stream

    def command(number: int) -> list[str]:
        if listening is not None and number == WORKERS:
            return command_of("rota.demo:app", listening)
        return [sys.executable, "-m", "rota", "worker", "-a", "rota.demo:app"]

    served = [] if listening is None else [listening.fileno()]
    supervisor = Supervisor(command, WORKERS + len(served), kill_after_s=KILL_AFTER_S, output=log, pass_fds=served)
    stopping = asyncio.Event()
    on_signals(stopping.set)
    if seconds is not None:
        asyncio.get_running_loop().call_later(seconds, stopping.set)
    view = _live_view if sys.stdout.isatty() else _plain_lines
    working = asyncio.create_task(supervisor.run())
    busy: set[asyncio.Task[Any]] = {asyncio.create_task(stream(rate)), asyncio.create_task(view(url, hints, link))}
    stop: asyncio.Task[Any] = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({working, stop, *busy}, return_when=asyncio.FIRST_COMPLETED)
        for task in busy:
            if task.done():
                task.result()  # it ends by an error only
    finally:
        for task in (stop, *busy):
            task.cancel()
        supervisor.stop()
        await asyncio.wait({working, stop, *busy})
        await shop.aclose()
    if working.result() == HOPELESS:
        raise RotaError(f"the workers and the server could not start: see {log.name}")


async def _live_view(url: str, hints: Sequence[str], first_link: str | None) -> None:
    from psycopg import AsyncConnection
    from rich.live import Live

    from rota.cli.demo_view import SignInLink, render_view, watch

    hints = ["Kill a worker (kill -9 PROCESS) and see its jobs run again.", *hints]
    async with await AsyncConnection.connect(url, autocommit=True) as conn:
        link = None if first_link is None else SignInLink(conn, load_settings(), first_link)
        with Live(auto_refresh=False, screen=True) as live:
            async for figures in watch(conn):
                live.update(render_view(figures, hints, None if link is None else await link.current()), refresh=True)


async def _plain_lines(url: str, _hints: Sequence[str], _link: str | None) -> None:
    from psycopg import AsyncConnection

    from rota.cli.demo_view import render_line, watch

    async with await AsyncConnection.connect(url, autocommit=True) as conn:
        async for figures in watch(conn):
            print(render_line(figures), flush=True)
