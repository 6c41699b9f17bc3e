"""Writing lines and progress reads the runs that they are of, and nothing else, however many there are."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from tests.support.plans import Session

from rota.db.connection import connect
from rota.model.ids import new_id
from rota.store.logs import SQL

pytestmark = pytest.mark.req("C07")

WORKER = new_id()
FILL = [
    "ANALYZE",  # of empty tables: the worst statistics there are
    """INSERT INTO rota.job (id, task, state, worker_id, token, attempt, claimed_at, lease_until)
       SELECT rota.uuid7(), 'work', 'running', %(worker)s, 1, 1, rota.now(), rota.now() + interval '1 hour'
       FROM generate_series(1, 20000)""",
    """INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, finished_at, payload, worker_id, token)
       SELECT rota.uuid7(), 1, 'work', 'default', 'completed', true, rota.now(), '{}', %(worker)s, 1
       FROM generate_series(1, 20000)""",
]


@pytest.mark.parametrize("block", ["logs_write", "logs_show_progress"])
def test_few_pages(conn: psycopg.Connection[Any], dsn: str, block: str) -> None:
    for statement in FILL:
        conn.execute(statement.encode(), {"worker": WORKER})
    ids = conn.execute("(SELECT id::text FROM rota.job LIMIT 50) UNION ALL (SELECT job_id::text FROM rota.run LIMIT 50)").fetchall()
    runs = [
        {"place": place, "id": id, "attempt": 1, "token": 1, "progress": {"done": 1}} for place, (id,) in enumerate(ids, start=1)
    ]
    lines = [{**run, "age": 0, "task": "work", "sequence": 1, "level": 20, "message": "hello", "fields": None} for run in runs]
    values = {"worker": WORKER, "again": False, "runs": json.dumps(runs), "lines": json.dumps(lines)}
    with connect(dsn, "test") as engine:
        pages, scans, rows = Session(engine).read(SQL[block], values)
    assert scans == []
    assert pages < 100 * 40, pages  # a few per line and index
    assert (rows == [([True] * 100,)]) if block == "logs_write" else len(rows) == 100
