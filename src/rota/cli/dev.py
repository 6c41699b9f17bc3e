"""`rota dev`: an application on this machine, with a PostgreSQL of its own, started anew when its source changes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rota.cli.database import connect
from rota.cli.locate import AppOption
from rota.cli.output import say
from rota.cli.server import command_of, missing_extra
from rota.cli.signals import on_signals
from rota.config import FILE_NAME, Settings, load_settings
from rota.engine.supervisor import Lifeline, describe_exit
from rota.errors import how_to_install

POLL_S = 0.3
SHUTDOWN_S = 3.0  # a reload does not wait long for a running job: it goes back to the queue and runs with the new code
KILL_AFTER_S = 8.0

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def dev(
    location: AppOption = None,
    concurrency: Annotated[int | None, typer.Option(help="Jobs that run at a time.")] = None,
) -> None:
    """Run an application with a PostgreSQL and a server of its own; start it anew when its source changes."""
    settings = load_settings(jobs_worker_concurrency=concurrency)
    with embedded_database(settings, settings.postgres.data_dir) as url:
        _greet(url, settings)
        os.environ |= {
            "ROTA_DATABASE_URL": url,
            "ROTA_DATABASE_PASSWORD_FILE": "off",
            "ROTA_DATABASE_PASSWORD_COMMAND": "off",
            "ROTA_JOBS_SHUTDOWN_TIMEOUT_S": str(min(settings.jobs.shutdown_timeout_s, SHUTDOWN_S)),
            "ROTA_JOBS_ENABLED": "false",  # the worker has a process of its own
        }
        app_flags = ["-a", location] if location else []
        migrate = [sys.executable, "-m", "rota", "migrate", "up", *app_flags]
        worker = [sys.executable, "-m", "rota", "worker", *app_flags]
        worker += ["--concurrency", str(concurrency)] if concurrency else []
        if missing := missing_extra():
            say(f"There is no server: it needs {', '.join(missing)}; {how_to_install('server')}.")
            asyncio.run(Reloader({"worker": worker}, Path.cwd(), before=migrate).run())
            return
        secret = settings.auth.secret or _kept_secret(settings.postgres.data_dir / "auth_secret")
        with local_server(settings.server.port, secret) as listening:
            say(sign_in_words(*sign_in_link(listening)))
            commands = {"worker": worker, "server": command_of(location, listening)}
            asyncio.run(Reloader(commands, Path.cwd(), before=migrate, pass_fds=[listening.fileno()]).run())


@contextlib.contextmanager
def local_server(port: int, secret: str) -> Iterator[socket.socket]:
    """A socket for a server on this computer only, and what its processes must know, in the environment."""
    from rota.server.listening import open_usual_or_free

    with open_usual_or_free("127.0.0.1", port) as listening:
        os.environ |= {
            "ROTA_APP_ENV": "local",
            "ROTA_AUTH_SECRET": secret,
            "ROTA_SERVER_HOST": "127.0.0.1",
            "ROTA_SERVER_PORT": str(listening.getsockname()[1]),
        }
        yield listening


def sign_in_link(listening: socket.socket) -> tuple[str, str | None]:
    """Where the server is, and a link that signs its admin in, once."""
    from rota.control.accounts import admin_link
    from rota.server.listening import address_of

    settings = load_settings()
    base = address_of(listening) + settings.server.root_path
    return base, connect(lambda conn: admin_link(conn, settings, base=base))


def sign_in_words(server: str, link: str | None) -> str:
    """The same for people."""
    return f"Server: {server}\nSign in (good once, for {load_settings().auth.link_minutes} minutes): {link}"


def _kept_secret(file: Path) -> str:
    """The secret of the last run, or a new one: who is signed in stays so over restarts."""
    with contextlib.suppress(FileNotFoundError):
        return file.read_text().strip()
    secret = secrets.token_urlsafe(48)
    with open(file, "x", opener=lambda path, flags: os.open(path, flags, 0o600)) as kept:
        kept.write(f"{secret}\n")
    return secret


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
    """Runs commands, and runs them anew when a source file below a folder changes."""

    def __init__(
        self, commands: Mapping[str, Sequence[str]], folder: Path, *, before: Sequence[str] = (), pass_fds: Sequence[int] = ()
    ) -> None:
        self._commands = commands  # by what they are called
        self._before = before  # must succeed before they are started
        self._pass_fds = pass_fds
        self._sources = Sources(folder)
        self._stopping = asyncio.Event()
        self._children: dict[str, asyncio.subprocess.Process] = {}

    async def run(self) -> None:
        """Runs until SIGINT or SIGTERM."""
        on_signals(self.stop)
        with Lifeline() as lifeline:
            while not self._stopping.is_set():
                commands = self._commands if await self._prepare(lifeline) else {}
                self._children = {
                    name: await lifeline.start(command, pass_fds=self._pass_fds) for name, command in commands.items()
                }
                if changed := await self._await_change():
                    say(f"{', '.join(changed)} changed: starting anew")
                await asyncio.gather(*map(self._end, self._children.values()))

    def stop(self) -> None:
        """Ends the commands and the reloader; called again, it tells them again: the worker then gives up its jobs."""
        if self._stopping.is_set():
            for child in self._children.values():
                if child.returncode is None:
                    child.terminate()
        self._stopping.set()

    async def _prepare(self, lifeline: Lifeline) -> bool:
        """Run what comes first, and show what it says unless it had nothing to do."""
        if not self._before:
            return True
        with tempfile.TemporaryFile() as output:
            child = await lifeline.start(self._before, output)
            self._children = {"migration": child}
            failed = await child.wait()
            output.seek(0)
            said = output.read().decode(errors="replace").rstrip()
        if failed and not self._stopping.is_set():
            say(f"{said}\nthe migration {describe_exit(failed)}: it is started again when a file changes")
        elif said.startswith("applied"):
            say(said)
        return not failed and not self._stopping.is_set()

    async def _await_change(self) -> list[str]:
        ended: dict[asyncio.Task[Any], str] = {asyncio.create_task(child.wait()): name for name, child in self._children.items()}
        stopping = asyncio.create_task(self._stopping.wait())
        waiting: set[asyncio.Task[Any]] = {*ended, stopping}
        try:
            while not stopping.done():
                done, waiting = await asyncio.wait(waiting, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
                for task in done & ended.keys():
                    say(f"the {ended[task]} {describe_exit(task.result())}: it is started again when a file changes")
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
