"""Bounds on work by processor time: other programs on the machine do not count, as they do in time that passes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

# Linear work on the largest inputs of the tests takes milliseconds on a fast machine and a second on a slow one; what grows with
# the square of the input takes minutes on any.
EFFORT_S = 10.0


@contextmanager
def effort_bounded(most_s: float = EFFORT_S) -> Iterator[None]:
    """Fail a block that costs this thread more processor time than that."""
    began = time.thread_time()
    yield
    spent = time.thread_time() - began
    assert spent < most_s, f"it took {spent:.1f} s of processor time"
