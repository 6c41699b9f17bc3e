"""`rota demo`: a busy application to look at, on a PostgreSQL of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from rota.cli.dev import embedded_database
from rota.cli.output import say
from rota.cli.signals import on_signals
from rota.config import load_settings
from rota.db.embedded import EmbeddedPostgres
from rota.engine.supervisor import HOPELESS, Supervisor
from rota.errors import RotaError
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
    """Watch a busy application, on a PostgreSQL of its own.

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
            "ROTA_JOBS_QUEUES": "default,images,mail,payments",
            "ROTA_JOBS_WORKER_CONCURRENCY": "16",
            "ROTA_JOBS_SHUTDOWN_TIMEOUT_S": str(SHUTDOWN_S),
            "ROTA_LOG_FORMAT": "json",
        }
        with open(log.name, "a") as own_log:
            configure_logging(load_settings().log, own_log)
            asyncio.run(_show(url, rate, seconds, log))
    say("stopped: nothing is left running")


async def _show(url: str, rate: float, seconds: float | None, log: IO[bytes]) -> None:
    from rota.demo import app as shop
    from rota.demo import stream

    supervisor = Supervisor(_worker_command, WORKERS, kill_after_s=KILL_AFTER_S, output=log)
    stopping = asyncio.Event()
    on_signals(stopping.set)
    if seconds is not None:
        asyncio.get_running_loop().call_later(seconds, stopping.set)
    view = _live_view if sys.stdout.isatty() else _plain_lines
    working = asyncio.create_task(supervisor.run())
    busy: set[asyncio.Task[Any]] = {asyncio.create_task(stream(rate)), asyncio.create_task(view(url, log.name))}
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
        raise RotaError(f"the workers could not start: see {log.name}")


def _worker_command(_number: int) -> list[str]:
    return [sys.executable, "-m", "rota", "worker", "-a", "rota.demo:app"]


async def _live_view(url: str, log: str) -> None:
    from rich.live import Live

    from rota.cli.demo_view import render_view, watch

    hints = [
        f"PostgreSQL: {url}",
        f"Log of the workers: {log}",
        "Kill one of them (kill -9 PROCESS) and see its jobs run again.",
    ]
    with Live(auto_refresh=False, screen=True) as live:
        async for figures in watch(url):
            live.update(render_view(figures, hints), refresh=True)


async def _plain_lines(url: str, _log: str) -> None:
    from rota.cli.demo_view import render_line, watch

    async for figures in watch(url):
        print(render_line(figures), flush=True)
