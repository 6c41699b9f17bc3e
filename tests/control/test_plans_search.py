"""Searches and counts over a million finished jobs: by index, in bounded steps, with statistics that know nothing of them."""

from __future__ import annotations

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
from rota.store import job_counts, jobs_change, jobs_read
from rota.store.tasks_read import not_system

pytestmark = pytest.mark.req("A01")

MILLION = 1_000_000
ROW_S = 5e-6  # that looking through a row is made to take
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
        yield conn


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let the search believe that each row it looks through takes the same time, on any machine."""
    now = [0.0]
    for name in ("scan_live", "scan_finished"):
        scan = getattr(jobs_read, name)

        async def timed(*args: Any, scan: Any = scan, **options: Any) -> jobs_read.Scan:
            step = await scan(*args, **options)
            now[0] += step.scanned * ROW_S
            return step  # type: ignore[no-any-return]

        monkeypatch.setattr(jobs_read, name, timed)
    monkeypatch.setattr(search, "monotonic", lambda: now[0])
    return now


async def test_searches_are_bounded_and_go_on(aconn: psycopg.AsyncConnection[Any], dsn: str, clock: list[float]) -> None:
    async def look(filter: JobFilter, before: UUID | None = None, limit: int = 50) -> tuple[list[UUID], UUID | None, int]:
        begun = await rows_read(aconn)
        ids, reached = await search.find(aconn, filter, before=before, limit=limit)
        return ids, reached, await rows_read(aconn) - begun

    def payload(path: str, value: str) -> tuple[PayloadMatch, ...]:
        return (PayloadMatch(tuple(path.split(".")), value),)

    # Rows that match now and then: a page at once.
    ids, reached, read = await look(JobFilter(payload=payload("user.id", "7")), limit=5)
    assert len(ids) == 5
    assert read < 15_000
    # One of a million: short answers, each of which goes on where the last one ended.
    rare, before, answers = JobFilter(payload=payload("n", "900007")), None, 0
    while True:
        ids, before, read = await look(rare, before)
        answers += 1
        assert read < 60_000, "an answer looks through too much"
        if ids or before is None:
            break
    assert [id.int >> 96 for id in ids] == [900_007]
    assert answers < 200
    # With a task that is rare, only its own are looked at.
    ids, reached, read = await look(JobFilter(task="rare", payload=payload("n", "7")))
    assert ([id.int >> 96 for id in ids], reached) == ([7], None)
    assert read < 100

    stats = await job_stats.job_stats(aconn)
    assert stats.states["completed"].capped
    assert stats.states["failed"].capped
    assert (await service.count_jobs(aconn, JobFilter(states=["failed"]))).capped

    with connect(dsn, "test") as conn:
        conn.execute("SET enable_seqscan = off")
        conn.execute("SET enable_bitmapscan = off")
        session = Session(conn)
        statement = sql.SQL(job_counts.SQL["job_counts_finished"]).format(match=not_system(sql.Identifier("task"))).as_string(conn)
        pages, _, _ = session.read(statement, {"walk": job_counts.WALK})
        assert [node for node in nodes(session.plans[-1]["Plan"]) if node["Node Type"] == "Seq Scan"] == []
        assert pages < 50_000


async def rows_read(aconn: psycopg.AsyncConnection[Any]) -> int:
    """Count the rows of finished jobs that this transaction has read."""
    cursor = await aconn.execute(
        """SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_xact_user_tables
           WHERE schemaname = 'rota' AND relname LIKE 'run%'"""
    )
    row = await cursor.fetchone()
    assert row is not None
    return int(row[0])
