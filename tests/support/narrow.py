"""A task with a limit, for workers in processes of their own; who is inside when is noted in a table that Rota knows nothing of."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import psycopg

from rota import Context, Retry, Rota

LIMIT = 3
TABLE = """CREATE TABLE visit (job uuid, pid bigint, began timestamptz DEFAULT clock_timestamp(), ended timestamptz,
                               attempt bigint, PRIMARY KEY (job, attempt))"""
# How many were inside when each came in; those that were killed there do not count.
MOST = """SELECT max((SELECT count(*) FROM visit o WHERE o.began <= v.began AND o.ended > v.began))
          FROM visit v WHERE ended IS NOT NULL"""

app = Rota()


@app.task(max_concurrency=LIMIT, retry=Retry(base="0s", jitter="0s"))
async def visit(ctx: Context, seconds: float, first_s: float = 0.0) -> None:
    """Is inside for so long, the first time for `first_s` more."""
    async with await psycopg.AsyncConnection.connect(os.environ["ROTA_DATABASE_URL"], autocommit=True) as conn:
        where: dict[str, Any] = {"job": ctx.job_id, "attempt": ctx.attempt, "pid": os.getpid()}
        await conn.execute("INSERT INTO visit (job, attempt, pid) VALUES (%(job)s, %(attempt)s, %(pid)s)", where)
        await asyncio.sleep(seconds + (first_s if ctx.attempt == 1 else 0.0))
        await conn.execute("UPDATE visit SET ended = clock_timestamp() WHERE job = %(job)s AND attempt = %(attempt)s", where)
