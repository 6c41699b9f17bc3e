"""What is measured of retention: what it costs those who work meanwhile."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator

from bench.scenario import Bench, Figures, Scenario
from bench.system import System
from rota.config import RetentionSettings
from rota.control.retention import Turn
from rota.db.connection import connect_async

# Finished jobs of two months ago, in no partition that could be dropped whole: each has to be removed by itself.
FILL_OLD = """
INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, started_at, finished_at, worker_id, payload, priority, run_at,
                      token, max_attempts, created_at)
SELECT CAST(overlay(CAST(gen_random_uuid() AS text) PLACING left(CAST(rota.uuid7_floor(t.at) AS text), 15) FROM 1) AS uuid),
       1, 'noop', 'default', 'completed', true, t.at, t.at, gen_random_uuid(), '{"n": 1}', 0, t.at, 1, 4, t.at
FROM (SELECT rota.now() - interval '60 days' + n * interval '1 ms' AS at FROM generate_series(1, %(rows)s) AS n) t
"""


class PruneScenario(Scenario):
    """A drain while a million old runs are removed, and one without."""

    name = "prune"
    title = "while old runs are pruned"

    def applies(self, system: System) -> bool:
        return system.has_schedules

    def prepare(self, bench: Bench, system: System) -> None:
        bench.fresh(system, "empty")

    def measure(self, bench: Bench, system: System) -> Figures:
        full = bench.fresh(system, "history")
        bench.cluster.execute(full, FILL_OLD, {"rows": bench.sizes.backlog_rows})
        without = bench.drain(system, bench.cluster.dsn(f"{system.name}_empty")).figures()
        with pruning(full) as pruned:
            beside = bench.drain(system, full).figures()
        return {
            "without": without["rate"],
            "beside": beside["rate"],
            "ratio": beside["rate"] / without["rate"],
            "pruned_rate": pruned[0] / pruned[1],
        }


@contextlib.contextmanager
def pruning(dsn: str) -> Iterator[list[float]]:
    """Prune turn after turn; how many runs went, and in how many seconds."""
    done, ended = [0.0, 0.0], threading.Event()

    async def prune() -> None:
        async with await connect_async(dsn, "upkeep") as conn:
            started = time.monotonic()
            while not ended.is_set():
                done[0] += (await Turn(conn, RetentionSettings(), part_s=1.0).run()).get("runs", 0)
            done[1] = time.monotonic() - started

    working = threading.Thread(target=lambda: asyncio.run(prune()))
    working.start()
    try:
        yield done
    finally:
        ended.set()
        working.join()


RETENTION_SCENARIOS: list[Scenario] = [PruneScenario()]
