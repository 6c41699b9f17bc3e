"""Lists over millions of jobs walk an index in its order, and stop."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from rota.model.filters import JobFilter, PayloadMatch
from rota.store import jobs_read


class Recorder:
    """Takes a statement down instead of executing it."""

    def __init__(self) -> None:
        self.taken: tuple[sql.Composed, dict[str, Any]] | None = None

    async def execute(self, statement: sql.Composed, parameters: dict[str, Any]) -> Recorder:
        self.taken = (statement, parameters)
        return self

    async def fetchone(self) -> tuple[int, None, list[Any]]:
        return 0, None, []


@pytest.mark.parametrize(
    ("scan", "filter", "index"),
    [
        (jobs_read.scan_finished, JobFilter(), "run_default_pkey"),
        (jobs_read.scan_finished, JobFilter(states=["completed"]), "run_default_pkey"),
        (jobs_read.scan_finished, JobFilter(states=["failed"]), "run_default_job_id_idx"),
        (jobs_read.scan_finished, JobFilter(states=["failed", "canceled"]), "run_default_job_id_idx"),
        (jobs_read.scan_finished, JobFilter(states=["failed"], task="work"), "run_default_task_job_id_idx"),
        (jobs_read.scan_finished, JobFilter(states=["failed"], task="w*"), "run_default_job_id_idx"),
        (jobs_read.scan_finished, JobFilter(task="work"), "run_default_task_job_id_attempt_idx"),
        (jobs_read.scan_finished, JobFilter(payload=(PayloadMatch(("a",), "1"),)), "run_default_pkey"),
        (jobs_read.scan_finished, JobFilter(owner="x", until=timedelta(hours=1)), "run_default_owner_job_id_idx"),
        (jobs_read.scan_finished, JobFilter(key="k"), "run_default_key_job_id_idx"),
        (jobs_read.scan_live, JobFilter(), "job_pkey"),
        (jobs_read.scan_live, JobFilter(payload=(PayloadMatch(("a",), "*"),), owner="x"), "job_owner"),
        (jobs_read.scan_live, JobFilter(states=["waiting"]), "job_waiting"),
        (jobs_read.scan_live, JobFilter(states=["running"]), "job_running"),
        (jobs_read.scan_live, JobFilter(key="k"), "job_key_pkey"),
    ],
)
async def test_a_walk_has_its_index(conn: psycopg.Connection[Any], scan: Any, filter: JobFilter, index: str) -> None:
    # Many live jobs of which few wait or run, and statistics that know it.
    conn.execute("INSERT INTO rota.job (id, task) SELECT rota.uuid7(), 'work' FROM generate_series(1, 5000)")
    conn.execute("ANALYZE rota.job")
    conn.execute("SET enable_seqscan = off")
    conn.execute("SET enable_bitmapscan = off")
    recorder = Recorder()
    await scan(recorder, filter, before=None, window=20_000, limit=50)
    assert recorder.taken is not None
    statement, parameters = recorder.taken
    plan = "\n".join(row[0] for row in conn.execute(sql.SQL("EXPLAIN ") + statement, parameters))
    assert f" {index} " in plan
    assert "Seq Scan" not in plan
