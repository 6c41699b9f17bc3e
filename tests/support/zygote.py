"""Processes without the half second that imports take: each is a fork of one that has done nothing but import.

    done = zygote().run(["rota", "jobs", "list"], cwd=folder, env=environment)

Started by itself (`python -m tests.support.zygote`) this is that process: it reads what to do from its standard input, a line of
JSON each, and says on its standard output which process does it, and which have ended, and how.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.support.wait import PATIENCE_S

ROOT = Path(__file__).parents[2]
NOWHERE = "/dev/null"
IMPORTS = (
    "rota.cli.main", "rota.cli.database", "rota.contrib.testing.harness", "rota.engine.journal", "rota.engine.worker",
    "rota.server.asgi", "uvloop",
)  # fmt: skip


class Fork:
    """One of its processes, with what `subprocess.Popen` has of it."""

    def __init__(self, pid: int, zygote: Zygote) -> None:
        self.pid = pid
        self._zygote = zygote

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        return self._zygote.codes.get(self.pid)

    @property
    def returncode(self) -> int | None:
        """The same."""
        return self.poll()

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # we have not heard of its end yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Tell it to stop, unless it has ended."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = PATIENCE_S) -> int:
        """Wait for its end and give the exit code."""
        with self._zygote.news:
            if not self._zygote.news.wait_for(lambda: self.pid in self._zygote.codes, timeout):
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            return self._zygote.codes[self.pid]


class Zygote:
    """The process from which others are forked."""

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}  # of those that have ended
        self.news = threading.Condition()
        self._began: list[int] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.zygote"],
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if not name.startswith("ROTA_") or name == "ROTA_TEST_RUN"}
            | {"NO_COLOR": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The parent of all."""
        return self._process.pid

    def start(self, command: list[str], *, cwd: Path, env: Mapping[str, str], files: list[str | None]) -> Fork:
        """Start `rota …`, `python -c CODE` or `python -m MODULE …`; `files` are its standard ones, None those that we have."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"command": command, "cwd": str(cwd), "env": dict(env), "files": files}) + "\n")
        with self.news:
            if not self.news.wait_for(lambda: self._began, PATIENCE_S):
                raise subprocess.TimeoutExpired(command, PATIENCE_S)
            return Fork(self._began.pop(), self)

    def run(
        self, command: list[str], *, cwd: Path, env: Mapping[str, str], text: str = "", timeout: float = PATIENCE_S
    ) -> subprocess.CompletedProcess[str]:
        """Run something to its end."""
        with tempfile.TemporaryDirectory() as folder:
            files: list[str | None] = [str(Path(folder) / name) for name in ("stdin", "stdout", "stderr")]
            Path(str(files[0])).write_text(text)
            fork = self.start(command, cwd=cwd, env=env, files=files)
            try:
                code = fork.wait(timeout)
            except subprocess.TimeoutExpired:
                os.kill(fork.pid, signal.SIGKILL)
                fork.wait()
                raise
            return subprocess.CompletedProcess(command, code, *(Path(str(file)).read_text() for file in files[1:]))

    def close(self) -> None:
        """End it, and with it what still runs."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, pid, *code = line.split()
            with self.news:
                if what == "began":
                    self.codes.pop(int(pid), None)  # of an earlier one with the same number
                    self._began.append(int(pid))
                else:
                    self.codes[int(pid)] = int(code[0])
                self.news.notify_all()


@lru_cache(1)
def zygote() -> Zygote:
    """The one of this process."""
    return Zygote()


def close_zygote() -> None:
    """End it; for the end of the test run."""
    if zygote.cache_info().currsize:
        zygote().close()
        zygote.cache_clear()


def _serve() -> None:
    for name in IMPORTS:
        __import__(name)
    gc.freeze()  # pages that nobody writes to are shared
    children: set[int] = set()
    woken, wakes = os.pipe()
    for end in (woken, wakes):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    wanted = selectors.DefaultSelector()
    wanted.register(0, selectors.EVENT_READ)
    wanted.register(woken, selectors.EVENT_READ)
    orders = os.fdopen(0, "rb", buffering=0)
    rest = b""
    while True:
        ready = {key.fd for key, _ in wanted.select()}
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 4096)
            for pid in list(children):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    children.discard(pid)
                    _say("ended", pid, os.waitstatus_to_exitcode(status))
        if 0 in ready:
            read = orders.read(1 << 20)
            if not read:
                break
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                pid = os.fork()
                if pid == 0:
                    _become(json.loads(line))
                children.add(pid)
                _say("began", pid)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def _become(order: dict[str, Any]) -> None:
    """Be what was asked for, and nothing else any more."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        stdin, stdout, stderr = order["files"]
        os.dup2(os.open(stdin or NOWHERE, os.O_RDONLY), 0)
        if stderr is not None:
            os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
        os.dup2(2 if stdout is None else os.open(stdout, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 1)
        os.closerange(3, 64)
        sys.stdin = os.fdopen(0, closefd=False)
        os.environ.clear()
        os.environ.update(order["env"])
        time.tzset()
        os.chdir(order["cwd"])
        code = _perform(order["command"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _perform(command: list[str]) -> int:
    """What `python`, or the script of that name, would do."""
    program, *arguments = command
    if program == "rota":
        from rota.cli.main import run

        sys.argv = command
        sys.path.pop(0)
        run()
    elif arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = ["-c"]
        sys.path[0] = ""
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
    return 0


if __name__ == "__main__":
    _serve()
