"""Claims: one job goes to one worker, in the right order, and nobody takes more than it can start."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from contextlib import AsyncExitStack

import psycopg
import pytest
from tests.support.command import environment
from tests.support.engine import Engine
from tests.support.wait import NEVER_S, PATIENCE_S, until, wait_until

from rota.db.connection import connect_async
from rota.engine.claimer import Queue
from rota.engine.postgres import PostgresSession
from rota.engine.worker import Worker
from rota.events import RunsClaimed, RunsReleased
from rota.model.ids import new_id
from rota.store import runs as store

# Four claimers in a process of their own, which start together with those of all other processes: at the end of a lock.
CLAIMERS = """
import asyncio, sys
from rota.db.connection import connect_async
from rota.model.ids import new_id
from rota.store import runs

async def claim():
    conn = await connect_async(sys.argv[1], "claimer")
    await conn.execute("SET lock_timeout = 0")  # however long the others take to come
    await conn.execute("SELECT pg_advisory_lock_shared(1)")
    return len(await runs.claim(conn, worker=new_id(), tasks="{work}", queue="default", limit=10, lease_s=60))

async def main():
    print(sum(await asyncio.gather(*(claim() for _ in range(4)))))

asyncio.run(main())
"""


@pytest.mark.req("Q04")
async def test_it_works(engine: Engine) -> None:
    ran: list[int] = []

    @engine.task
    async def work(n: int) -> int:
        ran.append(n)
        return n + 1

    async with engine.worker():
        id = engine.enqueue(work, {"n": 1})
        await engine.ended(id)
    assert ran == [1]
    [run] = engine.runs(id)
    assert (run.outcome, run.final, run.result, run.attempt) == ("completed", True, 2, 1)


@pytest.mark.req("Q04")
async def test_one_of_many_connections_gets_the_job(engine: Engine) -> None:
    async with AsyncExitStack() as stack:
        conns = [await stack.enter_async_context(await connect_async(engine.dsn, "claimer")) for _ in range(16)]
        for _ in range(40):
            engine.enqueue("work")
            claims = await asyncio.gather(
                *(store.claim(conn, worker=new_id(), tasks="{work}", queue="default", limit=5, lease_s=60) for conn in conns)
            )
            assert sum(map(len, claims)) == 1


@pytest.mark.req("Q04")
async def test_claimers_share_many_jobs_without_overlap(engine: Engine) -> None:
    engine.fill("work", 2000)
    async with AsyncExitStack() as stack:
        conns = [await stack.enter_async_context(await connect_async(engine.dsn, "claimer")) for _ in range(8)]

        async def claim_all(conn: psycopg.AsyncConnection[tuple[object, ...]]) -> list[str]:
            ids: list[str] = []
            while got := await store.claim(conn, worker=new_id(), tasks="{work}", queue="default", limit=17, lease_s=60):
                ids += [run.id for run in got]
            return ids

        claimed = [id for ids in await asyncio.gather(*map(claim_all, conns)) for id in ids]
    # Some may be left by claimers that saw only locked ones; what was claimed was claimed once.
    assert len(claimed) == len(set(claimed)) == engine.count("rota.job WHERE state = 'running'")


@pytest.mark.req("Q04")
def test_one_of_many_processes_gets_the_job(engine: Engine) -> None:
    id = engine.enqueue("work")
    engine.conn.execute("SELECT pg_advisory_lock(1)")
    command = [sys.executable, "-c", CLAIMERS, engine.dsn]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) for _ in range(4)]
    waiting = "pg_locks l JOIN pg_database d ON d.oid = l.database AND d.datname = current_database() AND NOT l.granted"
    wait_until(lambda: engine.count(waiting) == 16)
    engine.conn.execute("SELECT pg_advisory_unlock(1)")
    assert sum(int(child.communicate(timeout=PATIENCE_S)[0]) for child in children) == 1
    assert engine.row(id).token == 1


@pytest.mark.req("Q18")
async def test_smaller_priority_first_then_due_time(engine: Engine) -> None:
    order: list[str] = []

    @engine.task
    async def work(name: str) -> None:
        order.append(name)

    for name, priority in (("c", 0), ("d", 0), ("e", 7), ("b", -1), ("a", -32768)):
        engine.enqueue(work, {"name": name}, priority=priority)
    engine.conn.execute("UPDATE rota.job SET run_at = run_at - interval '1 h' WHERE payload ->> 'name' = 'd'")
    async with engine.worker(concurrency=1):
        await engine.drained()
    assert order == ["a", "b", "d", "c", "e"]


@pytest.mark.req("Q18")
async def test_urgent_work_overtakes_a_backlog(engine: Engine) -> None:
    """Claims go on from where the last one ended; what is more urgent lies before that point."""
    done = 0
    rank: list[int] = []

    @engine.task
    async def work() -> None:
        nonlocal done
        await asyncio.sleep(0.002)
        done += 1

    @engine.task
    async def urgent() -> None:
        rank.append(done)

    backlog = 8_000
    engine.fill(work, backlog)
    async with engine.worker(concurrency=4):
        await until(lambda: done > 500)
        before = done
        id = engine.enqueue(urgent, priority=-5)
        await engine.ended(id)
        assert rank[0] < backlog, f"enqueued after {before}, run after all of the backlog"


async def test_a_late_commit_behind_the_position_is_found(engine: Engine) -> None:
    """A job whose transaction commits after younger ones were claimed is not passed over."""

    @engine.task
    async def work() -> None: ...

    with psycopg.connect(engine.dsn) as late:
        id = engine.enqueue(work, conn=late)
        async with engine.worker(poll_interval_s=NEVER_S):
            engine.fill(work, 50)
            await engine.drained()
            late.commit()
            await engine.ended(id)


async def test_weights_share_out_the_slots(engine: Engine) -> None:
    @engine.task
    async def work() -> None: ...

    engine.fill(work, 3000, queue="heavy")
    engine.fill(work, 3000, queue="light")
    async with engine.worker(queues={"heavy": 9, "light": 1}, concurrency=4, claim_batch=100):
        await until(lambda: sum(len(event.runs) for event in engine.seen(RunsClaimed)) > 2000)
        claimed = Counter({"light": 0})
        for event in engine.seen(RunsClaimed):
            claimed[event.queue] += len(event.runs)
            if claimed["heavy"] > 1500:
                break
        assert claimed["light"] > 0, "the light queue starved"
        assert claimed["heavy"] > 3 * claimed["light"], claimed
        await engine.drained()


async def test_one_queue_may_use_every_slot(engine: Engine) -> None:
    """Weights divide what is contended; a queue that is alone is not held back."""
    started = 0

    @engine.task
    async def work() -> None:
        nonlocal started
        started += 1
        await asyncio.sleep(60)

    engine.fill(work, 10, queue="light")
    async with engine.worker(queues={"heavy": 9, "light": 1}, concurrency=5, shutdown_timeout_s=0):
        await until(lambda: started == 5)


async def test_other_queues_are_left_alone(engine: Engine) -> None:
    @engine.task
    async def work() -> None: ...

    mine, other = engine.enqueue(work, queue="mine"), engine.enqueue(work, queue="other")
    async with engine.worker(queues={"mine": 1}):
        await engine.ended(mine)
    assert (engine.state(other), engine.row(other).attempt) == ("queued", 0)


@pytest.mark.req("Q05", "Q12")
async def test_no_more_is_claimed_than_can_start(engine: Engine) -> None:
    gate = asyncio.Event()
    running = most = 0

    @engine.task
    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    engine.fill(work, 40)
    async with engine.worker(concurrency=3), engine.worker(concurrency=2):
        await until(lambda: running == 5)
        for _ in range(30):  # they have every occasion to take more: they look, promote and poll
            assert engine.count("rota.job WHERE state = 'running'") == 5
            await asyncio.sleep(0.02)
        gate.set()
        await engine.drained()
    assert most == 5


@pytest.mark.req("Q05")
async def test_a_slow_job_blocks_neither_the_claims_nor_the_other_slots(engine: Engine) -> None:
    gate = asyncio.Event()

    @engine.task
    async def slow() -> None:
        await gate.wait()

    @engine.task
    async def quick() -> None: ...

    async with engine.worker(concurrency=2):
        first = engine.enqueue(slow)
        await until(lambda: engine.state(first) == "running")
        await engine.ended(*[engine.enqueue(quick) for _ in range(200)])
        assert engine.state(first) == "running"
        gate.set()
        await engine.ended(first)


@pytest.mark.req("Q12")
async def test_four_slots_by_default(engine: Engine) -> None:
    gate = asyncio.Event()
    running = 0

    @engine.task
    async def work() -> None:
        nonlocal running
        running += 1
        await gate.wait()

    engine.fill(work, 9)
    async with engine.worker():
        await until(lambda: running == 4)
        gate.set()
        await engine.drained()
    assert Worker(engine.dsn, {}).options.poll_interval_s == 1.0


@pytest.mark.req("Q05")
async def test_what_was_claimed_ahead_goes_back_when_jobs_turn_slow(engine: Engine) -> None:
    """Quick jobs let a worker claim ahead; the slow ones that follow must not lie with it while another worker is free."""
    gate = asyncio.Event()

    @engine.task
    async def quick() -> None: ...

    @engine.task
    async def slow() -> None:
        await gate.wait()

    async with engine.worker(concurrency=2):
        engine.fill(quick, 2000)
        await engine.drained()
        engine.fill(slow, 100)
        await until(lambda: engine.seen(RunsReleased) != [], what="the buffer is given back")
        held = [engine.count("rota.job WHERE state = 'running'") for _ in range(50) if await asyncio.sleep(0.02, True)]
        assert max(held) == 2, "it claims ahead again what it cannot start"
        assert engine.conn.execute("SELECT max(attempt) FROM rota.job").fetchone() == (1,), "waiting was charged"
        gate.set()
        await engine.drained()
    assert engine.count("rota.run WHERE attempt <> 1") == 0


async def test_a_paused_queue_gives_nothing(engine: Engine) -> None:
    @engine.task
    async def work() -> None: ...

    engine.conn.execute("INSERT INTO rota.queue (name, paused_at) VALUES ('default', now())")
    id = engine.enqueue(work)
    probe = engine.enqueue(work, queue="other")
    async with engine.worker(queues={"default": 1, "other": 1}):
        await engine.ended(probe)
        assert engine.state(id) == "queued"
        engine.conn.execute("UPDATE rota.queue SET paused_at = NULL WHERE name = 'default'")
        await engine.ended(id)


async def test_a_claim_whose_answer_was_lost_is_given_back(engine: Engine) -> None:
    """A claim granted on a connection that broke before it could say so must not wait for the end of its lease."""
    engine.task(_noop, name="work")
    id = engine.enqueue("work")
    worker = engine.make_worker(heartbeat_s=0.2, shutdown_timeout_s=5.0)
    engine.hold(id, worker=worker.id)
    running = asyncio.create_task(worker.run())
    try:
        await engine.ended(id)
    finally:
        worker.stop()
        await running
    assert [run.attempt for run in engine.runs(id)] == [1], "it was charged for a claim that nobody used"


async def _noop() -> None: ...


async def test_a_sweep_that_finds_much_goes_on_from_there(engine: Engine) -> None:
    """What lies before the position all at once, as when a task is enabled, must not wait for a sweep each time."""

    @engine.task
    async def work() -> None:
        pass

    engine.enqueue(work)
    queue = Queue("default", 1)
    async with await connect_async(engine.dsn, "claimer") as conn:
        session = PostgresSession(conn, new_id(), tasks="{work}")
        assert len(await queue.claim(session, 4, 60)) == 1
        engine.fill(work, 10)
        engine.conn.execute("UPDATE rota.job SET run_at = run_at - interval '1 hour' WHERE state = 'queued'")
        queue.sweep_at = 0.0
        found = [len(await queue.claim(session, 4, 60))]
        for _ in range(2):
            queue.sweep_at = float("inf")
            found.append(len(await queue.claim(session, 4, 60)))
    assert found == [4, 4, 2]


@pytest.mark.req("Q05")
async def test_a_claimed_job_starts_before_the_next_statement(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not when that is on its way to the server, which takes longer than many a handler."""
    story: list[str] = []

    def note(name: str) -> None:
        method = getattr(PostgresSession, name)

        async def noted(*args: object, **options: object) -> object:
            story.append(name)
            return await method(*args, **options)

        monkeypatch.setattr(PostgresSession, name, noted)

    for name in ("claim", "promote", "want_wake", "wait_for_wake"):
        note(name)

    @engine.task
    async def work() -> None:
        story.append("start")

    id = engine.enqueue(work)
    async with engine.worker():
        await engine.ended(id)
    assert story[story.index("claim") + 1] == "start", story
