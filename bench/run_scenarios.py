"""What is measured of the history: lists and filters over millions of runs, as an operator asks for them."""

import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from bench.scenario import Bench, Figures, Scenario
from bench.system import System
from rota.control import error_groups, runs
from rota.db.connection import AsyncConn
from rota.model.filters import RunFilter
from rota.store.runs_read import RunId

# Four weeks from the beginning of this one, which all have their partitions: forty tasks and one that hardly ever runs, one run in
# fifty failed, in a hundred ways.
FILL = """
INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, started_at, finished_at, worker_id, error, payload, priority,
                      run_at, token, max_attempts, triggered_by, created_at, fingerprint)
SELECT CAST(overlay(CAST(gen_random_uuid() AS text) PLACING left(CAST(rota.uuid7_floor(t.at) AS text), 15) FROM 1) AS uuid), 1,
       CASE WHEN n %% 50000 = 7 THEN 'rare' ELSE 'task_' || n %% 40 END, 'default',
       CASE WHEN n %% 50 = 1 THEN 'failed' WHEN n %% 200 = 2 THEN 'canceled' ELSE 'completed' END, true,
       t.at, t.at + interval '40 ms',
       CAST(lpad(to_hex(n %% 20), 32, '0') AS uuid),
       CASE WHEN n %% 50 = 1 THEN json_build_object('type', 'Boom', 'message', 'no route to host ' || n %% 1000) END,
       '{"n": 1}', 0, t.at, 1, 4, json_build_object('kind', CASE WHEN n %% 10 = 3 THEN 'hook' ELSE 'scheduler' END), t.at,
       CASE WHEN n %% 50 = 1 THEN lpad(to_hex(n / 50 %% 100), 16, '0') END
FROM (SELECT n, date_trunc('week', now(), 'UTC') + n * (interval '28 days' / %(rows)s) AS at
      FROM generate_series(1, %(rows)s - 1) AS n) t
"""
# As the command line connects.
LIMITS = "-c statement_timeout=30s -c enable_seqscan=off -c enable_bitmapscan=off -c jit=off"

Look = Callable[[AsyncConn], Awaitable[Any]]


class RunsScenario(Scenario):
    """Lists of runs, by every filter there is, from the top and from somewhere in the middle."""

    name = "runs"
    title = "listing and filtering runs"

    def applies(self, system: System) -> bool:
        return system.has_schedules

    def prepare(self, bench: Bench, system: System) -> None:
        dsn = bench.fresh(system, "history")
        bench.cluster.execute(dsn, FILL, {"rows": bench.sizes.runs})
        bench.cluster.settle(dsn)

    def measure(self, bench: Bench, system: System) -> Figures:
        return asyncio.run(_look_through(bench.cluster.dsn(f"{system.name}_history"), bench.sizes.looks))


async def _look_through(dsn: str, times: int) -> Figures:
    source = random.Random(4)
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True, options=LIMITS) as conn:
        page = await runs.list_runs(conn, limit=1000)
        middle = RunId(_id_at(datetime.now(UTC) + timedelta(days=12)), 1)
        lists = [
            await _time(conn, _listing(filter, before))
            for _ in range(times)
            for filter in _filters(source, page)
            for before in (None, middle)
        ]
        groups = [
            await _time(conn, lambda conn: error_groups.list_errors(conn, since=timedelta(hours=1)))
            for _ in range(max(times // 4, 2))
        ]
    return {
        "p50_ms": statistics.median(lists),
        "p95_ms": statistics.quantiles(lists, n=20)[-1],
        "slowest_ms": max(lists),
        "errors_ms": statistics.median(groups),
    }


def _filters(source: random.Random, page: runs.RunPage) -> list[RunFilter]:
    run = source.choice(page.runs)
    day = datetime.now(UTC) + timedelta(days=source.uniform(1, 20))
    return [
        RunFilter(),
        RunFilter(task=f"task_{source.randrange(40)}"),
        RunFilter(task="rare"),
        RunFilter(task="task_1*"),
        RunFilter(statuses=["failed"]),
        RunFilter(statuses=["failed"], task=f"task_{source.choice([1, 11, 21, 31])}"),
        RunFilter(statuses=["completed"], task="rare"),
        RunFilter(statuses=["canceled"]),
        RunFilter(statuses=["running"]),
        RunFilter(worker=UUID(int=source.randrange(20))),
        RunFilter(worker=UUID(int=99)),
        RunFilter(since=day, until=day + timedelta(hours=source.randrange(1, 24))),
        RunFilter(triggered_by="hook"),
        RunFilter(text="host 77", statuses=["failed"]),
        RunFilter(fingerprint=f"{source.randrange(100):016x}"),
        RunFilter(job=run.job_id),
    ]


def _listing(filter: RunFilter, before: RunId | None) -> Look:
    return lambda conn: runs.list_runs(conn, filter, before=before)


def _id_at(moment: datetime) -> UUID:
    return UUID(int=int(moment.timestamp() * 1000) << 80)


async def _time(conn: AsyncConn, look: Look) -> float:
    started = time.perf_counter()
    await look(conn)
    return 1e3 * (time.perf_counter() - started)


RUN_SCENARIOS: list[Scenario] = [RunsScenario()]
