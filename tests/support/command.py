"""Runs `rota` as a user does: a process of its own, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.wait import PATIENCE_S
from tests.support.zygote import Fork, zygote

from rota.config import SHARED_VARIABLES

ROTA = [sys.executable, "-m", "rota"]


def environment(**variables: str | None) -> dict[str, str]:
    """Give this process's environment without settings of Rota, plus `variables`; None takes one away."""
    # Which PostgreSQL the tests run on, and the mark by which they are found afterwards, are for our processes too.
    ours = {name for name in os.environ if name.startswith("ROTA_") or name in SHARED_VARIABLES} - PASSED_ON
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {name: value for name, value in {**kept, "NO_COLOR": "1", **variables}.items() if value is not None}


FAMILIES = {"dev", "demo"}  # a server, workers and more: started as users start them
PASSED_ON = {"ROTA_POSTGRES_BIN", "ROTA_TEST_RUN", "ROTA_CACHE"}


def run(*args: str, cwd: Path, dsn: str | None = None, timeout: float = PATIENCE_S, forked: bool = True, **options: Any) -> Result:
    """Run a command to its end; `forked` or not, it is a process of its own."""
    options.setdefault("env", environment(ROTA_DATABASE_URL=dsn))
    if forked and args[0] not in FAMILIES:
        return zygote().run(["rota", *args], cwd=cwd, timeout=timeout, **options)
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([*ROTA, *args], cwd=cwd, capture_output=True, text=True, timeout=timeout, **options)


def start(*args: str, cwd: Path, dsn: str | None = None, **options: Any) -> Process:
    """Start a command and leave it running; its output is in files named `stdout` and `stderr` in its folder."""
    options.setdefault("env", environment(ROTA_DATABASE_URL=dsn))
    if args[0] not in FAMILIES and options.keys() == {"env"}:
        files = [cwd / "stdout", cwd / "stderr"]
        for file in files:
            file.touch()
        return zygote().start(["rota", *args], cwd=cwd, files=[None, *map(str, files)], **options)
    options.setdefault("stdin", subprocess.DEVNULL)
    with open(cwd / "stdout", "a") as stdout, open(cwd / "stderr", "a") as stderr:
        return subprocess.Popen([*ROTA, *args], cwd=cwd, stdout=stdout, stderr=stderr, text=True, **options)


Result = subprocess.CompletedProcess[str]
Process = subprocess.Popen[str] | Fork
