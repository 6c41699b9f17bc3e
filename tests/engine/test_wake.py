"""Wake-ups are hints: an idle worker starts at once, and everything works without them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from time import monotonic

import psycopg
import pytest
from tests.support.engine import Engine
from tests.support.wait import NEVER_S, PATIENCE_S, until

from rota.contrib.testing.clock import Clock
from rota.engine import claimer
from rota.engine.claimer import Claimer
from rota.model.outcome import Snooze
from rota.store import runs as store


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When each claim was sent to the database."""
    sent: list[float] = []
    claim = store.claim

    async def note(*args: object, **options: object) -> object:
        sent.append(monotonic())
        return await claim(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "claim", note)
    return sent


@pytest.mark.req("Q12")
async def test_an_idle_worker_is_woken(engine: Engine, asleep: set[Claimer]) -> None:
    @engine.task
    async def work() -> None: ...

    async with engine.worker(poll_interval_s=NEVER_S):
        for _ in range(5):
            await until(lambda: asleep)
            await engine.ended(engine.enqueue(work))


@pytest.mark.req("Q12")
async def test_an_idle_worker_asks_seldom(engine: Engine, claims: list[float]) -> None:
    """Its looks become rare, and it neither sweeps nor promotes in between."""

    @engine.task
    async def work() -> None: ...

    async with engine.worker(poll_interval_s=NEVER_S):
        await engine.ended(*[engine.enqueue(work) for _ in range(20)])
        await until(lambda: monotonic() - claims[-1] > 1.5)


@pytest.mark.req("Q12")
@pytest.mark.fault(6)
@pytest.mark.parametrize("pooled", [False, True])
async def test_polling_stands_behind_it(engine: Engine, pooled: bool) -> None:
    """Every NOTIFY is lost: work goes on."""

    @engine.task
    async def work() -> None: ...

    engine.conn.execute("CREATE OR REPLACE FUNCTION rota.wake() RETURNS void LANGUAGE sql AS ''")
    async with engine.worker(poll_interval_s=0.2, pooled=pooled):
        for _ in range(3):
            await asyncio.sleep(0.3)  # asleep by now
            await engine.ended(engine.enqueue(work))


async def test_no_wake_up_is_lost_between_the_last_look_and_the_wish(engine: Engine) -> None:
    """Jobs that come at every moment of a worker's falling asleep are found without waiting for the poll."""

    @engine.task
    async def work() -> None: ...

    async with engine.worker(poll_interval_s=NEVER_S):
        for n in range(60):
            await engine.ended(engine.enqueue(work))
            await asyncio.sleep(n % 20 / 200)  # a little later each time


async def test_a_transaction_that_looked_before_the_worker_slept(engine: Engine) -> None:
    """Its insert saw nobody who wished to be woken; it commits when the worker is asleep."""

    @engine.task
    async def work() -> None: ...

    with psycopg.connect(engine.dsn) as conn:
        id = engine.enqueue(work, conn=conn)
        async with engine.worker(poll_interval_s=NEVER_S):
            await until(lambda: engine.count("rota.worker WHERE wants_wake") == 1)
            conn.commit()
            await engine.ended(id)


async def test_busy_workers_are_not_notified(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """An insert pays for NOTIFY only when somebody sleeps."""
    monkeypatch.setattr(claimer, "BUSY_CLAIMS", 10)  # on any machine
    gate = asyncio.Event()
    stream = 0

    @engine.task
    async def work() -> None:
        nonlocal stream
        stream += 1
        if not gate.is_set():
            engine.enqueue("work")

    async with engine.worker(concurrency=1):
        engine.enqueue("work")
        await until(lambda: stream > 20 and engine.count("rota.worker WHERE wants_wake") == 0)
        gate.set()
        await until(lambda: engine.count("rota.worker WHERE wants_wake") == 1)


async def test_a_busy_worker_of_many_queues_has_time_for_other_things(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its looks at all of them, and the sweeps of each, leave it most of its time."""
    looking_s = 0.0
    claim = store.claim
    ended = asyncio.Event()
    stream = 0

    async def note(*args: object, **options: object) -> object:
        nonlocal looking_s
        began = monotonic()
        try:
            return await claim(*args, **options)  # type: ignore[arg-type]
        finally:
            looking_s += monotonic() - began

    @engine.task
    async def work() -> None:
        nonlocal stream
        stream += 1
        await asyncio.to_thread(engine.enqueue, "work", queue=f"queue-{stream % 10}") if stream < 300 else ended.set()

    monkeypatch.setattr(store, "claim", note)
    monkeypatch.setattr(claimer, "BUSY_CLAIMS", 2)  # on any machine
    async with engine.worker(queues={f"queue-{n}": 1 for n in range(10)}):
        for n in range(4):
            engine.enqueue("work", queue=f"queue-{n}")
        await until(lambda: stream > 30 and engine.count("rota.worker WHERE wants_wake") == 0)
        began, looked_s = monotonic(), looking_s
        await asyncio.wait_for(ended.wait(), PATIENCE_S)
        share = (looking_s - looked_s) / (monotonic() - began)
    assert share < 0.4


@pytest.mark.req("Q03")
async def test_delayed_jobs_start_on_time(engine: Engine, clock: Clock, asleep: set[Claimer]) -> None:
    due: list[float] = []

    @engine.task
    async def work() -> None:
        due.append(asyncio.get_running_loop().time())

    early = engine.enqueue(work, delay=timedelta(seconds=0.5))
    async with engine.worker(poll_interval_s=NEVER_S):
        await until(lambda: asleep)
        late = engine.enqueue(work, delay=timedelta(seconds=0.3))
        assert engine.row(late).state == "delayed"
        await engine.ended(early, late)
        for id in (early, late):
            [run] = engine.runs(id)
            assert run.started_at >= run.run_at, "before its time"
        # And by the database's clock: an hour passes at once there, and never here.
        hour = engine.enqueue(work, delay=timedelta(hours=1))
        clock.move(timedelta(hours=1))
        engine.conn.execute("SELECT rota.wake()")
        await engine.ended(hour)


async def test_a_snoozed_job_comes_back_on_time(engine: Engine, asleep: set[Claimer]) -> None:
    """Nothing is enqueued that would wake anybody: the worker itself made the job wait."""
    runs = 0

    @engine.task
    async def work() -> Snooze | None:
        nonlocal runs
        runs += 1
        return Snooze("300ms") if runs < 3 else None

    async with engine.worker(poll_interval_s=NEVER_S):
        await until(lambda: asleep)
        await engine.ended(engine.enqueue(work))


async def test_what_a_stopping_worker_returns_wakes_another(engine: Engine, asleep: set[Claimer]) -> None:
    begun: list[str] = []

    @engine.task
    async def work() -> None:
        begun.append("")
        if len(begun) == 1:
            await asyncio.sleep(60)

    async with engine.worker(poll_interval_s=NEVER_S, shutdown_timeout_s=0.1):
        id = engine.enqueue(work)
        await until(lambda: begun)
        other = engine.worker(poll_interval_s=NEVER_S)
        await other.__aenter__()
        await until(lambda: len(asleep) == 2)
    try:
        await engine.ended(id)
    finally:
        await other.__aexit__(None, None, None)
    assert engine.outcomes(id) == ["released", "completed"]


async def test_a_released_child_wakes_an_idle_worker(engine: Engine, asleep: set[Claimer]) -> None:
    @engine.task
    async def work() -> None: ...

    parent = engine.enqueue(work, queue="parents")
    child = engine.enqueue(work, queue="children", parents=[parent])
    async with engine.worker(poll_interval_s=NEVER_S, queues={"children": 1}):
        await until(lambda: asleep)
        async with engine.worker(queues={"parents": 1}):
            await engine.ended(child)
