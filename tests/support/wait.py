"""Waiting for a condition, with a deadline: the only way tests let time pass."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
EVERY_S = 0.01
LONGEST_S = 0.05
# Only a hang takes so long, also on a machine that many share: it ends a test that waits in vain, and says nothing of speed.
PATIENCE_S = 120.0
# For a poll, a lease or a timeout that a test must see nothing of: longer than any of its waits.
NEVER_S = 3600.0


def pause_s(waited_s: float) -> float:
    """Return the pause before the next look: longer after a longer wait, as a look takes milliseconds from everyone else."""
    return min(max(EVERY_S, waited_s / 10), LONGEST_S)


def wait_until(condition: Callable[[], T], deadline_s: float = PATIENCE_S, what: str = "") -> T:
    """Look until `condition` gives something true, and return that; fail after `deadline_s`."""
    began = time.monotonic()
    while not (value := condition()):
        waited_s = time.monotonic() - began
        assert waited_s < deadline_s, _vain(what, deadline_s)
        time.sleep(pause_s(waited_s))
    return value


async def until(condition: Callable[[], T], deadline_s: float = PATIENCE_S, what: str = "") -> T:
    """`wait_until` for async tests: the event loop goes on meanwhile."""
    began = time.monotonic()
    while not (value := condition()):
        waited_s = time.monotonic() - began
        assert waited_s < deadline_s, _vain(what, deadline_s)
        await asyncio.sleep(pause_s(waited_s))
    return value


def _vain(what: str, deadline_s: float) -> str:
    return f"waited {deadline_s:g} s in vain{': ' if what else ''}{what}"
