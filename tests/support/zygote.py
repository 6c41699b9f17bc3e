"""Programs of Rota's without the half second that its imports take: each is a fork of a process that has done nothing but import.

    with Zygote() as zygote:
        done = zygote.run(["rota", "jobs", "list"], cwd=folder, env=environment)

Started by itself (`python -m tests.support.zygote`) this is that process: it reads what to do from its standard input, a line of
JSON each, and says on its standard output the process that does it and then with which code that has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TIMEOUT_S = 60
IMPORTS = ("rota", "rota.cli.main", "rota.cli.database", "rota.engine.worker", "rota.server.asgi", "rota.contrib.testing.harness")


class Zygote:
    """The process from which others are forked."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.zygote"],
            cwd=Path(__file__).parents[2],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def run(self, command: list[str], *, cwd: Path, env: Mapping[str, str], text: str = "") -> subprocess.CompletedProcess[str]:
        """Run `rota` with arguments, or `python -c` with code, to its end."""
        with tempfile.TemporaryDirectory() as folder:
            files = [str(Path(folder) / name) for name in ("stdin", "stdout", "stderr")]
            Path(files[0]).write_text(text)
            self._tell({"command": command, "cwd": str(cwd), "env": dict(env), "files": files})
            pid = self._hear(TIMEOUT_S)
            try:
                code = self._hear(TIMEOUT_S)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._hear(TIMEOUT_S)
                raise subprocess.TimeoutExpired(command, TIMEOUT_S) from None
            return subprocess.CompletedProcess(command, code, *(Path(file).read_text() for file in files[1:]))

    def close(self) -> None:
        """End the process; what it was asked for has ended."""
        self._process.communicate(timeout=TIMEOUT_S)

    def _tell(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")

    def _hear(self, within_s: float) -> int:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], within_s)[0]:
            raise TimeoutError
        return int(self._process.stdout.readline())


def _serve() -> None:
    for name in IMPORTS:
        __import__(name)
    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(order)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(order: dict[str, Any]) -> None:
    """Be the program that was asked for, and nothing else any more."""
    code = 1
    try:
        os.setsid()
        flags = [os.O_RDONLY, *2 * [os.O_WRONLY | os.O_CREAT | os.O_APPEND]]
        for number, (path, flag) in enumerate(zip(order["files"], flags, strict=True)):
            os.dup2(os.open(path, flag, 0o600), number)
        os.environ.clear()
        os.environ.update(order["env"])
        time.tzset()
        os.chdir(order["cwd"])
        sys.path[0] = ""
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
    program, *arguments = command
    if program == "rota":
        from rota.cli.main import run

        sys.argv = command
        sys.path.pop(0)  # where the script lies, for which this stands
        run()
    else:
        sys.argv = ["-c"]
        exec(compile(arguments[-1], "<string>", "exec"), {"__name__": "__main__"})
    return 0


if __name__ == "__main__":
    _serve()
