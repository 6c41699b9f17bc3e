"""The signals that end a command."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable


def on_signals(stop: Callable[[], None]) -> None:
    """Calls `stop` in the running event loop at each SIGINT and SIGTERM."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
