"""Starts the processes of a run, and keeps them from outliving the harness, however that ends."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Protocol

from tests.support.zygote import Fork, zygote

VARIABLE = "CHAOS_HARNESS"
ROOT = Path(__file__).parents[2]
_PR_SET_PDEATHSIG = 1

Process = subprocess.Popen[bytes] | Fork


class Start(Protocol):
    """A way to start a module of ours, with more in its environment than we have, and a file for what it says."""

    def __call__(self, module: str, *arguments: object, environment: dict[str, str], log: Path) -> Process: ...


def start(module: str, *arguments: object, environment: dict[str, str], log: Path) -> Process:
    """Start it as an init system does."""
    with open(log, "ab") as said:
        return subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env={**os.environ, **environment, VARIABLE: str(os.getpid())},
            cwd=ROOT,
            start_new_session=True,  # Ctrl-C is for the harness
        )


def fork(module: str, *arguments: object, environment: dict[str, str], log: Path) -> Process:
    """Start it without the half second of imports, for runs that are short."""
    known = {**os.environ, **environment, VARIABLE: str(zygote().pid)}  # which ends with us, and all of its forks with it
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return zygote().start(command, cwd=ROOT, env=known, files=[None, str(log), str(log)])


def end_with_harness() -> None:
    """Be killed with the harness, even while stopped: a pipe that is closed would not be seen then."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    harness = os.environ.get(VARIABLE)  # none when somebody tries it by hand
    if harness and os.getppid() != int(harness):
        sys.exit("the harness is gone")
