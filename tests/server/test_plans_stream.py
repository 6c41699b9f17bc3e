"""A look of the live stream reads few pages, however many jobs, runs and recurring rows there are."""

from __future__ import annotations

import psycopg
import pytest
from tests.support.plans import Session

from rota.db.connection import connect
from rota.server.looks import CAP, MOST, RECENT
from rota.store import queues, stream

pytestmark = pytest.mark.req("A01")

MANY = 20_000
FILL = f"""
    ANALYZE;  -- of empty tables: the worst statistics there are
    ALTER TABLE rota.job SET (autovacuum_enabled = false);
    ALTER TABLE rota.run_default SET (autovacuum_enabled = false);
    INSERT INTO rota.queue (name) SELECT 'queue_' || n FROM generate_series(1, 5) n;
    INSERT INTO rota.job (id, task, queue, state, payload, run_at, max_attempts)
    SELECT rota.uuid7(), 'work', 'queue_' || (n % 5 + 1), CASE WHEN n % 2 = 0 THEN 'queued' ELSE 'delayed' END, '{{}}',
           rota.now() + CASE WHEN n % 2 = 0 THEN interval '0' ELSE interval '1 day' END, 4
    FROM generate_series(1, {MANY}) n;
    INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, finished_at, payload, created_at)
    SELECT rota.uuid7(), 1, 'work', 'queue_1', 'completed', true, rota.now(), '{{}}', rota.now() FROM generate_series(1, {MANY}) n;
    INSERT INTO rota.schedule (task, key, strategy, every)
    SELECT 'poll', n::text, 'recurring', interval '1 hour' FROM generate_series(1, {MANY}) n;
    INSERT INTO rota.task_stat (task, grain, at, completed) SELECT 'work', 'hour', rota.now(), 1 FROM generate_series(1, {MANY}) n;
"""


def test_few_pages(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(FILL.encode(), prepare=False)
        (now,) = conn.execute("SELECT rota.now()").fetchone() or (None,)
    pages = {}
    with connect(dsn, "stream") as conn:
        session = Session(conn)
        for kind in ("jobs", "runs", "workers", "alerts", "schedules", "tasks"):
            limit = RECENT if kind in ("jobs", "runs") else MOST
            pages[kind], scans, rows = session.read(stream.SQL[f"stream_{kind}"], {"limit": limit})
            assert len(rows) == (RECENT if kind in ("jobs", "runs") else 0)
            assert [scan for scan in scans if not scan.startswith(("job in ", "task in "))] == []  # by their keys
        parameters = {"since": now, "until": now, "limit": MOST}
        pages["outcomes"], scans, _ = session.read(stream.SQL["stream_outcomes"], parameters)
        assert scans == []
        counted, scans, rows = session.read(queues.SQL["queues_read_all"], {"cap": CAP, "walk": queues.WALK * CAP})
        assert len(rows) == 5
    assert max(pages.values()) < 100, pages
    assert counted < 5 * CAP + 2 * queues.WALK * CAP, counted
