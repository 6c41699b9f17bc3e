"""What is measured of limits: what they cost those that have none."""

from dataclasses import replace

from bench.scenario import Bench, Figures, Scenario
from bench.system import System

KEYS = 5_000
# One task whose only place is taken, one with a place per key, all taken; and a great many who wait for them. Whoever has the
# places is not heard of during the measurement.
FILL = """
INSERT INTO rota.job (id, task, queue, payload, limited, state, line, limit_key, worker_id, claimed_at, lease_until, attempt)
SELECT rota.uuid7(), 'keyed', 'default', json_build_object('n', n), true, 'running', 'p default', n::text, gen_random_uuid(), now(),
       now() + interval '1 day', 1
FROM generate_series(0, %(keys)s - 1) AS n
UNION ALL
SELECT rota.uuid7(), 'narrow', 'default', '{"n": 0}', true, 'running', 'p default', NULL, gen_random_uuid(), now(),
       now() + interval '1 day', 1;
"""
FILL_HELD = """
INSERT INTO rota.job (id, task, payload, limited, state, line, limit_key)
SELECT rota.uuid7(), t.name, json_build_object('n', n %% %(keys)s), true, 'held',
       CASE t.name WHEN 'narrow' THEN 't narrow' ELSE 'k keyed ' || n %% %(keys)s END,
       CASE t.name WHEN 'keyed' THEN (n %% %(keys)s)::text END
FROM generate_series(1, %(rows)s / 2) AS n, (VALUES ('narrow'), ('keyed')) AS t (name)
"""
DRAINED = """
SELECT NOT EXISTS (SELECT FROM rota.job WHERE state = 'queued' AND NOT limited)
   AND NOT EXISTS (SELECT FROM rota.job WHERE state = 'running' AND NOT limited)
"""


class UnlimitedScenario(Scenario):
    """A drain of unlimited jobs by a worker that has tasks with limits too, whose jobs wait in great number; and one without."""

    name = "unlimited"
    title = "beside jobs held by limits"

    def applies(self, system: System) -> bool:
        return system.has_schedules

    def prepare(self, bench: Bench, system: System) -> None:
        bench.fresh(system, "empty")
        dsn, rows = bench.fresh(system, "history"), bench.sizes.backlog_rows // 5
        bench.cluster.execute(dsn, FILL, {"keys": KEYS})
        bench.cluster.execute(dsn, FILL_HELD, {"keys": KEYS, "rows": rows})

    def measure(self, bench: Bench, system: System) -> Figures:
        system = replace(system, drained=DRAINED)
        empty, full = (bench.cluster.dsn(f"{system.name}_{label}") for label in ("empty", "history"))
        without = bench.drain(system, empty).figures()
        beside = bench.drain(system, full, options={"limits": True}).figures()
        return {"without": without["rate"], "beside": beside["rate"], "ratio": beside["rate"] / without["rate"]}


LIMIT_SCENARIOS: list[Scenario] = [UnlimitedScenario()]
