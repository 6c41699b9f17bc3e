"""Waiting for a condition, with a deadline: the only way tests let time pass."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
EVERY_S = 0.01


def wait_until(condition: Callable[[], T], deadline_s: float = 30.0, what: str = "") -> T:
    """Look until `condition` gives something true, and return that; fail after `deadline_s`."""
    deadline = time.monotonic() + deadline_s
    while not (value := condition()):
        assert time.monotonic() < deadline, _vain(what, deadline_s)
        time.sleep(EVERY_S)
    return value


async def until(condition: Callable[[], T], deadline_s: float = 30.0, what: str = "") -> T:
    """`wait_until` for async tests: the event loop goes on meanwhile."""
    deadline = time.monotonic() + deadline_s
    while not (value := condition()):
        assert time.monotonic() < deadline, _vain(what, deadline_s)
        await asyncio.sleep(EVERY_S)
    return value


def _vain(what: str, deadline_s: float) -> str:
    return f"waited {deadline_s:g} s in vain{': ' if what else ''}{what}"
