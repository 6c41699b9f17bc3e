"""What happened, written down outside Rota: one line per event, appended to a file per process by one write() each.

A line is complete or not there, whoever is killed when. Times are CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import orjson

VARIABLE = "CHAOS_FOLDER"
Line = dict[str, Any]


class Recorder:
    """Appends this process's lines; a forked child would go on in the same file, which does no harm."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: int | None = None
        self._lock = threading.Lock()

    def write(self, event: str, **fields: Any) -> None:
        """Append one line."""
        line = orjson.dumps({"event": event, "at": monotonic(), "pid": os.getpid(), **fields}) + b"\n"
        with self._lock:
            if self._file is None:
                # Named by the moment too: process numbers come round.
                path = self._folder / f"{os.getpid()}-{monotonic():.6f}.history"
                self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            os.write(self._file, line)


def recorder() -> Recorder:
    """Give the recorder of a process that the harness has started."""
    return Recorder(Path(os.environ[VARIABLE]))


def read(folder: Path) -> list[Line]:
    """Give all lines of all processes in the order of time."""
    return sorted(_lines(folder), key=lambda line: line["at"])


def _lines(folder: Path) -> Iterator[Line]:
    for path in folder.glob("*.history"):
        for text in path.read_bytes().splitlines():
            yield orjson.loads(text)
