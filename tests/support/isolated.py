"""Tasks that behave and misbehave in processes of their own; what they do is noted in files, for others to see."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import subprocess
import threading
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import structlog

from rota import Cancel, Context, Retry, RetryAfter, Rota, Secret, Snooze

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


def _say(ctx: Context, lines: int) -> None:
    for number in range(lines):
        ctx.log.info(f"line {number}", n=number, password="hunter2")
        logging.getLogger("shop").warning("logged %d", number)


@app.task(isolate=True)
def say_lines(ctx: Context, lines: int) -> None:
    _say(ctx, lines)


@app.task(isolate=True)
async def say_and_die(ctx: Context, lines: int) -> None:
    await asyncio.sleep(0)
    _say(ctx, lines)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task
async def say_and_hang(ctx: Context, lines: int) -> None:
    for number in range(lines):
        ctx.log.info(f"line {number}")
    await asyncio.sleep(600)


@app.task(isolate=True)
def count_up(ctx: Context, to: int) -> None:
    for done in range(to + 1):
        ctx.progress(done, to)


def spill(ctx: Context, headers: dict[str, Secret]) -> None:
    """Say, show and raise a secret in every way a handler might."""
    secret = headers["Authorization"].get_secret_value()
    logger = logging.getLogger("shop")
    ctx.log.info(f"calling with {secret}", headers={"Authorization": secret}, plain=secret, password=secret, nested=[{"a": secret}])
    ctx.log.bind(client=secret).warning("bound")
    ctx.log.info("headers %s", headers)
    logger.warning("token=%s in %s", secret, {"x": secret}, extra={"api_key": secret, "other": secret})
    structlog.get_logger().error("structlog", value=secret, **{secret: 1})
    threading.Thread(target=ctx.log.info, args=[f"from a thread: {secret}"]).start()
    ctx.progress(1, 2, f"with {secret}")
    try:
        raise ValueError("inner", {"cookie": secret})
    except ValueError as error:
        logger.exception("caught")
        ctx.log.exception("caught too")
        raise RuntimeError(f"GET https://u:{secret}@example.org failed with {secret!r}") from error


@app.task(isolate=True)
def spill_isolated(ctx: Context, headers: dict[str, Secret], how: str) -> Any:
    return _spill(ctx, headers, how)


@app.task
async def spill_async(ctx: Context, headers: dict[str, Secret], how: str) -> Any:
    await asyncio.sleep(0)
    return _spill(ctx, headers, how)


@app.task
def spill_in_thread(ctx: Context, headers: dict[str, Secret], how: str) -> Any:
    return _spill(ctx, headers, how)


def _spill(ctx: Context, headers: dict[str, Secret], how: str) -> Any:
    secret = headers["Authorization"].get_secret_value()
    if how == "cancel":
        return Cancel(f"not with {secret}")
    if how == "retry":
        return RetryAfter("1h", f"not with {secret}")
    return spill(ctx, headers)
