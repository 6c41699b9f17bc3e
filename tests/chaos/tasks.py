"""The application that suffers: handlers of every kind, each of which writes down when it begins and ends.

An attempt's result says which attempt it was. A completion that was not that attempt's own is seen by that.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.chaos.history import recorder

from rota import Context, Retry, Rota, Snooze

QUICKLY = Retry(max_attempts=4, base="0.2s", cap="1s", jitter="0.3s")
ONCE = Retry(max_attempts=1)  # who is charged once for what others did fails for good

app = Rota(os.environ.get("CHAOS_DSN"))
history = recorder()


class Expected(Exception):
    """The failure that the job was enqueued for."""


@contextmanager
def attempt(ctx: Context) -> Iterator[dict[str, Any]]:
    """Write down the beginning and the end of an attempt, and give what it returns."""
    this = {"job": str(ctx.job_id), "attempt": ctx.attempt}
    history.write("start", **this, task=ctx.task, parent=os.getppid())
    try:
        yield this
    except BaseException as error:
        history.write("end", **this, how=type(error).__name__)
        raise
    history.write("end", **this, how="ok")


@app.task(retry=ONCE)
async def wait(ctx: Context, n: int, seconds: float) -> dict[str, Any]:
    """Innocent, in the event loop."""
    with attempt(ctx) as this:
        await asyncio.sleep(seconds)
    return this


@app.task(retry=ONCE)
def sleep(ctx: Context, n: int, seconds: float) -> dict[str, Any]:
    """Innocent, in a thread."""
    with attempt(ctx) as this:
        time.sleep(seconds)
    return this


@app.task(queue="pausable", retry=ONCE)
def linger(ctx: Context, n: int, seconds: float) -> dict[str, Any]:
    """Innocent, in a thread, on workers that get paused past their lease."""
    with attempt(ctx) as this:
        time.sleep(seconds)
    return this


@app.task(retry=ONCE, isolate=True)
def isolated(ctx: Context, n: int, seconds: float) -> dict[str, Any]:
    """Innocent, in a process of its own."""
    with attempt(ctx) as this:
        time.sleep(seconds)
    return this


@app.task(retry=ONCE)
async def silent(n: int) -> None:
    """Innocent, without a context and without a result: the fastest lane there is."""


@app.task(retry=QUICKLY)
async def flaky(ctx: Context, n: int, failures: int) -> dict[str, Any]:
    """Fails at first."""
    with attempt(ctx) as this:
        await asyncio.sleep(0.02)
        if ctx.attempt <= failures:
            raise Expected(f"attempt {ctx.attempt} of {failures} that fail")
    return this


@app.task(retry=QUICKLY, max_attempts=3)
def hopeless(ctx: Context, n: int) -> None:
    """Always fails."""
    with attempt(ctx):
        raise Expected("as always")


@app.task(retry=ONCE)
async def snoozing(ctx: Context, n: int, times: int) -> dict[str, Any] | Snooze:
    """Wants to be called again later, which is not a failure."""
    with attempt(ctx) as this:
        await asyncio.sleep(0.01)
    return this if ctx.attempt > times else Snooze("0.3s")


@app.task(retry=ONCE, timeout="0.3s")
async def overdue(ctx: Context, n: int) -> None:
    """Exceeds its timeout."""
    with attempt(ctx):
        await asyncio.sleep(30)


@app.task(retry=Retry(max_attempts=10, base="0.2s", cap="0.5s", jitter="0.2s"))
async def pay(ctx: Context, n: int, seconds: float) -> None:
    """Has its effect exactly once, whatever happens: it commits with the completion."""
    with attempt(ctx) as this:
        async with ctx.transaction() as conn:
            await conn.execute("INSERT INTO chaos.payment (job_id, attempt) VALUES (%(job)s, %(attempt)s)", this)
            await asyncio.sleep(seconds)
            ctx.result = this


@app.task(queue="pausable", retry=Retry(max_attempts=10, base="0.2s", cap="0.5s", jitter="0.2s"))
def pay_in_thread(ctx: Context, n: int, seconds: float) -> None:
    """The same from a thread."""
    with attempt(ctx) as this:
        time.sleep(seconds)
        with ctx.transaction() as conn:
            conn.execute("INSERT INTO chaos.payment (job_id, attempt) VALUES (%(job)s, %(attempt)s)", this)
            ctx.result = this


@app.task(retry=QUICKLY, max_attempts=3)
async def exit_process(ctx: Context, n: int) -> None:
    """Poison: ends the process it runs in."""
    with attempt(ctx):
        await asyncio.sleep(0.05)
        os._exit(77)


@app.task(retry=QUICKLY, max_attempts=3)
def segfault(ctx: Context, n: int) -> None:
    """Poison: what a broken extension does."""
    with attempt(ctx):
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGSEGV)


@app.task(retry=QUICKLY, max_attempts=3, isolate=True)
def exit_child(ctx: Context, n: int) -> None:
    """Poison, but alone from the beginning."""
    with attempt(ctx):
        os._exit(78)
