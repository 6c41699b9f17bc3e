"""Tasks for workers in processes of their own; what they do is noted in a table that Rota knows nothing of."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import psycopg

from rota import Context, Retry, Rota

app = Rota()

TABLE = "CREATE TABLE ran (job uuid, attempt bigint, pid bigint, what text, at timestamptz DEFAULT clock_timestamp())"


def note(ctx: Context, what: str) -> None:
    """Write a line that stays, whatever becomes of the run."""
    with psycopg.connect(os.environ["ROTA_DATABASE_URL"], autocommit=True) as conn:
        conn.execute("INSERT INTO ran VALUES (%s, %s, %s, %s)", [ctx.job_id, ctx.attempt, os.getpid(), what])


def noted(conn: psycopg.Connection[Any], what: str = "begin") -> list[int]:
    """The attempts that wrote this, in the order of time."""
    return [row[0] for row in conn.execute("SELECT attempt FROM ran WHERE what = %s ORDER BY at", [what])]


@app.task(retry=Retry(base="0s", jitter="0s"))
async def stay(ctx: Context, seconds: float, again_until: str | None = None) -> None:
    """Takes so long; after the first attempt, until somebody has noted `again_until`."""
    note(ctx, "begin")
    if again_until is None or ctx.attempt == 1:
        await asyncio.sleep(seconds)
    else:
        async with await psycopg.AsyncConnection.connect(os.environ["ROTA_DATABASE_URL"], autocommit=True) as conn:
            while (await conn.execute("SELECT FROM ran WHERE what = %s", [again_until])).rowcount == 0:
                await asyncio.sleep(0.05)
    note(ctx, "end")


@app.task
def stay_in_thread(ctx: Context, seconds: float) -> None:
    note(ctx, "begin")
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not ctx.canceled:
        time.sleep(0.02)
    note(ctx, "stopped" if ctx.canceled else "end")


@app.task
async def block(ctx: Context, seconds: float) -> None:
    """Holds the event loop: nothing else of the process runs in it meanwhile."""
    note(ctx, "begin")
    time.sleep(seconds)  # noqa: ASYNC251
    note(ctx, "end")


@app.task
async def hog(ctx: Context, seconds: float) -> None:
    """Holds a connection of the handlers' pool."""
    async with ctx.transaction() as conn:
        note(ctx, "begin")
        await conn.execute("SELECT pg_sleep(%s)", [seconds])


@app.task
async def tell_time(ctx: Context) -> float:
    note(ctx, "begin")
    return time.time()


@app.task
async def noop() -> None: ...
