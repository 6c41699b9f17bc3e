"""What is measured of schedules: recurring rows by the million, and how late a scheduled job is."""

import contextlib
import statistics
import threading
import time
from collections.abc import Iterator

import psycopg

from bench.drain import drain, fail_if_ended, running_workers
from bench.processes import Talker
from bench.scenario import Bench, Figures, Scenario
from bench.system import System

FILL = """
INSERT INTO rota.schedule (task, key, payload, strategy, every, next_run_at)
SELECT 'again', n::text, json_build_object('n', n), 'recurring', interval '1 hour',
       rota.now() + make_interval(secs => %(due_in)s * n)
FROM generate_series(1, %(rows)s) AS n
"""
MAKE_DUE = "UPDATE rota.schedule SET next_run_at = rota.now() WHERE key IN (SELECT n::text FROM generate_series(1, %(rows)s) AS n)"
INTERVALS, CRONS = 20, 10
FILL_TIMED = """
INSERT INTO rota.schedule (name, task, strategy, cron, every, next_run_at)
SELECT 'interval ' || n, 'tell_lateness', 'interval', NULL, interval '1 second', rota.now() + make_interval(secs => 2 + n * 0.0477)
FROM generate_series(1, %(intervals)s) AS n
UNION ALL
SELECT 'cron ' || n, 'tell_lateness', 'cron', '* * * * *', NULL, date_trunc('minute', rota.now()) + interval '1 minute'
FROM generate_series(1, %(crons)s) AS n
"""
DUE_ROWS = 1_000
BESIDE_QUEUE = "beside"
BESIDE_SECONDS = 0.05  # between two jobs beside the flood
FLOODED = """
SELECT EXISTS (SELECT FROM rota.schedule WHERE enabled AND key IS NOT NULL AND next_run_at <= rota.now())
    OR EXISTS (SELECT FROM rota.job WHERE task = 'again' AND state IN ('queued', 'running'))
"""
LONGEST = """
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - query_start)), 0)::float8 FROM pg_stat_activity
WHERE state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name LIKE 'rota%%'
"""
SAMPLE_SECONDS = 0.02


class ScheduleScenario(Scenario):
    """Asked of systems that have schedules as Rota has them."""

    def applies(self, system: System) -> bool:
        return system.has_schedules


class RecurringIdleScenario(ScheduleScenario):
    """A million recurring rows, of which few are due: firing those, and looking when none is."""

    name = "recurring-idle"
    title = "recurring rows, few of them due"

    def prepare(self, bench: Bench, system: System) -> None:
        bench.cluster.execute(bench.fresh(system), FILL, {"rows": bench.sizes.recurring_rows, "due_in": 1.0})

    def measure(self, bench: Bench, system: System) -> Figures:
        dsn = bench.cluster.dsn(f"{system.name}_work")
        bench.cluster.execute(dsn, "DELETE FROM rota.job")
        bench.cluster.execute(dsn, "UPDATE rota.schedule SET job_id = NULL WHERE job_id IS NOT NULL")
        bench.cluster.execute(dsn, MAKE_DUE, {"rows": DUE_ROWS})
        bench.cluster.settle(dsn)
        looks = bench.sizes.claims
        said = system.call("polls", dsn, jobs=looks)
        return {"fire_ms": 1e3 * said["firing_seconds"], "fired": said["fired"], "idle_poll_ms": 1e3 * said["seconds"] / looks}


class RecurringFireScenario(ScheduleScenario):
    """Due recurring rows, fired and run by one worker with its scheduler, each to run again in an hour."""

    name = "recurring-fire"
    title = "recurring rows fired and run by one worker"

    def measure(self, bench: Bench, system: System) -> Figures:
        dsn, rows = bench.fresh(system), bench.sizes.fired_rows
        bench.cluster.execute(dsn, FILL, {"rows": rows, "due_in": 0.0})
        bench.cluster.settle(dsn)
        return drain(bench.cluster, system, dsn, rows, timeout=bench.sizes.flood_timeout).figures()


class RecurringFloodScenario(ScheduleScenario):
    """A million recurring rows due at once, and jobs of another queue that come in meanwhile."""

    name = "recurring-flood"
    title = "all recurring rows due at once"

    def measure(self, bench: Bench, system: System) -> Figures:
        dsn, rows = bench.fresh(system), bench.sizes.recurring_rows
        bench.cluster.execute(dsn, FILL, {"rows": rows, "due_in": 0.0})
        bench.cluster.settle(dsn)
        options = {"noop_queue": BESIDE_QUEUE}
        with running_workers(system, dsn, 1, options, ring=True) as (worker,), longest_statement(dsn) as longest:
            producer = system.start("probe", dsn, options)
            try:
                producer.await_ready()
                worker.send_line()
                started = time.monotonic()
                waits = self._pick_up_while_flooded(bench, dsn, producer, worker)
                took = time.monotonic() - started
            finally:
                producer.stop()
        return {
            "rate": rows / took,
            "longest_ms": 1e3 * max(longest),
            "p50_ms": statistics.median(waits),
            "p99_ms": statistics.quantiles(waits, n=100)[-1],
        }

    def _pick_up_while_flooded(self, bench: Bench, dsn: str, producer: Talker, worker: Talker) -> list[float]:
        waits: list[float] = []
        deadline = time.monotonic() + bench.sizes.flood_timeout
        with psycopg.connect(dsn, autocommit=True) as conn:
            while len(waits) % 20 or len(waits) < 100 or conn.execute(FLOODED.encode()).fetchone() == (True,):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the rows were not all run within {bench.sizes.flood_timeout:.0f} s")
                producer.send_line()
                _, committed = producer.await_pair(len(waits), bench.sizes.pinned_timeout)
                _, started = worker.await_pair(len(waits), bench.sizes.pinned_timeout)
                waits.append((started - committed) / 1e6)
                time.sleep(BESIDE_SECONDS)
        return waits


class LatenessScenario(ScheduleScenario):
    """Cron and interval schedules in an otherwise idle system: from the instant to the start of the handler."""

    name = "lateness"
    title = "lateness of scheduled jobs"

    def measure(self, bench: Bench, system: System) -> Figures:
        dsn = bench.fresh(system)
        with running_workers(system, dsn, 1, ring=True) as (worker,):
            worker.send_line()
            bench.cluster.execute(dsn, FILL_TIMED, {"intervals": INTERVALS, "crons": CRONS})
            deadline = time.monotonic() + bench.sizes.lateness_seconds
            while time.monotonic() < deadline:
                fail_if_ended([worker])
                time.sleep(0.1)
            late = [microseconds / 1e3 for _, microseconds in worker.pairs]
        if len(late) < INTERVALS * (bench.sizes.lateness_seconds - 10):
            raise TimeoutError(f"{system.name} has fired {len(late)} times in {bench.sizes.lateness_seconds:.0f} s")
        return {"p50_ms": statistics.median(late), "p99_ms": statistics.quantiles(late, n=100)[-1], "fired": len(late)}


@contextlib.contextmanager
def longest_statement(dsn: str) -> Iterator[list[float]]:
    """Look all the time at how long the statements of the measured system have been going on, in seconds."""
    seen, ended = [0.0], threading.Event()

    def look() -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            while not ended.wait(SAMPLE_SECONDS):
                row = conn.execute(LONGEST.encode()).fetchone()
                seen.append(row[0] if row else 0.0)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        ended.set()
        looking.join()


SCHEDULE_SCENARIOS: list[Scenario] = [
    RecurringIdleScenario(),
    RecurringFireScenario(),
    RecurringFloodScenario(),
    LatenessScenario(),
]
