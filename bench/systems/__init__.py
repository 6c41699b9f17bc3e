"""The measured systems: what they are called, how they are configured, how one sees that they are done."""

from bench.peers import VERSIONS
from bench.system import System

FLOOR_DRAINED = "SELECT NOT EXISTS (SELECT FROM job WHERE state > 0)"
FLOOR_HISTORY = """
INSERT INTO run
SELECT gen_random_uuid(), 1, 'noop', 'default', '{"n": 1}', 0, now() - interval '1 hour', now() - interval '1 hour'
FROM generate_series(1, %(rows)s)
"""
GRAPHILE_DRAINED = """
SELECT NOT EXISTS (SELECT FROM graphile_worker._private_jobs WHERE run_at <= now() OR locked_at IS NOT NULL)
"""
PGQUEUER_DRAINED = "SELECT NOT EXISTS (SELECT FROM pgqueuer WHERE execute_after <= now())"
PGQUEUER_HISTORY = """
INSERT INTO pgqueuer_log (job_id, status, priority, entrypoint, aggregated)
SELECT -n, 'successful', 0, 'noop', true FROM generate_series(1, %(rows)s) AS n
"""
PROCRASTINATE_DRAINED = """
SELECT NOT EXISTS (
    SELECT FROM procrastinate_jobs
    WHERE status IN ('todo', 'doing') AND (scheduled_at IS NULL OR scheduled_at <= now()))
"""
# Its own view of all jobs takes minutes at this size: a ready entry stays until its slot is pruned with its completion.
AWA_DRAINED = """
SELECT (SELECT coalesce(sum(completed_count), 0) FROM awa.receipt_completion_batches)
    >= (SELECT count(*) FROM awa.ready_entries)
"""

ROTA_DRAINED = "SELECT NOT EXISTS (SELECT FROM rota.job WHERE state <> 'delayed' AND task <> 'unknown')"
ROTA_UNKNOWN = """
INSERT INTO rota.job (id, task, payload, run_at)
SELECT rota.uuid7(), 'unknown', '{"n": 1}', now() - interval '1 hour' FROM generate_series(1, %(rows)s)
"""
ROTA_ANNOUNCE = """
INSERT INTO rota.worker (id, host, pid, version, queues, tasks, slots, seen_at)
VALUES (gen_random_uuid(), 'elsewhere', 1, '1', '{default}', '{unknown}', 4, now() + interval '1 day')
"""
ROTA_HISTORY = """
INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, started_at, finished_at, worker_id, payload, priority, run_at,
                      max_attempts, token, created_at)
SELECT rota.uuid7(), 1, 'noop', 'default', 'completed', true, now(), now(), gen_random_uuid(), '{"n": 1}', 0, now(), 4, 1, now()
FROM generate_series(1, %(rows)s)
"""

# Enqueuing is the same whatever the worker's settings.
WORKER_SCENARIOS = frozenset({"drain1", "drain2", "pickup"})

SYSTEMS = [
    System(
        name="floor",
        title="bare SQL loop with history",
        module="floor",
        runtime="own",
        speed=70_000,
        drained=FLOOR_DRAINED,
        small_batches={"batch": 10},
        fill_history=FLOOR_HISTORY,
        times_claims=True,
        can_be_silent=True,
    ),
    System(
        name="rota",
        title="Rota, defaults",
        module="rota",
        runtime="own",
        speed=50_000,
        drained=ROTA_DRAINED,
        has_schedules=True,
        small_batches={"claim_batch": 10},
        fill_history=ROTA_HISTORY,
        fill_unknown=ROTA_UNKNOWN,
        announce=ROTA_ANNOUNCE,
        times_claims=True,
        can_be_silent=True,
    ),
    System(
        name="rota-tuned",
        title="Rota, tuned",
        module="rota",
        runtime="own",
        speed=50_000,
        drained=ROTA_DRAINED,
        options={"concurrency": 16, "claim_batch": 1000},
        small_batches={"claim_batch": 10},
        fill_history=ROTA_HISTORY,
        times_claims=True,
        can_be_silent=True,
    ),
    System(
        name="graphile",
        title=f"graphile-worker {VERSIONS['graphile-worker']}, batched",
        module="graphile",
        runtime="node",
        speed=30_000,
        drained=GRAPHILE_DRAINED,
        options={"concurrency": 96, "localQueue": {"size": 1000}, "completeJobBatchDelay": 10},
    ),
    System(
        name="graphile-default",
        title=f"graphile-worker {VERSIONS['graphile-worker']}, defaults",
        module="graphile",
        runtime="node",
        speed=1_800,
        drained=GRAPHILE_DRAINED,
        options={"concurrency": 10},
        small_batches={},
        only=WORKER_SCENARIOS | {"pinned-small"},
    ),
    System(
        name="pgqueuer",
        title=f"pgqueuer {VERSIONS['pgqueuer']}, tuned",
        module="pgqueuer",
        runtime="python",
        speed=15_000,
        drained=PGQUEUER_DRAINED,
        options={"pool": 4, "run": {"batch_size": 500}},
        small_batches={"run": {"batch_size": 10}},
        fill_history=PGQUEUER_HISTORY,
    ),
    System(
        name="pgqueuer-default",
        title=f"pgqueuer {VERSIONS['pgqueuer']}, defaults",
        module="pgqueuer",
        runtime="python",
        speed=3_000,
        drained=PGQUEUER_DRAINED,
        only=WORKER_SCENARIOS,
    ),
    System(
        name="awa",
        title=f"awa-pg {VERSIONS['awa-pg']}, tuned",
        module="awa",
        runtime="python",
        speed=10_000,
        drained=AWA_DRAINED,
        options={"concurrency": 4000, "partitions": 2, "connections": 20, "queue": {"claim_batch_size": 2000}},
        environment={
            "AWA_COMPLETION_BATCH_SIZE": "2000",
            "AWA_COMPLETION_FLUSH_MS": "10",
            "AWA_COMPLETION_SHARDS": "1",
        },
    ),
    System(
        name="awa-default",
        title=f"awa-pg {VERSIONS['awa-pg']}, defaults",
        module="awa",
        runtime="python",
        speed=4_000,
        drained=AWA_DRAINED,
        options={"concurrency": 256},
        only=WORKER_SCENARIOS,
    ),
    System(
        name="procrastinate",
        title=f"procrastinate {VERSIONS['procrastinate']}, 10 at a time",
        module="procrastinate",
        runtime="python",
        speed=500,
        drained=PROCRASTINATE_DRAINED,
        options={"concurrency": 10},
    ),
]

BY_NAME = {system.name: system for system in SYSTEMS}
