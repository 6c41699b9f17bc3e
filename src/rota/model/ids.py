"""UUIDv7 ids: ordered by the time they were made, so that new rows land side by side in every index.

Ids of one process always rise, also within a millisecond: jobs that are due at the same instant run in the order of
their ids, and so in the order in which they were enqueued.
"""

from __future__ import annotations

import os
import threading
import time
from random import Random
from uuid import UUID


class _Source:
    """A millisecond, 26 random bits and a count that starts from 47 random ones: all are new with each millisecond."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._random = Random()  # seeded by the system, which need not be asked for every millisecond
        self._at = 0
        self._prefix = ""
        self._count = 0

    def take(self, number: int) -> tuple[str, int]:
        """Reserves `number` ids: what their text begins with, and the count that ends the first of them."""
        with self._lock:
            now = time.time_ns() // 1_000_000
            if now > self._at:
                noise = self._random.getrandbits(73)
                self._at = now
                self._prefix = f"{now >> 16:08x}-{now & 0xFFFF:04x}-7{noise & 0xFFF:03x}-{noise >> 12 & 0x3FFF | 0x8000:04x}-"
                self._count = noise >> 26 & (1 << 47) - 1  # of 48 bits, so that it can rise without running over
            first = self._count
            self._count += number
            return self._prefix, first


_source = _Source()


def new_id() -> UUID:
    """A fresh UUIDv7."""
    return UUID(new_id_text())


def new_id_text() -> str:
    """A fresh UUIDv7 in its canonical text form, which is faster than building a UUID object."""
    prefix, count = _source.take(1)
    return f"{prefix}{count:012x}"


def new_id_texts(number: int) -> list[str]:
    """`number` fresh UUIDv7 in rising order."""
    prefix, first = _source.take(number)
    return [f"{prefix}{count:012x}" for count in range(first, first + number)]


def _start_anew() -> None:
    global _source
    _source = _Source()


os.register_at_fork(after_in_child=_start_anew)  # a child must not count on from where its parent does too
