"""Keeps what handlers say: lines in batches, progress once a second. Nothing here may hold up a handler, or the end of its run."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Mapping
from itertools import count
from time import monotonic
from typing import Any
from uuid import UUID

import orjson
import psycopg

from rota.db.connection import AsyncConn, answer_within, is_disconnect
from rota.engine.options import LogOptions
from rota.events import Events, LinesRefused
from rota.log import LEVELS
from rota.model.run import Run
from rota.model.sanitize import clean_text, encode_result
from rota.store import logs as store
from rota.store.logs import Line

FLUSH_LINES = 100
FLUSH_S = 5.0
ENDED_S = 0.1  # from the end of a run to its lines: what ends meanwhile goes along
PROGRESS_S = 1.0
PROGRESS_TRIES = 5  # a run's end may be on its way to the database while its progress is
BATCH = 2000
ANSWER_WITHIN_S = 20.0
PARTITIONS_S = 3600.0


class _Said:
    """What one run has said so far."""

    __slots__ = ("dropped", "kept", "next", "progress", "shown_at", "tries")

    def __init__(self) -> None:
        self.next = count(1).__next__  # in one step, whichever threads of a handler log at once
        self.kept = 0
        self.dropped = 0
        self.progress: str | None = None  # not stored yet
        self.shown_at = 0.0
        self.tries = 0


class Logbook:
    """Takes in lines from all handlers of a worker, in whatever thread they run, and writes them down."""

    name = "logbook"

    def __init__(self, worker: UUID, options: LogOptions, events: Events) -> None:
        self._worker = worker
        self._options = options
        self._events = events
        self._level = LEVELS[options.level] if options.enabled else 1000
        self._lines: deque[Line] = deque()
        self._progress: dict[Run, None] = {}  # those with progress that is not stored yet
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._flush_at = float("inf")
        self._sending = 0  # the first so many lines are on their way
        self._again = False  # and may have arrived already

    def write(self, run: Run, level: int, message: str, fields: Mapping[str, Any]) -> None:
        """Takes in a line without secrets; never fails and never waits."""
        if level < self._level:
            return
        most = self._options.line_bytes
        text = None if not fields else encode_fields(fields, most)
        self.add(run, monotonic(), level, clean_text(message, most), text)

    def add(self, run: Run, at: float, level: int, message: str, fields: bytes | None) -> None:
        """Takes in a line that is safe to store."""
        said = run.said or self._open(run)
        if said.kept >= self._options.lines_per_run or len(self._lines) >= self._options.buffer_lines:
            said.dropped += 1
            return
        said.kept += 1
        self._lines.append(Line(run, at, said.next(), min(max(level // 10 * 10, 10), 50), message, fields))
        waiting = len(self._lines) - self._sending
        if waiting >= FLUSH_LINES:
            self._flush_by(at)
        elif waiting == 1:
            self._flush_by(at + FLUSH_S)

    def drop(self, run: Run, count: int) -> None:
        """Counts lines that were dropped before they came here."""
        (run.said or self._open(run)).dropped += count

    def show(self, run: Run, progress: str) -> None:
        """Takes in how far a run has come; the newest counts."""
        said = run.said or self._open(run)
        said.progress, said.tries = progress, 0
        with self._lock:
            self._progress[run] = None
        self._flush_by(max(said.shown_at + PROGRESS_S, monotonic()))

    def close(self, run: Run) -> None:
        """The handler has ended: what it said is written down soon, and how much of it was dropped."""
        said: _Said = run.said
        if said.dropped:
            dropped, said.dropped = said.dropped, 0
            text = f"{dropped} more {'line was' if dropped == 1 else 'lines were'} dropped"
            self._lines.append(Line(run, monotonic(), said.next(), 30, text, orjson.dumps({"dropped": dropped})))
        said.shown_at = 0.0
        self._flush_by(monotonic() + ENDED_S)

    @property
    def backlog(self) -> int:
        return len(self._lines) + len(self._progress)

    async def drain(self, deadline: float) -> None:
        """Waits until everything is written down, or the deadline has passed."""
        while self.backlog and monotonic() < deadline:
            self._flush_by(monotonic())
            await asyncio.sleep(0.01)

    async def begin(self) -> None:
        """Waits until somebody has said something: a worker whose handlers never do needs no connection for it."""
        self._loop = asyncio.get_running_loop()
        if self._flush_at == float("inf"):
            await self._news.wait()

    async def serve(self, conn: AsyncConn) -> None:
        """Writes batches on this connection until it breaks; what was not confirmed is written again on the next one."""
        partitions_at = 0.0
        while True:
            if monotonic() >= partitions_at:
                with answer_within(conn, ANSWER_WITHIN_S):
                    await store.make_partitions(conn)
                partitions_at = monotonic() + PARTITIONS_S
            await self._wait()
            with answer_within(conn, ANSWER_WITHIN_S):
                await self.run_once(conn)

    async def run_once(self, conn: AsyncConn) -> None:
        """Writes down what is there; what breaks off is for the next connection, at once."""
        try:
            await self._write_all(conn)
            await self._show(conn)
        except BaseException:
            self._flush_by(monotonic())
            raise
        if self._lines:
            self._flush_by(monotonic() + (FLUSH_S if len(self._lines) < FLUSH_LINES else 0.0))

    async def _write_all(self, conn: AsyncConn) -> None:
        while True:
            with self._lock:
                self._flush_at = float("inf")
            batch = [self._lines[at] for at in range(min(BATCH, len(self._lines)))]
            if not batch:
                break
            self._sending = len(batch)
            try:
                await self._write(conn, batch)
            except BaseException:
                self._again = True
                raise
            finally:
                self._sending = 0
            self._again = False
            for _ in batch:
                self._lines.popleft()
            if len(batch) < BATCH:
                break

    async def _write(self, conn: AsyncConn, batch: list[Line]) -> None:
        try:
            refused = await store.write(conn, worker=self._worker, lines=batch, again=self._again)
        except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError) as error:
            if is_disconnect(error) or len(batch) == 1:
                raise
            refused = 0
            for line in batch:  # one that cannot be stored, although it was made safe to store, does not take the others along
                try:
                    refused += await store.write(conn, worker=self._worker, lines=[line], again=True)
                except (psycopg.DataError, psycopg.IntegrityError):
                    refused += 1
        if refused:
            self._events.emit(LinesRefused(refused))

    async def _show(self, conn: AsyncConn) -> None:
        now = monotonic()
        with self._lock:
            due = [(run, run.said.progress) for run in self._progress if run.said.shown_at + PROGRESS_S <= now]
        if due:
            found = await store.show_progress(conn, worker=self._worker, progress=due)
            with self._lock:
                for run, text in due:
                    said: _Said = run.said
                    said.tries += 1
                    said.shown_at = now
                    if said.progress is text and (run.id in found or said.tries >= PROGRESS_TRIES):
                        said.progress = None
                        del self._progress[run]
        if self._progress:
            self._flush_by(now + PROGRESS_S if due else min(run.said.shown_at for run in list(self._progress)) + PROGRESS_S)

    async def _wait(self) -> None:
        until = monotonic() + PARTITIONS_S
        while True:
            self._news.clear()  # first: whoever comes after this look sets it again
            if (left := min(self._flush_at, until) - monotonic()) <= 0:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._news.wait()

    def _flush_by(self, at: float) -> None:
        with self._lock:
            if at >= self._flush_at:
                return
            self._flush_at = at
        loop = self._loop
        if loop is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: the worker has ended
            loop.call_soon_threadsafe(self._news.set)

    def _open(self, run: Run) -> _Said:
        run.said = said = _Said()
        return said


def encode_fields(fields: Mapping[str, Any], most: int) -> bytes:
    """Fields as JSON that PostgreSQL can store, whatever is in them."""
    try:
        raw = orjson.dumps(fields, default=str, option=orjson.OPT_NON_STR_KEYS)
        if b"\\u0000" in raw:
            raise ValueError("NUL")
    except Exception:  # an integer beyond 64 bits, a lone surrogate, NUL, somebody's own __str__
        each = (f"{encode_result(clean_text(str(name)))}:{encode_result(value)}" for name, value in fields.items())
        raw = f"{{{','.join(each)}}}".encode()
    if len(raw) > most:
        head = raw[: most // 2].decode("utf-8", "ignore")
        return orjson.dumps({"truncated": True, "bytes": len(raw), "head": head})
    return raw
