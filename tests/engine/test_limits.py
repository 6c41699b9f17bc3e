"""A task's max_concurrency: over all workers, whatever becomes of its jobs, and never at the expense of others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.support import jobs as given
from tests.support.engine import Engine
from tests.support.wait import NEVER_S, PATIENCE_S, until

from rota import Rota
from rota.contrib.testing.clock import Clock
from rota.db.connection import connect_async
from rota.engine.claimer import Claimer
from rota.engine.context import Context
from rota.errors import UsageError
from rota.events import DatabaseLost
from rota.model.ids import new_id
from rota.model.limits import QueueLimits
from rota.model.outcome import Cancel, Snooze
from rota.model.retry import Retry
from rota.model.task import TaskSpec
from rota.store import runs as store
from rota.store import tasks

pytestmark = pytest.mark.req("S09")

HOUR = timedelta(hours=1)
HOURLY = "1/3600s"


class Crowd:
    """Counts how many handlers are inside at once."""

    def __init__(self) -> None:
        self.inside = self.most = self.done = 0

    async def visit(self, seconds: float = 0.002) -> None:
        """Be inside for a while."""
        self.inside += 1
        self.most = max(self.most, self.inside)
        await asyncio.sleep(seconds)
        self.inside -= 1
        self.done += 1


def sync(engine: Engine) -> None:
    """Make the test's tasks known to the database, as a worker does when it starts."""
    tasks.sync(engine.conn, tasks=engine.tasks.values(), queues=["default"])


def states(engine: Engine, ids: list[UUID]) -> list[str]:
    """The states of live jobs as they are stored."""
    return [engine.row(id).state for id in ids]


def limit(engine: Engine, most: int | None) -> TaskSpec:
    """A task with a limit that is known to the database and never runs."""

    @engine.task(max_concurrency=most)
    async def work() -> None: ...

    sync(engine)
    return engine.tasks["work"]


async def _nothing() -> None: ...


async def promote(engine: Engine) -> int:
    """Do what workers do at each poll."""
    async with await connect_async(engine.dsn, "test") as conn:
        return (await store.promote(conn))[0]


@contextmanager
def idle_worker(engine: Engine) -> Iterator[Callable[[], bool]]:
    """Somebody who wishes to be woken; gives a way to ask whether that has happened."""
    worker = given.start_worker(engine.conn)
    engine.conn.execute("UPDATE rota.worker SET wants_wake = true WHERE id = %s", [worker])
    with psycopg.connect(engine.dsn, autocommit=True) as conn:
        conn.execute("LISTEN rota_wake")
        yield lambda: bool(list(conn.notifies(timeout=PATIENCE_S, stop_after=1)))


@pytest.mark.parametrize("most", [1, 3])
async def test_no_more_run_at_once_and_as_many_do(engine: Engine, most: int) -> None:
    crowd = Crowd()

    @engine.task(max_concurrency=most)
    async def work() -> None:
        await crowd.visit(0.01)

    for _ in range(30):
        engine.enqueue(work)
    async with engine.worker(concurrency=20), engine.worker(concurrency=20):
        for _ in range(30):
            engine.enqueue(work)
        await engine.drained()
    assert (crowd.most, crowd.done) == (most, 60)


async def test_the_next_one_starts_at_once(engine: Engine) -> None:
    """Through the whole backlog in less than a poll: each ending lets the next one in."""

    @engine.task(max_concurrency=1)
    async def work() -> None: ...

    async with engine.worker(poll_interval_s=NEVER_S):
        await until(lambda: engine.count("rota.worker WHERE wants_wake") == 1)
        await engine.ended(*[engine.enqueue(work) for _ in range(50)])


async def test_a_batch_of_endings_lets_in_as_many(engine: Engine) -> None:
    """In the transaction of the endings, for each task of the batch."""
    names = ["b", "a", "c"]
    for name in names:
        engine.task(_nothing, name=name, max_concurrency=2)
    sync(engine)
    ids = {name: [engine.enqueue(engine.tasks[name]) for _ in range(5)] for name in names}
    async with await connect_async(engine.dsn, "test") as conn:
        await store.promote(conn)
        worker = new_id()
        runs = await store.claim(conn, worker=worker, tasks="{a,b,c}", queue="default", limit=10, lease_s=60)
        assert len(runs) == 6
        assert await store.complete(conn, worker=worker, runs=runs) == set()
    for name in names:
        assert states(engine, ids[name][2:]) == ["queued", "queued", "held"]


@pytest.mark.parametrize("busy", [False, True])
async def test_a_new_one_starts_soon(engine: Engine, busy: bool, asleep: set[Claimer]) -> None:
    """An idle worker is woken for it, a busy one looks often enough."""
    stop = asyncio.Event()

    @engine.task(max_concurrency=2)
    async def work() -> None: ...

    @engine.task
    async def other() -> None: ...

    async def keep_busy() -> None:
        while not stop.is_set():
            engine.enqueue(other)
            await asyncio.sleep(0.002)

    async with engine.worker(poll_interval_s=NEVER_S):
        await until(lambda: engine.count("rota.worker WHERE wants_wake") == 1)
        keeping = asyncio.create_task(keep_busy()) if busy else None
        if busy:
            await until(lambda: engine.count("rota.worker WHERE wants_wake") == 0, what="it is too busy to be woken")
        for _ in range(3):
            if not busy:
                await until(lambda: asleep)
            await engine.ended(engine.enqueue(work))
        stop.set()
        if keeping is not None:
            await keeping
        await engine.drained()


async def test_jobs_of_other_tasks_are_not_held_up(engine: Engine) -> None:
    gate = asyncio.Event()

    @engine.task(max_concurrency=1)
    async def narrow() -> None:
        await gate.wait()

    @engine.task
    async def other() -> None: ...

    for _ in range(20):
        engine.enqueue(narrow, priority=-1)
    async with engine.worker(concurrency=2):
        await engine.ended(*[engine.enqueue(other) for _ in range(20)])
        assert engine.count("rota.job WHERE task = 'narrow'") == 20
        gate.set()
        await engine.drained()


async def test_a_place_is_free_when_its_job_backs_off_or_ends(engine: Engine) -> None:
    """Retry, snooze, cancel, failure, timeout: with a limit of one, the next one runs each time."""
    crowd = Crowd()

    @engine.task(max_concurrency=1, retry=Retry(base="1h", jitter="0s"), timeout_s=0.3)
    async def work(end: str) -> Any:
        await crowd.visit(0.01)
        match end:
            case "retry" | "fail":
                raise ValueError(end)
            case "snooze":
                return Snooze("1h")
            case "cancel":
                return Cancel("enough")
            case "timeout":
                await asyncio.sleep(60)
        return None

    fates = {"retry": "queued", "fail": "failed", "snooze": "queued", "cancel": "canceled", "timeout": "failed", "end": "completed"}
    ids = {
        end: engine.enqueue(work, {"end": end}, max_attempts=1 if end in ("fail", "timeout") else 4, timeout=timedelta(seconds=0.3))
        for end in fates
    }
    async with engine.worker(poll_interval_s=NEVER_S):
        for end, state in fates.items():
            await until(lambda id=ids[end], state=state: engine.state(id) == state and engine.runs(id), what=end)
    assert states(engine, [ids["retry"], ids["snooze"]]) == ["delayed", "delayed"]
    assert crowd.most == 1


async def test_what_comes_back_lines_up_again(engine: Engine, clock: Clock) -> None:
    work = limit(engine, 1)
    first, second = engine.enqueue(work), engine.enqueue(work)
    later = engine.enqueue(work, delay=HOUR)
    assert await promote(engine) == 1
    assert states(engine, [first, second, later]) == ["queued", "held", "delayed"]
    clock.move(2 * HOUR)
    assert await promote(engine) == 1
    assert states(engine, [first, second, later]) == ["queued", "held", "held"]
    held = engine.hold(first)
    finish = "SELECT rota.finish_run(%s, %s, %s, 'failed', 0, 0, delay => %s)"
    engine.conn.execute(finish, [first, held.token, held.worker, timedelta(0)])
    assert states(engine, [first, second, later]) == ["held", "queued", "held"], "at once, and yet behind those who wait already"
    held = engine.hold(second)
    engine.conn.execute(finish, [second, held.token, held.worker, HOUR])
    assert states(engine, [first, second, later]) == ["held", "delayed", "queued"]


@pytest.mark.parametrize("state", ["queued", "running"])
async def test_cancelling_one_lets_the_next_one_in(engine: Engine, state: str) -> None:
    gate = asyncio.Event()

    @engine.task(max_concurrency=1)
    async def work(wait: bool) -> None:
        if wait:
            await gate.wait()

    sync(engine)
    first = engine.enqueue(work, {"wait": True})
    await promote(engine)
    assert states(engine, [first]) == ["queued"]
    if state == "queued":
        engine.conn.execute("SELECT rota.cancel_job(%s)", [first])
    async with engine.worker(poll_interval_s=NEVER_S):
        if state == "running":
            await until(lambda: engine.state(first) == "running")
        second = engine.enqueue(work, {"wait": False})
        if state == "running":
            engine.conn.execute("SELECT rota.cancel_job(%s)", [first])
        await engine.ended(second)
    assert engine.state(first) == "canceled"


def test_the_cancel_of_one_that_has_a_place_wakes_a_worker(engine: Engine) -> None:
    """It does not give the place away itself: whoever cancels may do so in a long transaction, and must not keep the task's row."""
    work = limit(engine, 1)
    first, second = engine.enqueue(work), engine.enqueue(work)
    engine.conn.execute("SELECT rota.admit_held()")
    with idle_worker(engine) as wakes, psycopg.connect(engine.dsn) as user:
        user.execute("SELECT rota.cancel_job(%s)", [first])
        assert engine.conn.execute("SELECT rota.admit_held()").fetchone() == (0,)
        user.commit()
        assert wakes()
        assert engine.conn.execute("SELECT rota.admit_held()").fetchone() == (1,)
    assert states(engine, [second]) == ["queued"]


def test_what_is_returned_or_rescued_keeps_its_place(engine: Engine) -> None:
    work = limit(engine, 1)
    first, second = engine.enqueue(work), engine.enqueue(work)
    engine.conn.execute("SELECT rota.admit_held()")
    engine.hold(first)
    engine.take_away(first)
    assert states(engine, [first, second]) == ["queued", "held"]
    held = engine.hold(first)
    engine.conn.execute("SELECT rota.finish_run(%s, %s, %s, 'released', 0, 0)", [first, held.token, held.worker])
    assert states(engine, [first, second]) == ["queued", "held"]


def test_a_rescue_that_ends_a_job_frees_its_place(engine: Engine) -> None:
    work = limit(engine, 1)
    first, second = engine.enqueue(work, max_attempts=1), engine.enqueue(work)
    engine.conn.execute("SELECT rota.admit_held()")
    engine.hold(first)
    engine.conn.execute("UPDATE rota.job SET culprit = true WHERE id = %s", [first])
    engine.take_away(first)
    assert engine.state(first) == "failed"
    assert states(engine, [second]) == ["queued"]


class TestChange:
    """The limit is another one: what holds is what the database was told last."""

    async def test_a_raised_limit(self, engine: Engine) -> None:
        work = limit(engine, 1)
        ids = [engine.enqueue(work) for _ in range(5)]
        await promote(engine)
        limit(engine, 3)
        assert states(engine, ids) == ["queued"] * 3 + ["held"] * 2

    async def test_a_raised_limit_that_only_the_database_knows_of(self, engine: Engine) -> None:
        work = limit(engine, 1)
        ids = [engine.enqueue(work) for _ in range(5)]
        await promote(engine)
        engine.conn.execute("UPDATE rota.task SET max_concurrency = 4")
        assert await promote(engine) == 3
        assert states(engine, ids) == ["queued"] * 4 + ["held"]

    async def test_a_lowered_limit_lets_running_ones_end_and_no_other_start(self, engine: Engine) -> None:
        work = limit(engine, 4)
        ids = [engine.enqueue(work) for _ in range(6)]
        await promote(engine)
        runs = [engine.hold(id) for id in ids[:2]]
        limit(engine, 1)
        assert states(engine, ids) == ["running"] * 2 + ["held"] * 4
        finish = "SELECT rota.finish_run(%s, %s, %s, 'completed', 0, 0)"
        engine.conn.execute(finish, [ids[0], runs[0].token, runs[0].worker])
        assert states(engine, ids[1:]) == ["running"] + ["held"] * 4
        engine.conn.execute(finish, [ids[1], runs[1].token, runs[1].worker])
        assert states(engine, ids[2:]) == ["queued"] + ["held"] * 3

    async def test_no_limit_any_more(self, engine: Engine) -> None:
        work = limit(engine, 1)
        engine.conn.execute(
            """INSERT INTO rota.job (id, task, limited, state)
               SELECT rota.uuid7(), 'work', true, 'held' FROM generate_series(1, 2500)"""
        )
        assert await promote(engine) == 1
        crowd = Crowd()

        @engine.task(name="work")
        async def free() -> None:
            await crowd.visit()

        async with engine.worker(concurrency=20):
            late = engine.enqueue(work)  # by a process that has the old code
            await engine.drained()
        assert crowd.most > 1
        assert engine.state(late) == "completed"

    async def test_a_first_limit_holds_for_what_is_queued_already(self, engine: Engine) -> None:
        """Also for what processes with the old code go on enqueuing."""
        crowd = Crowd()

        @engine.task
        async def work() -> None: ...

        ids = [engine.enqueue(work) for _ in range(30)]
        free = engine.tasks["work"]

        @engine.task(max_concurrency=2, name="work")
        async def narrow() -> None:
            await crowd.visit(0.005)

        async with engine.worker(concurrency=10):
            ids += [engine.enqueue(free) for _ in range(30)]
            await engine.ended(*ids)
        assert crowd.most <= 2
        assert [(run.outcome, run.attempt) for id in ids for run in engine.runs(id)] == [("completed", 1)] * 60


async def test_limited_children_of_many_parents(engine: Engine) -> None:
    crowd = Crowd()

    @engine.task
    async def parent() -> None: ...

    @engine.task(max_concurrency=2)
    async def child() -> None:
        await crowd.visit()

    @engine.task(max_concurrency=1)
    async def last() -> None: ...

    parents = [engine.enqueue(parent) for _ in range(10)]
    children = [engine.enqueue(child, parents=parents) for _ in range(10)]
    end = engine.enqueue(last, parents=children)
    async with engine.worker(poll_interval_s=NEVER_S, concurrency=8):
        await engine.ended(*parents, *children, end)
    assert (crowd.most, crowd.done) == (2, 10)


async def test_its_own_transaction_lets_the_next_one_in(engine: Engine) -> None:
    """Whatever isolation it has: in another than READ COMMITTED it could not see who has a place, and leaves it to a worker."""
    crowd = Crowd()

    @engine.task(max_concurrency=1)
    async def work(ctx: Context, level: str) -> None:
        async with ctx.transaction() as conn:
            await conn.execute(f"SET TRANSACTION ISOLATION LEVEL {level}".encode())
            await crowd.visit()

    levels = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
    async with engine.worker(poll_interval_s=NEVER_S):
        await engine.ended(*[engine.enqueue(work, {"level": level}) for level in levels * 3])
    assert crowd.most == 1


def test_a_transaction_that_cannot_see_who_has_a_place_gives_none_away(engine: Engine) -> None:
    work = limit(engine, 1)
    ids = [engine.enqueue(work) for _ in range(2)]
    with idle_worker(engine) as wakes, psycopg.connect(engine.dsn) as late:
        late.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        late.execute("SELECT count(*) FROM rota.job")
        assert engine.conn.execute("SELECT rota.admit_held()").fetchone() == (1,)
        assert wakes()
        assert late.execute("SELECT rota.admit_jobs('{work}')").fetchone() == (0,)
        late.commit()
        assert wakes(), "a worker is to look after it"
    assert states(engine, ids) == ["queued", "held"]


def test_nobody_waits_long_for_the_task(engine: Engine) -> None:
    """Not even where no lock_timeout is set, as behind a pooler; and somebody is told to try again."""
    work = limit(engine, 1)
    id = engine.enqueue(work)
    with idle_worker(engine) as wakes, psycopg.connect(engine.dsn) as stranger:
        stranger.execute("SELECT FROM rota.task FOR UPDATE")
        engine.conn.execute(f"SET statement_timeout = '{PATIENCE_S}s'")
        assert engine.conn.execute("SELECT rota.admit_held()").fetchone() == (0,)
        assert wakes()
    assert engine.conn.execute("SELECT rota.admit_held()").fetchone() == (1,)
    assert states(engine, [id]) == ["queued"]


async def test_a_lock_on_the_task_holds_up_nothing_else(engine: Engine) -> None:
    """A session that hangs with the task's row: endings are recorded, other tasks run, and then it goes on."""
    crowd = Crowd()

    @engine.task(max_concurrency=1)
    async def work() -> None:
        await crowd.visit()

    @engine.task
    async def other() -> None: ...

    gate = asyncio.Event()

    @engine.task(max_concurrency=1)
    async def slow() -> None:
        await gate.wait()

    async with engine.worker(poll_interval_s=NEVER_S):
        running = engine.enqueue(slow)
        await until(lambda: engine.state(running) == "running")
        with psycopg.connect(engine.dsn) as stranger:
            stranger.execute("SELECT FROM rota.task FOR UPDATE")
            ids = [engine.enqueue(work) for _ in range(3)]
            gate.set()
            await engine.ended(running)
            await engine.ended(*[engine.enqueue(other) for _ in range(5)])
            async with engine.worker():  # another one can start, too
                assert states(engine, ids) == ["held"] * 3
        await engine.ended(*ids)
    assert crowd.most == 1
    assert engine.seen(DatabaseLost) == []


async def test_an_enqueue_does_not_lock_the_task(engine: Engine) -> None:
    """A user's transaction may be a long one."""
    work = limit(engine, 1)
    engine.enqueue(work)
    with psycopg.connect(engine.dsn) as user:
        engine.enqueue(work, conn=user)
        user.execute("SELECT rota.enqueue('work')")
        assert await promote(engine) == 1


@pytest.mark.parametrize(
    ("line", "limits"),
    [
        ("t work", {"max_concurrency": 1}),
        ("t work", {"rate": HOURLY}),
        ("k work all", {"concurrency_key": "all", "key_concurrency": 1}),
        ("k work all", {"concurrency_key": "all", "key_rate": HOURLY}),
        ("q default", QueueLimits(max_concurrency=1)),
        ("q default", QueueLimits(rate=HOURLY)),
    ],
    ids=["task", "task's rate", "key", "key's rate", "queue", "queue's rate"],
)
def test_admissions_at_once_are_never_too_many(engine: Engine, line: str, limits: Any) -> None:
    """What the first one has admitted, and not committed, the second one cannot see: it gives nothing away before that."""
    queues = {"default": limits} if isinstance(limits, QueueLimits) else {}
    engine.task(_nothing, name="work", **({} if queues else limits))
    tasks.sync(engine.conn, tasks=engine.tasks.values(), queues=["default"], limits=queues)
    ids = [new_id() for _ in range(3)]
    for id in ids:
        engine.conn.execute("INSERT INTO rota.job (id, task, limited, state) VALUES (%s, 'work', true, 'held')", [id])
    engine.conn.execute("SELECT rota.line_up(100)")

    def admit(conn: psycopg.Connection[Any]) -> Any:
        return conn.execute("SELECT rota.admit_lines(ARRAY[%s])", [line]).fetchone()

    with psycopg.connect(engine.dsn, autocommit=True) as other:
        with engine.conn.transaction():
            assert admit(engine.conn) == (1,)
            assert admit(other) == (0,), "one too many"
        assert admit(other) == (0,)
    assert states(engine, ids) == ["queued", "held", "held"]


@pytest.mark.parametrize("most", [0, -1, 100_001, True, "3", 2.5])
def test_a_limit_out_of_range_is_refused(most: Any) -> None:
    with (
        Rota("postgresql://nowhere") as app,
        pytest.raises(UsageError, match=r"max_concurrency=.* is out of range: from 1 to 100000"),
    ):
        app.task(max_concurrency=most)


def test_the_database_refuses_it_too(engine: Engine) -> None:
    limit(engine, 100_000)
    for most in (0, 100_001):
        with pytest.raises(psycopg.errors.CheckViolation):
            engine.conn.execute("UPDATE rota.task SET max_concurrency = %s", [most])


def test_nobody_gets_round_the_admission(engine: Engine) -> None:
    """A held job is not claimed, and a job without a limit cannot be held."""
    work = limit(engine, 1)
    id = engine.enqueue(work)
    with pytest.raises(psycopg.DatabaseError, match="cannot go from held to running"):
        engine.conn.execute(
            "UPDATE rota.job SET state = 'running', worker_id = %s, lease_until = now(), claimed_at = now(), attempt = 1",
            [new_id()],
        )
    with pytest.raises(psycopg.errors.CheckViolation):
        engine.conn.execute("UPDATE rota.job SET limited = false WHERE id = %s", [id])
