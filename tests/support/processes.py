"""Looks at processes from outside, and waits for what they do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self
from uuid import UUID

import psycopg
from tests.support.command import Process, environment, start
from tests.support.wait import PATIENCE_S, wait_until
from tests.support.zygote import Fork, zygote

ROOT = Path(__file__).parents[2]


def until(condition: Callable[[], Any], within: float = PATIENCE_S, why: str = "") -> Any:
    """Wait for something to become true, and give it."""
    return wait_until(condition, within, why)


def alive(pid: int) -> bool:
    """Say whether a process runs; one that has ended and not been taken leave of does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it is gone, or went while we looked
        return False


def descendants(pid: int) -> list[int]:
    """Name the processes below a process."""
    parents = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(") ")[2].split()[1])
        except OSError:
            continue
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


@contextmanager
def ended_after(process: Process) -> Iterator[Process]:
    """Make sure that a process and all below it are gone after the test, whatever became of it."""
    family: list[int] = []
    try:
        yield process
        family = descendants(process.pid)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
    finally:
        for pid in [*family, *descendants(process.pid)]:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()


@contextmanager
def running(*args: str, cwd: Path, dsn: str | None = None) -> Iterator[Process]:
    """Run a command of `rota` during a block; what it said is shown when the block fails."""
    try:
        with ended_after(start(*args, cwd=cwd, dsn=dsn)) as process:
            yield process
    except BaseException:
        print((cwd / "stdout").read_text()[-2000:])
        print((cwd / "stderr").read_text()[-5000:])
        raise


class WorkerProcess:
    """A worker in a process and session of its own, to be stopped, killed and looked at; for the length of a block."""

    def __init__(
        self,
        app: str,
        dsn: str,
        *,
        errors: IO[bytes] | None = None,
        env: Mapping[str, str] | None = None,
        forked: bool = True,
        **options: Any,
    ) -> None:
        self._forked = forked  # else it is started from nothing, and has no more in memory than it needs
        self._command = [sys.executable, "-m", "tests.support.run_worker", app, dsn, json.dumps(options)]
        self._dsn = dsn
        self._errors = errors  # where its log goes, if not to ours
        self._env = env or {}  # settings of its own
        self._process: subprocess.Popen[bytes] | Fork | None = None
        self.worker_id: UUID | None = None

    def start(self) -> Self:
        """Start it; again after it has ended, as another worker."""
        env = environment(ROTA_DATABASE_URL=self._dsn, **self._env)
        if self._forked:
            errors = f"/proc/{os.getpid()}/fd/{self._errors.fileno()}" if self._errors is not None else None
            self._process = zygote().start(self._command, cwd=ROOT, env=env, files=[None, None, errors])
        else:
            self._process = subprocess.Popen(
                self._command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stderr=self._errors, start_new_session=True
            )
        self.worker_id = None
        return self

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None, "it was not started"
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code, None while it runs."""
        assert self._process is not None, "it was not started"
        return self._process.poll()

    def wait_ready(self, within: float = PATIENCE_S) -> Self:
        """Wait until it is registered and beats."""
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            self.worker_id = until(lambda: self._registered(conn), within, "for a worker to register")
        return self

    def _registered(self, conn: psycopg.Connection[Any]) -> UUID | None:
        assert self.code is None, f"the worker ended with exit code {self.code} before it was ready"
        row = conn.execute(
            "SELECT id FROM rota.worker WHERE pid = %s AND stopped_at IS NULL AND backend_pid IS NOT NULL", [self.pid]
        ).fetchone()
        return row and row[0]

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send it a signal, unless it has ended."""
        assert self._process is not None, "it was not started"
        self._process.send_signal(number)

    def wait(self, within: float = PATIENCE_S) -> int:
        """Wait for its end and give the exit code."""
        assert self._process is not None, "it was not started"
        return self._process.wait(within)

    def stop(self, within: float = PATIENCE_S) -> int:
        """Stop it in order."""
        self.kill(signal.SIGTERM)
        return self.wait(within)

    def __enter__(self) -> Self:
        return self if self._process is not None else self.start()

    def __exit__(self, *_: object) -> None:
        self.kill(signal.SIGKILL)
        self.wait()
