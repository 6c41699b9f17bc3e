"""Tasks with limits of every kind, for workers in processes of their own; who is inside when is noted in a table of its own."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from typing import Any

import psycopg

from rota import Context, Retry, Rota

STARTS, PERIOD_S = 30, 1.0
TABLES = """
CREATE TABLE visit (job uuid, attempt bigint, task text, key text, pid bigint, began timestamptz, ended timestamptz);
CREATE INDEX ON visit (job, attempt);
CREATE TABLE ending (pid bigint, at timestamptz DEFAULT clock_timestamp());  -- of a process that was killed or stopped
"""
# Pairs that were inside at the same time. Who was killed or stopped was inside until then: what it does when it wakes up is fenced,
# and its lease has run out. So has that of what it begins then although the job was taken from it and run again by another.
OVERLAPS = """
WITH stay AS (
    SELECT v.*, least(v.ended, (SELECT min(e.at) FROM ending e WHERE e.pid = v.pid AND e.at > v.began)) AS until FROM visit v
    WHERE NOT (EXISTS (SELECT FROM ending e WHERE e.pid = v.pid AND e.at < v.began)
               AND EXISTS (SELECT FROM visit l WHERE l.job = v.job AND l.attempt > v.attempt))
)
SELECT count(*) FROM stay a JOIN stay b
    ON a.task = b.task AND a.key = b.key AND (a.job, a.attempt) < (b.job, b.attempt) AND a.began < b.until AND b.began < a.until
WHERE a.task = %s
"""

app = Rota()
_quick = Retry(base="0s", jitter="0s", max_attempts=50)
_conn: psycopg.AsyncConnection[Any] | None = None


async def _visit(ctx: Context, task: str, key: str, seconds: float) -> None:
    global _conn
    began = datetime.now(UTC)  # not when it is noted: on a busy machine that is later
    if _conn is None:
        _conn = await psycopg.AsyncConnection.connect(os.environ["ROTA_DATABASE_URL"], autocommit=True)
    where = {"began": began, "job": ctx.job_id, "attempt": ctx.attempt, "task": task, "key": key, "pid": os.getpid()}
    await _conn.execute(
        """INSERT INTO visit (job, attempt, task, key, pid, began)
           VALUES (%(job)s, %(attempt)s, %(task)s, %(key)s, %(pid)s, %(began)s)""",
        where,
    )
    await asyncio.sleep(seconds)
    await _conn.execute("UPDATE visit SET ended = clock_timestamp() WHERE job = %(job)s AND attempt = %(attempt)s", where)


@app.task(max_concurrency=1, retry=_quick)
async def alone(ctx: Context, seconds: float = 0.0) -> None:
    """One at a time."""
    await _visit(ctx, "alone", "", seconds)


@app.task(concurrency_key="{customer}", retry=_quick)
async def served(ctx: Context, customer: str, seconds: float = 0.0) -> None:
    """One of each customer at a time."""
    await _visit(ctx, "served", customer, seconds)


@app.task(rate=f"{STARTS}/{PERIOD_S}s", retry=_quick)
async def paced(ctx: Context) -> None:
    """So many in a second."""
    await _visit(ctx, "paced", "", 0.0)
