"""Recurring tasks for workers in processes of their own; what they do is noted in a table that Rota knows nothing of."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.faulty import note

from rota import Context, Retry, RetryAfter, Rota, Snooze

app = Rota()


@app.recurring(key="{name}", retry=Retry(base="1m", cap="1h", jitter="0s"))
async def fetch(ctx: Context, name: str, seconds: float = 0.0) -> timedelta:
    """Takes so long at its first attempt, and wants to run again after an hour."""
    note(ctx, "begin")
    if ctx.attempt == 1:
        await asyncio.sleep(seconds)
    note(ctx, "end")
    return timedelta(hours=1)


@app.recurring(key="{name}", retry=Retry(base="1m", cap="1h", jitter="0s"))
def kill(ctx: Context, name: str) -> None:
    """Kills whoever runs it."""
    note(ctx, "begin")
    os.kill(os.getpid(), signal.SIGKILL)


@app.recurring(key="{what}", isolate=True, retry=Retry(base="1m", cap="1h", jitter="0s"))
def give(ctx: Context, what: str) -> Any:
    """Gives one of the things that can be given, from a process of its own."""
    if what == "transaction":
        with ctx.transaction():
            ctx.result = timedelta(hours=2)
        return None
    if what == "death":
        os.kill(os.getpid(), signal.SIGKILL)
    return {
        "delay": timedelta(hours=2),
        "time": datetime(2040, 1, 1, tzinfo=UTC),
        "nothing": None,
        "snooze": Snooze("2h"),
        "retry": RetryAfter("2h", "busy"),
        "garbage": "soon",
    }[what]
