"""Searches and counts over a million finished jobs: by index, in bounded steps, with statistics that know nothing of them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from tests.support.plans import Session, nodes

from rota.control import job_stats, search, service
from rota.db.connection import connect
from rota.model.filters import JobFilter, PayloadMatch
from rota.store import jobs_change, jobs_read
from rota.store.tasks_read import not_system

pytestmark = pytest.mark.req("A01")

MILLION = 1_000_000
FILL = f"""
    INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, finished_at, payload, created_at)
    SELECT (lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000')::uuid, 1,
           CASE WHEN n % 100000 = 7 THEN 'rare' ELSE 'work' END, 'default', CASE WHEN n % 10 = 0 THEN 'failed' ELSE 'completed' END,
           true, rota.now(), json_build_object('n', n, 'user', json_build_object('id', n % 1000)), rota.now()
    FROM generate_series(1, {MILLION}) n
"""


@pytest.fixture
async def aconn(dsn: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """A connection to a database with the million; nobody has analyzed it."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("ALTER TABLE rota.run_default SET (autovacuum_enabled = false)")
        conn.execute("ANALYZE")
        conn.execute(
            "DROP INDEX rota.run_key, rota.run_error_group, rota.run_error_job, rota.run_error, rota.run_failed_task"
        )  # what is not looked at here
        conn.execute(FILL.encode())
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn, conn.transaction():
        await jobs_change.look_briefly(conn)
        await conn.execute("SET LOCAL statement_timeout = '2s'")
        yield conn


async def test_searches_are_bounded_and_go_on(aconn: psycopg.AsyncConnection[Any], dsn: str) -> None:
    async def timed(filter: JobFilter, before: UUID | None = None, limit: int = 50) -> tuple[list[UUID], UUID | None, float]:
        begun = time.perf_counter()
        ids, reached = await search.find(aconn, filter, before=before, limit=limit)
        return ids, reached, time.perf_counter() - begun

    def payload(path: str, value: str) -> tuple[PayloadMatch, ...]:
        return (PayloadMatch(tuple(path.split(".")), value),)

    # Rows that match now and then: a page at once.
    ids, reached, took = await timed(JobFilter(payload=payload("user.id", "7")), limit=5)
    assert len(ids) == 5
    assert took < 1
    # One of a million: short answers, each of which goes on where the last one ended.
    rare, before, answers = JobFilter(payload=payload("n", "900007")), None, 0
    while True:
        ids, before, took = await timed(rare, before)
        answers += 1
        assert took < 1, "an answer took too long"
        if ids or before is None:
            break
    assert [id.int >> 96 for id in ids] == [900_007]
    assert answers < 200
    # With a task that is rare, only its own are looked at.
    ids, reached, took = await timed(JobFilter(task="rare", payload=payload("n", "7")))
    assert ([id.int >> 96 for id in ids], reached) == ([7], None)
    assert took < 0.5

    begun = time.perf_counter()
    stats = await job_stats.job_stats(aconn)
    assert stats.states["completed"].capped
    assert stats.states["failed"].capped
    assert (await service.count_jobs(aconn, JobFilter(states=["failed"]))).capped
    assert time.perf_counter() - begun < 2

    with connect(dsn, "test") as conn:
        conn.execute("SET enable_seqscan = off")
        conn.execute("SET enable_bitmapscan = off")
        session = Session(conn)
        statement = sql.SQL(jobs_read.SQL["jobs_read_stats"]).format(ours=not_system(sql.Identifier("task"))).as_string(conn)
        pages, _, _ = session.read(statement, {"cap": 10_000, "walk": 20_000})
        assert [node for node in nodes(session.plans[-1]["Plan"]) if node["Node Type"] == "Seq Scan"] == []
        assert pages < 50_000
