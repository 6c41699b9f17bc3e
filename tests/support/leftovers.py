"""Finds the processes that a test run has left behind."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

from tests.support.wait import PATIENCE_S

# Children inherit it, whoever adopts them later: that finds a daemon whose parent is gone.
VARIABLE = "ROTA_TEST_RUN"


def mark() -> None:
    """Mark every process that will come from this one."""
    os.environ[VARIABLE] = secrets.token_hex(8)


def find(patience_s: float = PATIENCE_S) -> list[str]:
    """Describe the processes of this run that do not end; only where there is a /proc."""
    deadline = time.monotonic() + patience_s
    while (found := _alive()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def _alive() -> list[str]:
    needle = f"{VARIABLE}={os.environ[VARIABLE]}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        pid = int(process.name)
        try:
            marked = needle in (process / "environ").read_bytes().split(b"\0")
            status = (process / "stat").read_text().rpartition(") ")[2].split()
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:  # it ended while we looked, or it is someone else's
            continue
        if pid != os.getpid() and status[0] != "Z" and (marked or int(status[1]) == os.getpid()):
            found.append(f"{pid}: {command[:200]}")
    return found
