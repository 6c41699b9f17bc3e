"""Ends calls that take too long, as `asyncio.timeout` would; all are looked at together, on a coarse tick, which costs far less."""

from __future__ import annotations

import asyncio
from time import monotonic
from types import TracebackType

TICK_S = 0.05  # how exactly they are kept
EXACT_S = 1.0  # shorter ones have a timer of their own


class Deadlines:
    """Those of one event loop. Nothing ticks while there are none."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._kept: set[Deadline] = set()
        self._ticks = False

    def within(self, seconds: float) -> Deadline:
        """For a `with` block that is cancelled after so many seconds, and raises TimeoutError then."""
        return Deadline(self, seconds)

    def add(self, deadline: Deadline) -> None:
        """Watches over one."""
        self._kept.add(deadline)
        if not self._ticks:
            self._ticks = True
            self.loop.call_later(TICK_S, self._tick)

    def remove(self, deadline: Deadline) -> None:
        """Its block has ended."""
        self._kept.discard(deadline)

    def _tick(self) -> None:
        now = monotonic()
        for deadline in [each for each in self._kept if each.at <= now]:
            deadline.expire()
        self._ticks = bool(self._kept)
        if self._ticks:
            self.loop.call_later(TICK_S, self._tick)


class Deadline:
    """One of them."""

    __slots__ = ("_all", "_cancelling", "_expired", "_seconds", "_task", "_timer", "at")

    def __init__(self, all: Deadlines, seconds: float) -> None:
        task = asyncio.current_task(all.loop)
        assert task is not None
        self.at = monotonic() + seconds
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._all = all
        self._task = task
        self._cancelling = task.cancelling()
        self._expired = False

    def expire(self) -> None:
        """Its time is over. The task is suspended within the block, for this is called by the event loop."""
        self._all.remove(self)
        self._expired = True
        self._task.cancel()

    def __enter__(self) -> None:
        if self._seconds < EXACT_S:
            self._timer = self._all.loop.call_later(self._seconds, self.expire)
        else:
            self._all.add(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        else:
            self._all.remove(self)
        # If somebody else has cancelled the task as well, it is that which counts.
        if self._expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error
