"""What pages ask for over many jobs, rows and figures: by index, in bounded walks, with statistics that know nothing of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from tests.support.plans import Session, nodes

from rota.control import calendar, facets, overview, series
from rota.db.connection import connect
from rota.model.filters import JobFilter
from rota.store import calendar as calendar_store
from rota.store import job_counts, jobs_change
from rota.store import overview as overview_store
from rota.store import stats as stats_store
from rota.store.tasks_read import not_system

pytestmark = pytest.mark.req("D03")

MANY = 200_000
FILL = f"""
    ANALYZE;  -- of empty tables: the worst statistics there are
    ALTER TABLE rota.job SET (autovacuum_enabled = false);
    ALTER TABLE rota.run_default SET (autovacuum_enabled = false);
    ALTER TABLE rota.schedule SET (autovacuum_enabled = false);
    ALTER TABLE rota.task_stat SET (autovacuum_enabled = false);
    INSERT INTO rota.queue (name) SELECT 'queue_' || n FROM generate_series(1, 5) n;
    INSERT INTO rota.job (id, task, queue, state, payload, run_at, max_attempts)
    SELECT rota.uuid7(), 'work', 'queue_' || (n % 5 + 1), CASE WHEN n % 2 = 0 THEN 'queued' ELSE 'delayed' END, '{{}}',
           rota.now() + CASE WHEN n % 2 = 0 THEN interval '0' ELSE interval '1 second' * n END, 4
    FROM generate_series(1, {MANY}) n;
    INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, finished_at, payload, created_at)
    SELECT (lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000')::uuid, 1, 'work', 'queue_1',
           CASE WHEN n % 10 = 0 THEN 'failed' ELSE 'completed' END, true, rota.now(), '{{}}', rota.now()
    FROM generate_series(1, {MANY}) n;
    INSERT INTO rota.schedule (task, key, strategy, every, next_run_at)
    SELECT 'poll', n::text, 'recurring', interval '1 hour', rota.now() + interval '2 seconds' * n FROM generate_series(1, {MANY}) n;
    INSERT INTO rota.schedule (name, task, strategy, cron, next_run_at)
    SELECT 's' || n, 'work', 'cron', (n % 60) || ' ' || (n % 24) || ' * * *', rota.now() FROM generate_series(1, 500) n;
    INSERT INTO rota.task_stat (task, grain, at, completed, duration_buckets, duration_counts, wait_buckets, wait_counts)
    SELECT 'task_' || n % 100, 'hour', date_trunc('hour', rota.now()) - interval '1 hour' * (n / 100), 10,
           '{{100,110,120,130,140}}', '{{1,2,3,4,5}}', '{{50,60,70}}', '{{1,2,3}}'
    FROM generate_series(0, 71999) n;
"""

Ask = Callable[[psycopg.AsyncConnection[Any]], Awaitable[Any]]


@pytest.fixture
async def aconn(dsn: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """A connection as the control plane has it, to a database with many of everything that nobody has analyzed."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(FILL.encode(), prepare=False)
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn, conn.transaction():
        await jobs_change.look_briefly(conn)
        yield conn


async def test_every_page_has_its_answer_soon(aconn: psycopg.AsyncConnection[Any], dsn: str) -> None:
    asks: dict[str, Ask] = {
        "overview": lambda conn: overview.overview(conn, lambda _operation: True),
        "upcoming": lambda conn: calendar.upcoming(conn, limit=100),
        "calendar": lambda conn: calendar.calendar(conn),
        "hour": lambda conn: calendar.calendar_hour(conn, datetime.now(UTC), datetime.now(UTC) + timedelta(hours=1)),
        "facets": lambda conn: facets.job_facets(conn),
        "facets of one": lambda conn: facets.job_facets(conn, JobFilter(task="none", queue="queue_1")),
        "series": lambda conn: series.series(conn, period="30d"),
    }
    read = {}
    for name, ask in asks.items():
        begun = await rows_read(aconn)
        await ask(aconn)
        read[name] = await rows_read(aconn) - begun
    print(read)
    assert max(read.values()) < MANY, read

    week = {"begin": datetime.now(UTC), "end": datetime.now(UTC) + timedelta(days=7), "now": datetime.now(UTC)}
    with connect(dsn, "test") as conn:
        for setting in ("enable_seqscan", "enable_bitmapscan"):
            conn.execute(f"SET {setting} = off".encode())
        session = Session(conn)

        def walks(statement: Any, most: int, **parameters: Any) -> None:
            """Look at no more rows than that in any one walk, and go through no table from end to end."""
            _, scans, _ = session.read(statement.as_string(conn) if hasattr(statement, "as_string") else statement, parameters)
            small = ("queue in ", "task in ", "worker in ", "alert in ")  # by their keys: there are few
            assert [scan for scan in scans if not scan.startswith(small)] == []
            looked = [
                (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
                for node in nodes(session.plans[-1]["Plan"])
            ]
            assert 0 < max(looked) <= most, (looked, parameters)

        walks(
            psycopg.sql.SQL(job_counts.SQL["job_counts_live"]).format(match=not_system(psycopg.sql.Identifier("task"))),
            10_001,
            cap=10_000,
        )
        walks(overview_store._statement("failed"), overview.FAILED_WALK, walk=overview.FAILED_WALK)
        walks(overview_store._statement("schedules"), overview.CAP + 1, cap=overview.CAP)
        for block in ("calendar_recurring", "calendar_jobs"):
            statement = psycopg.sql.SQL(calendar_store.SQL[block]).format(match=psycopg.sql.SQL("true"))
            walks(statement, calendar.WALK, **week, walk=calendar.WALK)
        whole = {"since": datetime.now(UTC) - timedelta(days=31), "width": 21600, "task": None, "queue": None, "limit": 50_000}
        walks(stats_store._series("stats_series", None, None, False), 50_000, **whole)


async def rows_read(aconn: psycopg.AsyncConnection[Any]) -> int:
    """Count the rows that this transaction has read."""
    cursor = await aconn.execute(
        "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_xact_user_tables WHERE schemaname = 'rota'"
    )
    row = await cursor.fetchone()
    assert row is not None
    return int(row[0])
