"""What is measured of a queue, and all that is measured."""

import statistics
import time
from dataclasses import replace

from bench.drain import drain, running_workers
from bench.limit_scenarios import LIMIT_SCENARIOS
from bench.log_scenarios import LOG_SCENARIOS
from bench.page_scenarios import PAGE_SCENARIOS
from bench.retention_scenarios import RETENTION_SCENARIOS
from bench.run_scenarios import RUN_SCENARIOS
from bench.scenario import Bench, Figures, Scenario
from bench.schedule_scenarios import SCHEDULE_SCENARIOS
from bench.server_scenarios import SERVER_SCENARIOS
from bench.system import Options, System

DAY_SECONDS = 86_400.0
WRITERS = 8
# Between two pick-ups: long enough for the worker to close the job and fall idle.
IDLE_SECONDS = 0.02


class DrainScenario(Scenario):
    """No-op jobs that lie waiting, handled by a number of processes."""

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self.name = f"drain{processes}"
        self.title = f"drain, {processes} process{'es' if processes > 1 else ''}"

    def measure(self, bench: Bench, system: System) -> Figures:
        return bench.drain(system, bench.fresh(system), self.processes).figures()


class SingleScenario(Scenario):
    """Jobs enqueued and committed one by one on one connection."""

    name = "single"
    title = "enqueue one by one"

    def measure(self, bench: Bench, system: System) -> Figures:
        jobs = bench.sizes.singles
        said = system.call("single", bench.fresh(system), jobs=jobs)
        return {"rate": jobs / said["seconds"]}


class BulkScenario(Scenario):
    """Jobs enqueued by the bulk call."""

    name = "bulk"
    title = "enqueue in bulk"

    def measure(self, bench: Bench, system: System) -> Figures:
        jobs = bench.sizes.bulk_jobs
        said = system.call("bulk", bench.fresh(system), jobs=jobs)
        return {"rate": jobs / said["seconds"]}


class PickupScenario(Scenario):
    """An idle worker and one job at a time: from the commit of the enqueue to the start of the handler."""

    name = "pickup"
    title = "pick-up by an idle worker"

    def measure(self, bench: Bench, system: System) -> Figures:
        dsn = bench.fresh(system)
        with running_workers(system, dsn, 1, ring=True) as (worker,):
            worker.send_line()
            producer = system.start("probe", dsn)
            try:
                producer.await_ready()
                waits, totals = [], []
                for number in range(bench.sizes.pickups):
                    producer.send_line()
                    called, committed = producer.await_pair(number, bench.sizes.timeout)
                    _, started = worker.await_pair(number, bench.sizes.timeout)
                    waits.append((started - committed) / 1e6)
                    totals.append((started - called) / 1e6)
                    time.sleep(IDLE_SECONDS)
            finally:
                producer.stop()
        # The first ones find connections and plans cold.
        waits, totals = waits[10:], totals[10:]
        return {
            "p50_ms": statistics.median(waits),
            "p95_ms": statistics.quantiles(waits, n=20)[-1],
            "from_call_p50_ms": statistics.median(totals),
        }


class PinnedScenario(Scenario):
    """A drain while another session holds a snapshot open, so that every closed job leaves a row in the way."""

    def __init__(self, batches: str) -> None:
        self.batches = batches
        self.name = f"pinned-{batches}"
        self.title = f"pinned xmin, {batches} batches"

    def applies(self, system: System) -> bool:
        return self.batches == "large" or system.small_batches is not None

    def measure(self, bench: Bench, system: System) -> Figures:
        sizes = bench.sizes
        options = system.small_batches if self.batches == "small" else None
        jobs = sizes.jobs_for(system, sizes.pinned_timeout / 2, sizes.pinned_jobs)
        dsn = bench.fresh(system)
        bench.load(system, dsn, jobs, options=options)
        with bench.cluster.snapshot_held_open(dsn):
            done = drain(bench.cluster, system, dsn, jobs, timeout=sizes.pinned_timeout, options=options)
        first, last = done.course.rate(0.0, 0.1), done.course.rate(0.9, 1.0)
        return {"first": first, "last": last, "ratio": last / first if first else 0.0, "jobs": done.course.handled}


class FutureScenario(Scenario):
    """A drain beside a million jobs that are not yet due, and one without them."""

    name = "future"
    title = "beside jobs not yet due"

    def prepare(self, bench: Bench, system: System) -> None:
        bench.fresh(system, "empty")
        bench.load(system, bench.fresh(system, "future"), bench.sizes.backlog_rows, due_in=DAY_SECONDS)

    def measure(self, bench: Bench, system: System) -> Figures:
        empty, full = (bench.cluster.dsn(f"{system.name}_{label}") for label in ("empty", "future"))
        without = bench.drain(system, empty).figures()
        beside = bench.drain(_cautious(system), full).figures()
        figures = {"without": without["rate"], "beside": beside["rate"], "ratio": beside["rate"] / without["rate"]}
        if system.times_claims:
            said = system.call("claims", full, jobs=bench.sizes.claims)
            figures["idle_claim_ms"] = 1e3 * said["seconds"] / bench.sizes.claims
        return figures


class HistoryScenario(Scenario):
    """A drain above a million finished jobs, and one without them."""

    name = "history"
    title = "above finished jobs"

    def applies(self, system: System) -> bool:
        return system.fill_history is not None

    def prepare(self, bench: Bench, system: System) -> None:
        assert system.fill_history is not None
        bench.fresh(system, "empty")
        dsn = bench.fresh(system, "history")
        bench.cluster.execute(dsn, system.fill_history, {"rows": bench.sizes.backlog_rows})

    def measure(self, bench: Bench, system: System) -> Figures:
        empty, full = (bench.cluster.dsn(f"{system.name}_{label}") for label in ("empty", "history"))
        without = bench.drain(system, empty).figures()
        above = bench.drain(system, full).figures()
        return {"without": without["rate"], "above": above["rate"], "ratio": above["rate"] / without["rate"]}


class UnknownScenario(Scenario):
    """Drains behind a million ready jobs of a task that this worker does not know: none does, or another one."""

    name = "unknown"
    title = "behind jobs of unknown tasks"

    def applies(self, system: System) -> bool:
        return system.fill_unknown is not None

    def measure(self, bench: Bench, system: System) -> Figures:
        assert system.fill_unknown is not None
        assert system.announce is not None
        without = bench.drain(system, bench.fresh(system, "empty")).figures()["rate"]
        rates = {}
        for name, statement in (("nobody", None), ("another", system.announce)):
            dsn = bench.fresh(system, "history")
            bench.cluster.execute(dsn, system.fill_unknown, {"rows": bench.sizes.backlog_rows})
            if statement is not None:
                bench.cluster.execute(dsn, statement, {})
            first = bench.drain(_cautious(system), dsn).figures()["rate"]
            rates |= {f"{name}_first": first, name: bench.drain(_cautious(system), dsn).figures()["rate"]}
        return {"without": without, **rates, "ratio": rates["nobody"] / without, "ratio_another": rates["another"] / without}


class WritersScenario(Scenario):
    """Eight connections that enqueue one by one while two workers listen, with NOTIFY and without."""

    name = "writers"
    title = f"{WRITERS} writers, 2 workers listening"

    def measure(self, bench: Bench, system: System) -> Figures:
        notified = self._write(bench, system, {})
        if not system.can_be_silent:
            return {"notified": notified}
        silent = self._write(bench, system, {"notify": False})
        return {"notified": notified, "silent": silent, "ratio": notified / silent}

    def _write(self, bench: Bench, system: System, options: Options) -> float:
        dsn = bench.fresh(system)
        with running_workers(system, dsn, 2, options) as workers:
            for worker in workers:
                worker.send_line()
            said = system.call("single", dsn, options, jobs=bench.sizes.writes, writers=WRITERS)
        return float(bench.sizes.writes / said["seconds"])


SCENARIOS: list[Scenario] = [
    DrainScenario(1),
    DrainScenario(2),
    SingleScenario(),
    BulkScenario(),
    PickupScenario(),
    PinnedScenario("large"),
    PinnedScenario("small"),
    FutureScenario(),
    HistoryScenario(),
    UnknownScenario(),
    WritersScenario(),
    *SCHEDULE_SCENARIOS,
    *LIMIT_SCENARIOS,
    *RUN_SCENARIOS,
    *LOG_SCENARIOS,
    *RETENTION_SCENARIOS,
    *SERVER_SCENARIOS,
    *PAGE_SCENARIOS,
]


def _cautious(system: System) -> System:
    """Expect less of a system beside a backlog than it did alone, so that a slow one still ends."""
    return replace(system, speed=max(system.speed // 4, 10)) if system.speed < 20_000 else system
