"""What becomes of a run: completed, failed and tried again, timed out, snoozed, canceled by its own handler, unknown."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from tests.support.engine import Engine
from tests.support.wait import PATIENCE_S, until

from rota.contrib.testing.clock import Clock
from rota.engine.context import Context
from rota.events import RunsFinished, ThreadStuck
from rota.model.outcome import Cancel, RetryAfter, Snooze
from rota.model.retry import Retry

HOUR = timedelta(hours=1)


@pytest.mark.req("Q07")
async def test_a_failure_waits_for_its_backoff_and_the_last_one_is_final(engine: Engine, clock: Clock) -> None:
    @engine.task(retry=Retry(base="1h", cap="10h", jitter="0s"))
    async def work(ctx: Context) -> None:
        raise ValueError(f"attempt {ctx.attempt}")

    async with engine.worker(poll_interval_s=0.05):
        id = engine.enqueue(work, max_attempts=3)
        for attempt, wait in ((1, HOUR), (2, 2 * HOUR)):
            await until(lambda n=attempt: len(engine.runs(id)) == n)
            job = engine.job(id)
            assert (job.state, job.attempt, job.worker_id, job.lease_until) == ("queued", attempt, None, None)
            assert job.last_error["type"] == "ValueError"
            assert job.last_error["message"] == f"attempt {attempt}"
            assert abs(job.run_at - clock.now() - wait) < timedelta(minutes=1)
            clock.move(wait - timedelta(minutes=1))
            await asyncio.sleep(0.15)  # three polls find nothing that is due
            assert len(engine.runs(id)) == attempt, "it ran before its time"
            clock.move(timedelta(minutes=2))
        await engine.ended(id, state="failed")
    assert [(run.attempt, run.outcome, run.final) for run in engine.runs(id)] == [
        (1, "failed", False), (2, "failed", False), (3, "failed", True),
    ]  # fmt: skip
    assert engine.job(id).last_error["message"] == "attempt 3"


@pytest.mark.req("Q08")
def test_the_default_backoff_doubles_from_five_seconds_up_to_five_minutes() -> None:
    waits = [Retry(jitter="0s").delay(n, Random(1)).total_seconds() for n in range(1, 9)]
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300]
    assert Retry().delay(5000, Random(1)) <= timedelta(seconds=301)


@pytest.mark.req("Q08")
def test_backoff_is_deterministic_under_a_given_random_source() -> None:
    policy = Retry()
    waits = [policy.delay(n, Random(7)) for n in range(1, 6)]
    assert waits == [policy.delay(n, Random(7)) for n in range(1, 6)]
    assert waits != [policy.delay(n, Random(8)) for n in range(1, 6)]
    jitters = [policy.delay(1, Random(seed)).total_seconds() - 5 for seed in range(300)]
    assert 0 <= min(jitters) < 0.1
    assert 0.9 < max(jitters) <= 1


@pytest.mark.req("Q08")
async def test_a_job_may_have_a_policy_of_its_own(engine: Engine) -> None:
    """One, two, four, eight, sixteen minutes, at most thirty: as sync jobs want it."""

    @engine.task
    async def work() -> None:
        raise ValueError

    policy = Retry(max_attempts=6, base="1m", cap="30m", jitter="0s")
    async with engine.worker(poll_interval_s=0.05):
        id = engine.enqueue(work, retry=policy, max_attempts=6)
        waits = []
        for attempt in range(1, 6):
            await until(lambda n=attempt: len(engine.runs(id)) == n and engine.row(id).state == "delayed")
            waits.append(round((engine.row(id).run_at - engine.row(id).updated_at).total_seconds() / 60))
            engine.conn.execute("SELECT rota.retry_job(%s)", [id])
        await engine.ended(id, state="failed")
    assert waits == [1, 2, 4, 8, 16]


async def test_retry_after_sets_its_own_time_and_counts(engine: Engine) -> None:
    @engine.task
    async def work() -> RetryAfter:
        return RetryAfter("2h", "the other side is busy")

    async with engine.worker():
        id = engine.enqueue(work, max_attempts=2)
        await until(lambda: len(engine.runs(id)) == 1)
        row = engine.row(id)
        assert row.run_at - row.updated_at == 2 * HOUR
        assert row.last_error == {"type": "RetryAfter", "message": "the other side is busy"}
        engine.conn.execute("SELECT rota.retry_job(%s)", [id])
        await engine.ended(id, state="failed")


async def test_snooze_does_not_count(engine: Engine) -> None:
    @engine.task
    async def work(ctx: Context) -> Snooze | str:
        return Snooze("0s") if ctx.attempt < 6 else "done"

    async with engine.worker(poll_interval_s=0.05):
        id = engine.enqueue(work, max_attempts=1)
        await engine.ended(id)
    assert engine.outcomes(id) == ["snoozed"] * 5 + ["completed"]


async def test_snooze_waits(engine: Engine) -> None:
    @engine.task
    async def work() -> Snooze:
        return Snooze("3h")

    async with engine.worker():
        id = engine.enqueue(work)
        await until(lambda: len(engine.runs(id)) == 1)
        row = engine.row(id)
    assert (row.state, row.run_at - row.updated_at, row.forgiven, row.last_error) == ("delayed", 3 * HOUR, 1, None)


async def test_a_handler_may_cancel_its_job(engine: Engine) -> None:
    @engine.task
    async def work() -> Cancel:
        return Cancel("no longer\x00 needed\ud800")

    async with engine.worker():
        id = engine.enqueue(work)
        await engine.ended(id, state="canceled")
    assert engine.job(id).last_error == {"type": "Canceled", "message": "no longer\N{REPLACEMENT CHARACTER} needed?"}


@pytest.mark.req("Q18")
@pytest.mark.parametrize("sync", [False, True])
async def test_timeout(engine: Engine, sync: bool) -> None:
    seen: list[bool] = []

    @engine.task(name="async", timeout_s=30.0)
    async def work() -> None:
        await asyncio.sleep(60)

    @engine.task(name="sync", timeout_s=30.0)
    def work_in_thread(ctx: Context) -> None:
        while not ctx.canceled:
            threading.Event().wait(0.01)
        seen.append(ctx.canceled)

    async with engine.worker(concurrency=1):
        id = engine.enqueue("sync" if sync else "async", timeout=timedelta(seconds=0.2), max_attempts=1)
        await engine.ended(id, state="failed")
        await until(lambda: seen or not sync)
        probe = engine.enqueue("async", timeout=timedelta(seconds=0.1), max_attempts=1)
        await engine.ended(probe, state="failed")
    [run] = engine.runs(id)
    assert run.error["message"] == "Job exceeded timeout of 0.2s"
    assert run.error["type"] == "JobTimeout"
    assert run.finished_at - run.started_at < timedelta(seconds=20), "the task's timeout, not the job's own"


@pytest.mark.req("Q18")
async def test_a_handler_cannot_talk_itself_out_of_its_timeout(engine: Engine) -> None:
    @engine.task(timeout_s=1)
    async def work() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "never mind"
        return "done"

    async with engine.worker():
        id = engine.enqueue(work, max_attempts=1, timeout=timedelta(seconds=0.1))
        await engine.ended(id, state="failed")
    assert engine.runs(id)[0].error["message"] == "Job exceeded timeout of 0.1s"


async def test_a_swallowed_interruption_does_not_reach_the_next_job(engine: Engine) -> None:
    """Whatever a handler makes of being told to stop, its slot is as good as new for the next one."""

    @engine.task(timeout_s=0.1)
    async def stubborn() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return

    @engine.task(timeout_s=0.1)
    async def clumsy() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError("while cleaning up")

    @engine.task
    async def cancels_itself() -> None:
        raise asyncio.CancelledError("by hand")

    @engine.task
    async def groups() -> None:
        async with asyncio.TaskGroup() as group:  # one that fails may leave its parent marked as being cancelled
            group.create_task(_fail())

    async with engine.worker(concurrency=1):
        first = [engine.enqueue(task, max_attempts=1) for task in (stubborn, clumsy, groups)]
        await engine.ended(*first, state="failed")
        canceled = [engine.enqueue(cancels_itself, max_attempts=1) for _ in range(2)]
        await engine.ended(*canceled, state="failed")
    assert [engine.runs(id)[0].error["type"] for id in canceled] == ["CancelledError"] * 2


async def _fail() -> None:
    raise ValueError


async def test_a_thread_that_does_not_listen_keeps_its_slot_and_is_reported(engine: Engine) -> None:
    free = threading.Event()

    @engine.task(timeout_s=0.1)
    def deaf() -> None:
        free.wait(PATIENCE_S)

    @engine.task
    async def quick() -> None: ...

    async with engine.worker(concurrency=2):
        id = engine.enqueue(deaf, max_attempts=1)
        await engine.ended(id, state="failed")
        await until(lambda: engine.seen(ThreadStuck))
        await engine.ended(*[engine.enqueue(quick) for _ in range(5)])
        free.set()
    assert [event.run.id for event in engine.seen(ThreadStuck)] == [str(id)]


@pytest.mark.req("Q15")
async def test_every_attempt_is_a_row_of_its_own(engine: Engine) -> None:
    @engine.task(retry=Retry(base="0s", jitter="0s"))
    async def work(ctx: Context) -> None:
        row = engine.row(ctx.job_id)  # the open run: begun before its handler
        assert (row.state, row.attempt, row.worker_id is not None) == ("running", ctx.attempt, True)
        if ctx.attempt < 3:
            raise ValueError

    async with engine.worker(poll_interval_s=0.05) as worker:
        id = engine.enqueue(work)
        await engine.ended(id)
    runs = engine.runs(id)
    assert [(run.attempt, run.outcome, run.worker_id) for run in runs] == [
        (1, "failed", worker.id), (2, "failed", worker.id), (3, "completed", worker.id),
    ]  # fmt: skip
    assert all(run.started_at <= run.finished_at for run in runs)
    with pytest.raises(Exception, match=r"duplicate key|run_.*pkey"):
        engine.conn.execute("INSERT INTO rota.run SELECT (r).* FROM (SELECT r FROM rota.run r LIMIT 1) AS r")


async def test_events_tell_of_every_run(engine: Engine) -> None:
    outcomes: list[Any] = []

    @engine.task
    async def work(n: int) -> None:
        if n % 2:
            raise ValueError

    async with engine.worker() as worker:
        worker.events.subscribe(RunsFinished, lambda event: outcomes.extend((run.outcome, run.state) for run in event.runs))
        for n in range(10):
            engine.enqueue(work, {"n": n}, max_attempts=1)
        await until(lambda: len(outcomes) == 10)
    assert sorted(outcomes) == [("completed", "completed")] * 5 + [("failed", "failed")] * 5
