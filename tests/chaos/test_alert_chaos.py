"""Workers are killed while their jobs fail for good: each failure is counted into an alert once, whoever died when."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.processes import running
from tests.support.wait import wait_until

from rota.control import alerts

APP = """
from rota import Rota
app = Rota()

@app.task(max_attempts=1)
async def fail(n: int) -> None:
    raise ValueError(f"order {n} is gone")
"""
JOBS = 1500
KILLS = 3
FAILED = "SELECT count(*) FROM rota.run WHERE final AND outcome = 'failed' AND task = 'fail'"


@pytest.mark.req("O03", "Y05")
@pytest.mark.fault(1)
def test_no_failure_is_lost_or_counted_twice(conn: psycopg.Connection[Any], dsn: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)

    def failed() -> int:
        row = conn.execute(FAILED).fetchone()
        assert row is not None
        return int(row[0])

    for n in range(KILLS):
        with running("worker", "-a", "shop:app", cwd=tmp_path, dsn=dsn) as worker:
            wait_until(
                lambda: conn.execute("SELECT FROM rota.task WHERE name = 'fail'").fetchall(), what="the worker knows its task"
            )
            conn.execute("INSERT INTO rota.queue (name) VALUES ('default') ON CONFLICT DO NOTHING")
            before = failed()
            conn.execute(
                "INSERT INTO rota.job (id, task, payload, max_attempts) "
                "SELECT rota.uuid7(), 'fail', json_build_object('n', n), 1 FROM generate_series(1, %s) n",
                [JOBS // KILLS],
            )
            conn.execute("SELECT rota.wake()")
            wait_until(lambda before=before: failed() > before + 20, what="some have failed")
            if n < KILLS - 1:
                os.kill(worker.pid, signal.SIGKILL)
                worker.wait()
            else:
                wait_until(lambda: conn.execute("SELECT FROM rota.job WHERE task = 'fail'").fetchall() == [], what="all have ended")
    assert failed() == JOBS

    async def count() -> None:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as aconn:
            await alerts.count_signals(aconn)

    asyncio.run(count())
    assert conn.execute("SELECT count(*) FROM rota.signal WHERE kind = 'job_failed'").fetchone() == (0,)
    counted = conn.execute("SELECT sum(count) FROM rota.alert WHERE kind = 'job_failed' AND subject = 'fail'").fetchone()
    assert counted == (JOBS,)
