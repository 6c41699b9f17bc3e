"""What is measured of logs: how fast lines are kept, what they cost the jobs that say them, and how fast they are found."""

import asyncio
import random
import statistics
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from bench.drain import drain
from bench.scenario import Bench, Figures, Scenario
from bench.system import System
from rota.control.logs import list_logs
from rota.db.connection import AsyncConn, connect_async
from rota.engine.logbook import Logbook
from rota.engine.options import LogOptions
from rota.events import Events
from rota.model.ids import new_id
from rota.model.log_filter import LogFilter
from rota.model.run import Run

RUNS = 200  # that say something at once
MOST_WAITING = 8000  # lines: a worker would begin to drop them at 10,000
# Jobs that wait for something for a moment, as jobs do, in as many slots as keep a processor busy and no more: a no-op job takes
# about as long as its line.
WAITING = {"takes_s": 0.02, "concurrency": 64}
HOLD = """
INSERT INTO rota.job (id, task, state, worker_id, token, attempt, claimed_at, lease_until)
SELECT rota.uuid7(), 'noop', 'running', %(worker)s, 1, 1, rota.now(), rota.now() + interval '1 hour'
FROM generate_series(1, %(runs)s)
"""
# A day of an application: forty tasks, a hundred hosts, a number of its own in each line, one in two hundred an error.
FILL = """
INSERT INTO rota.log (at, task, job_id, attempt, sequence, level, message, fields)
SELECT date_trunc('day', now(), 'UTC') + n * (interval '24 hours' / %(rows)s), 'task_' || n %% 40, rota.uuid7(), 1, 1,
       CASE WHEN n %% 200 = 0 THEN 40 WHEN n %% 50 = 0 THEN 30 ELSE 20 END,
       CASE WHEN n %% 200 = 0 THEN 'connection refused by host' || n %% 100 ELSE 'request served' END
           || ' order ' || n || CASE WHEN n %% 50000 = 7 THEN ' needle' ELSE '' END,
       json_build_object('status', 200 + n %% 5, 'user', 'u' || n %% 20000, 'took_ms', n %% 997)
FROM generate_series(0, %(rows)s - 1) AS n
"""
# As the command line connects.
LIMITS = "-c statement_timeout=30s -c enable_seqscan=off -c enable_bitmapscan=off -c jit=off"


class LogScenario(Scenario):
    """Asked of systems that keep lines as Rota does."""

    def applies(self, system: System) -> bool:
        return system.has_schedules


class LinesScenario(LogScenario):
    """Lines kept, from the handler's call to the commit."""

    name = "lines"
    title = "log lines kept"

    def measure(self, bench: Bench, system: System) -> Figures:
        dsn = bench.fresh(system)
        return {"rate": asyncio.run(_keep_lines(dsn, bench.sizes.log_lines // 4))}


class SayingScenario(LogScenario):
    """Jobs that say one line each, against the same jobs without."""

    name = "saying"
    title = "jobs that log one line"

    def measure(self, bench: Bench, system: System) -> Figures:
        jobs = bench.sizes.singles * 4
        rates = {}
        for lines in (0, 1):
            options = {**WAITING, "lines": lines}
            dsn = bench.fresh(system)
            bench.load(system, dsn, jobs, options=options)
            drained = drain(bench.cluster, system, dsn, jobs, timeout=bench.sizes.pinned_timeout, options=options)
            rates[lines] = drained.course.rate()
        noop = [bench.drain(system, bench.fresh(system), options={"lines": lines}).course.rate() for lines in (0, 1)]
        return {"rate": rates[1], "ratio": rates[1] / rates[0], "noop_ratio": noop[1] / noop[0]}


class SearchScenario(LogScenario):
    """Words looked for among a million lines: rare ones, frequent ones, ones that are not there; alone and with other filters."""

    name = "log-search"
    title = "searching log lines"

    def prepare(self, bench: Bench, system: System) -> None:
        dsn = bench.fresh(system, "logs")
        bench.cluster.execute(dsn, FILL, {"rows": bench.sizes.log_lines})
        bench.cluster.settle(dsn)

    def measure(self, bench: Bench, system: System) -> Figures:
        return asyncio.run(_search(bench.cluster.dsn(f"{system.name}_logs"), bench.sizes.looks * 2, bench.sizes.log_lines))


async def _keep_lines(dsn: str, count: int) -> float:
    worker = new_id()
    async with await connect_async(dsn, "bench") as conn:
        await conn.execute(HOLD, {"worker": worker, "runs": RUNS})
        ids = await (await conn.execute("SELECT id::text FROM rota.job")).fetchall()
        now = datetime.now(UTC)
        runs = [Run(id, 1, "noop", "default", 0, now, "{}", 1, 4, {}, 0.0, 0.0) for (id,) in ids]
        book = Logbook(worker, LogOptions(lines_per_run=100_000), Events())
        started = time.perf_counter()
        serving = asyncio.create_task(_serve(book, conn))
        for first in range(0, count, 200):
            for number in range(first, first + 200):
                fields = {"status": 200, "user": f"u{number % 20000}", "took_ms": number % 997}
                book.write(runs[number % RUNS], 20, f"request served order {number}", fields)
            await asyncio.sleep(0)
            while book.backlog > MOST_WAITING:
                await asyncio.sleep(0.001)
        await book.drain(time.monotonic() + 60)
        seconds = time.perf_counter() - started
        serving.cancel()
        await asyncio.wait({serving})
        return count / seconds


async def _serve(book: Logbook, conn: AsyncConn) -> None:
    await book.begin()
    await book.serve(conn)


async def _search(dsn: str, times: int, rows: int) -> Figures:
    source = random.Random(4)
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True, options=LIMITS) as conn:
        took = [await _time(conn, filter) for _ in range(times) for filter in _filters(source, rows)]
    return {"p50_ms": statistics.median(took), "p95_ms": statistics.quantiles(took, n=20)[-1], "slowest_ms": max(took)}


def _filters(source: random.Random, rows: int) -> list[LogFilter]:
    day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    task = f"task_{source.randrange(40)}"
    return [
        LogFilter(text=f"order {source.randrange(rows)}"),
        LogFilter(text="needle"),
        LogFilter(text="request"),
        LogFilter(text="nowhere"),
        LogFilter(text=f"refused host{source.randrange(100)}"),
        LogFilter(text=f"u{source.randrange(20000)}"),
        LogFilter(text="refused", level="error", task=task),
        LogFilter(text="served", task=task, since=day + timedelta(hours=6), until=day + timedelta(hours=7)),
        LogFilter(text="refused", until=day + timedelta(hours=12)),
    ]


async def _time(conn: Any, filter: LogFilter) -> float:
    started = time.perf_counter()
    await list_logs(conn, filter, limit=100)
    return (time.perf_counter() - started) * 1000


LOG_SCENARIOS: list[Scenario] = [LinesScenario(), SayingScenario(), SearchScenario()]
