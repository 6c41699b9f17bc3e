"""`rota dev`: an application on this machine, with a PostgreSQL of its own, started anew when its source changes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from rota.cli.locate import AppOption
from rota.cli.output import say
from rota.cli.signals import on_signals
from rota.config import FILE_NAME, Settings, load_settings
from rota.engine.supervisor import Lifeline, describe_exit

POLL_S = 0.3
SHUTDOWN_S = 3.0  # a reload does not wait long for a running job: it goes back to the queue and runs with the new code
KILL_AFTER_S = 8.0

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def dev(
    location: AppOption = None,
    concurrency: Annotated[int | None, typer.Option(help="Jobs that run at a time.")] = None,
) -> None:
    """Run an application with a PostgreSQL of its own; start it anew when its source changes."""
    settings = load_settings(jobs_worker_concurrency=concurrency)
    with embedded_database(settings, settings.postgres.data_dir) as url:
        _greet(url, settings)
        os.environ["ROTA_DATABASE_URL"] = url
        os.environ["ROTA_JOBS_SHUTDOWN_TIMEOUT_S"] = str(min(settings.jobs.shutdown_timeout_s, SHUTDOWN_S))
        command = [sys.executable, "-m", "rota", "worker"]
        command += ["-a", location] if location else []
        command += ["--concurrency", str(concurrency)] if concurrency else []
        asyncio.run(Reloader(command, Path.cwd()).run())


@contextlib.contextmanager
def embedded_database(settings: Settings, folder: Path) -> Iterator[str]:
    """Runs a PostgreSQL with Rota's schema in a folder, and gives its URL, which stays the same from run to run."""
    import psycopg

    from rota.db import migrations
    from rota.db.binaries import find_binaries
    from rota.db.embedded import EmbeddedPostgres

    binaries = find_binaries(settings.postgres.bin) if settings.postgres.bin else None
    port = folder / "port"
    if folder.parent.name == ".rota":  # ours alone, and with a password in it: nothing for a repository
        folder.parent.mkdir(parents=True, exist_ok=True)
        (folder.parent / ".gitignore").write_text("*\n")
    with EmbeddedPostgres(folder, binaries=binaries, port=_free_port(port)) as postgres:
        port.write_text(f"{postgres.port}\n")
        url = postgres.dsn(tcp=True)
        with psycopg.connect(url, autocommit=True) as conn:
            migrations.up(conn)
        yield url


def _free_port(note: Path) -> int | None:
    """The port of the last run, if nobody else has it now."""
    try:
        with socket.create_server(("127.0.0.1", port := int(note.read_text()))):
            return port
    except (OSError, ValueError):
        return None


class Reloader:
    """Runs a command, and runs it anew when a source file below a folder changes."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._command = command
        self._sources = Sources(folder)
        self._stopping = asyncio.Event()
        self._child: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        """Runs until SIGINT or SIGTERM."""
        on_signals(self.stop)
        with Lifeline() as lifeline:
            while not self._stopping.is_set():
                self._child = await lifeline.start(self._command)
                if changed := await self._await_change(self._child):
                    say(f"{', '.join(changed)} changed: starting anew")
                await self._end(self._child)

    def stop(self) -> None:
        """Ends the command and the reloader; called again, it tells the command again, which then gives up its jobs."""
        if self._stopping.is_set() and self._child is not None and self._child.returncode is None:
            self._child.terminate()
        self._stopping.set()

    async def _await_change(self, child: asyncio.subprocess.Process) -> list[str]:
        ended = asyncio.create_task(child.wait())
        stopping = asyncio.create_task(self._stopping.wait())
        waiting: set[asyncio.Task[int] | asyncio.Task[bool]] = {ended, stopping}
        try:
            while not stopping.done():
                done, waiting = await asyncio.wait(waiting, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
                if ended in done:
                    say(f"the worker {describe_exit(ended.result())}: it is started again when a file changes")
                if changed := self._sources.changed():
                    return changed
            return []
        finally:
            for task in waiting:
                task.cancel()

    async def _end(self, child: asyncio.subprocess.Process) -> None:
        if child.returncode is None:
            child.terminate()
        try:
            await asyncio.wait_for(child.wait(), KILL_AFTER_S)
        except TimeoutError:
            os.killpg(child.pid, signal.SIGKILL)
            await child.wait()


class Sources:
    """The Python files below a folder, and which of them have changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = self._look()

    def changed(self) -> list[str]:
        """The files that were written, made or removed since the last call."""
        before, self._seen = self._seen, self._look()
        return sorted({os.path.relpath(name, self._folder) for name, _ in before.items() ^ self._seen.items()})

    def _look(self) -> dict[str, int]:
        found = {}
        for root, folders, files in os.walk(self._folder):
            # Hidden folders, virtual environments and caches hold no source of the user's.
            folders[:] = [
                name
                for name in folders
                if not name.startswith((".", "__pycache__", "node_modules"))
                and not os.path.exists(os.path.join(root, name, "pyvenv.cfg"))
            ]
            for name in files:
                if name.endswith(".py") or name == FILE_NAME:
                    path = os.path.join(root, name)
                    with contextlib.suppress(FileNotFoundError):
                        found[path] = os.stat(path).st_mtime_ns
        return found


def _greet(url: str, settings: Settings) -> None:
    say(f"PostgreSQL runs, with its data in {settings.postgres.data_dir}.")
    if settings.database.url:
        say("`rota dev` leaves the configured database.url alone and uses its own.")
    say("In another terminal:")
    say(f"  export ROTA_DATABASE_URL='{url}'")
    say("  rota jobs enqueue TASK '{\"argument\": 1}'")
    say("  rota jobs list")
    say("A save of a .py file starts the worker anew; Ctrl-C ends everything.")
