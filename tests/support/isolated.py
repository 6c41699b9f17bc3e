"""Tasks that behave and misbehave in processes of their own; what they do is noted in files, for others to see."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import threading
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

from rota import Cancel, Context, Retry, RetryAfter, Rota, Snooze

AT_ONCE = Retry(max_attempts=3, base="1ms", cap="1ms", jitter="0s")

app = Rota()


def note(path: str, text: str | int) -> None:
    """Add a line to a file, in one write, so that many processes can."""
    with open(path, "a") as file:
        file.write(f"{text}\n")


def notes(path: Path) -> list[str]:
    """Read the lines that were noted so far."""
    return path.read_text().splitlines() if path.exists() else []


@app.task(isolate=True)
def tell_pid() -> int:
    return os.getpid()


@app.task(isolate=True)
async def tell_context(ctx: Context, word: str) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"word": word, "job": str(ctx.job_id), "attempt": ctx.attempt, "of": ctx.max_attempts, "canceled": ctx.canceled}


@app.task(isolate=True)
def give(what: str) -> Any:
    return {
        "nothing": None,
        "big": 2**80,
        "decimal": Decimal("1.50"),
        "nul": "a\x00b",
        "long": "x" * 100_000,
        "snooze": Snooze("1h"),
        "cancel": Cancel("not wanted \ud800"),
        "retry": RetryAfter("1h", "the other side is busy"),
    }[what]


@app.task(isolate=True)
def tell_sockets() -> list[str]:
    files = (os.readlink(file) for file in Path("/proc/self/fd").iterdir() if file.is_symlink())
    return [file for file in files if file.startswith("socket:")]


@app.task(isolate=True, retry=AT_ONCE)
def fail(how: str) -> None:
    if how == "value":
        raise ValueError("no such thing: \x00")
    if how == "exit":
        raise SystemExit(7)
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "memory":
        bytearray(1 << 62)


@app.task(isolate=True, retry=AT_ONCE)
async def fail_async(how: str) -> None:
    await asyncio.sleep(0)
    if how == "cancelled":
        raise asyncio.CancelledError
    fail.spec.handler(how)


@app.task(isolate=True, retry=AT_ONCE)
def die(how: str) -> None:
    if how == "exit":
        os._exit(3)
    if how == "null":
        ctypes.string_at(0)
    if how == "fork":  # somebody who holds everything open stays behind
        if os.fork() == 0:
            time.sleep(600)
        os._exit(4)
    if how == "close":
        os.closerange(3, 256)
        return
    if how in ("hang up", "hang up and stay"):
        hang_up()
        time.sleep(600 if how == "hang up and stay" else 0)
        return
    os.kill(os.getpid(), getattr(signal, how))


def hang_up() -> None:
    """Close the line to the worker while nobody reads it: a descriptor that is being read is closed only after that."""
    [reader] = (thread for thread in threading.enumerate() if thread.name == "rota-line")
    assert reader.ident is not None
    signal.signal(signal.SIGUSR1, lambda *_: None)
    os.closerange(3, 256)
    signal.pthread_kill(reader.ident, signal.SIGUSR1)
    reader.join()


@app.task(isolate=True, timeout="2s")
def hang(path: str) -> None:
    note(path, os.getpid())
    note(path, subprocess.Popen(["sleep", "600"]).pid)
    time.sleep(600)


@app.task(isolate=True, timeout="2s")
def hurry() -> str:
    return "in time"


@app.task(isolate=True)
async def wait_async(path: str) -> None:
    note(path, os.getpid())
    try:
        await asyncio.sleep(600)
    finally:
        note(path, "cleaned up")


@app.task(isolate=True)
def wait_politely(ctx: Context, path: str) -> str:
    note(path, os.getpid())
    while not ctx.canceled:
        time.sleep(0.01)
    return "what there was"


@app.task(isolate=True)
def finish_regardless(path: str) -> None:
    note(path, "begin")
    while "go" not in notes(Path(path)):
        time.sleep(0.01)


@app.task(isolate=True)
def wait_stubbornly(path: str) -> None:
    note(path, os.getpid())
    time.sleep(600)


@app.task(isolate=True)
def survive_signals() -> str:
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    return "still here"


@app.task(isolate=True, retry=AT_ONCE)
def pay(ctx: Context, amount: int, then: str = "end") -> str:
    with ctx.transaction() as conn:
        conn.execute("INSERT INTO payment VALUES (%s, %s)", [ctx.job_id, amount])
        ctx.result = {"paid": amount}
        if then == "fail within":
            raise ValueError("not paid")
    if then == "fail after":
        raise ValueError("paid all the same")
    if then == "die after":
        os._exit(9)
    return "unused"


@app.task(isolate=True, retry=AT_ONCE)
async def pay_async(ctx: Context, amount: int) -> None:
    async with ctx.transaction() as conn:
        await conn.execute("INSERT INTO payment VALUES (%s, %s)", [ctx.job_id, amount])
        ctx.result = {"paid": amount}


@app.task(isolate=True)
def say(ctx: Context, word: str) -> None:
    ctx.log.info("said", word=word)


@app.task(retry=AT_ONCE)
async def innocent(path: str, n: int) -> int:
    note(path, n)
    await asyncio.sleep(0.02)
    return n


@app.task(retry=AT_ONCE)
async def poison(path: str) -> None:
    note(path, os.getpid())
    await asyncio.sleep(0.01)  # its neighbours have started too
    os._exit(1)


@app.task(retry=AT_ONCE, timeout="3s")
def take_turns(path: str) -> None:
    note(path, "begin")
    time.sleep(0.8)
    note(path, "end")


@app.task(name="first_of_two", isolate=True)
def two_of_a_name() -> None: ...


@app.task(name="second_of_two", isolate=True)  # type: ignore[no-redef]
def two_of_a_name() -> None: ...  # noqa: F811


def plain(n: int) -> int:
    return n + os.getpid()


renamed = app.task(name="renamed", isolate=True)(plain)
