"""What an isolated handler says, on its way to the worker: each line at once, so that a crash loses none that was said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from rota.engine.frames import Message
from rota.engine.logbook import Logbook, encode_fields
from rota.engine.options import LogOptions
from rota.log import LEVELS
from rota.model.run import Run
from rota.model.sanitize import clean_text

PROGRESS_S = 0.25


class IsolatedBook:
    """The process's end: sends what its one run says."""

    def __init__(self, send: Callable[[Message], None], options: LogOptions) -> None:
        self._send = send
        self._options = options
        self._level = LEVELS[options.level] if options.enabled else 1000
        self._sent = 0
        self._dropped = 0
        self._progress: str | None = None
        self._shown_at = 0.0

    def write(self, run: Run, level: int, message: str, fields: Mapping[str, Any]) -> None:
        """Sends a line without secrets."""
        if level < self._level:
            return
        if self._sent >= self._options.lines_per_run:
            self._dropped += 1
            return
        self._sent += 1
        most = self._options.line_bytes
        text = encode_fields(fields, most).decode() if fields else None
        # The monotonic clock is the machine's: the worker's is the same.
        self._tell(run, {"line": [monotonic(), level, clean_text(message, most), text]})

    def show(self, run: Run, progress: str) -> None:
        """Sends how far the run has come, a few times a second at most."""
        self._progress = progress
        if monotonic() - self._shown_at >= PROGRESS_S:
            self._send_progress(run)

    def close(self, run: Run) -> None:
        """Sends what is left to be said, and is ready for the next run."""
        if self._progress is not None:
            self._send_progress(run)
        if self._dropped:
            self._tell(run, {"dropped": self._dropped})
        self._sent = self._dropped = 0
        self._shown_at = 0.0

    def _send_progress(self, run: Run) -> None:
        self._shown_at = monotonic()
        progress, self._progress = self._progress, None
        self._tell(run, {"progress": progress})

    def _tell(self, run: Run, message: Message) -> None:
        try:
            self._send({"said": [run.id, run.token], **message})
        except OSError:
            self._dropped += 1  # the worker is gone, and we are about to


def hear(run: Run, message: Message) -> None:
    """The worker's end: enters what an isolated handler has said into the book of its run."""
    book = run.book
    if not isinstance(book, Logbook) or message["said"] != [run.id, run.token]:
        return  # a thread that a former handler has left behind
    match message:
        case {"line": [at, level, text, fields]}:
            book.add(run, at, level, text, None if fields is None else fields.encode())
        case {"progress": progress}:
            book.show(run, progress)
        case {"dropped": count}:
            book.drop(run, count)
