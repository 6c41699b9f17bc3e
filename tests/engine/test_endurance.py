"""What goes wrong only in the long run: memory that grows, numbers that run out, old snapshots that are never let go."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest
from tests.support.engine import Engine
from tests.support.faulty import app
from tests.support.processes import WorkerProcess
from tests.support.wait import until, wait_until

from rota.engine.context import Context
from rota.model.outcome import Snooze
from rota.store import runs as store

JOBS = 200_000
WARM = 40_000
WIDE = 2**31


@pytest.mark.fault(19)
def test_memory_is_flat_over_two_hundred_thousand_jobs(engine: Engine) -> None:
    engine.tasks.update(app.tasks)
    with WorkerProcess("tests.support.faulty:app", engine.dsn, forked=False, concurrency=10) as worker:
        worker.wait_ready()
        engine.fill("noop", WARM)
        wait_until(lambda: engine.count() == 0)
        warm = _memory(worker.pid)
        engine.fill("noop", JOBS - WARM)
        wait_until(lambda: engine.count() == 0)
        grown = _memory(worker.pid) - warm
    assert engine.count("rota.run WHERE outcome = 'completed' AND task = 'noop'") == JOBS  # Rota has tasks too, by the clock
    # A leak of one small object a job would be ten megabytes here.
    assert grown < 4 * 2**20, f"grew by {grown / 2**20:.1f} MiB"
    assert warm < 80 * 2**20, f"{warm / 2**20:.0f} MiB"


def _memory(pid: int) -> int:
    # What is its own: pages of files that are mapped come and go.
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024


@pytest.mark.fault(20)
async def test_numbers_beyond_two_to_the_31(engine: Engine) -> None:
    """A job that snoozes, or goes back and forth, for years counts its attempts and its claims past 32 bits."""

    @engine.task
    async def work(ctx: Context) -> Snooze | None:
        return Snooze("0s") if ctx.attempt < WIDE + 2 else None

    id = engine.enqueue(work, max_attempts=2)
    wide = "UPDATE rota.job SET attempt = %s, forgiven = %s, token = %s WHERE id = %s"
    engine.conn.execute(wide, [WIDE - 2, WIDE - 2, WIDE - 2, id])
    async with engine.worker(poll_interval_s=0.05):
        await engine.ended(id)
    assert [run.attempt for run in engine.runs(id)] == [WIDE - 1, WIDE, WIDE + 1, WIDE + 2]
    assert engine.runs(id)[-1].token == WIDE + 2


@pytest.mark.req("Q04")
@pytest.mark.fault(9)
async def test_a_pinned_snapshot_changes_nothing_but_the_walk(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dead rows cannot be removed: claims start behind them, and what is late or more urgent is found all the same."""
    starts: list[bool] = []
    claim = store.claim

    async def note(*args: object, **options: object) -> object:
        starts.append(options["after"] is store.START)
        return await claim(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "claim", note)
    done: list[int] = []

    @engine.task
    async def work(n: int) -> None:
        done.append(n)

    with psycopg.connect(engine.dsn) as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM rota.job")
        engine.conn.execute(
            """INSERT INTO rota.job (id, task, payload) SELECT rota.uuid7(), 'work', json_build_object('n', n)
               FROM generate_series(1, 20000) n"""
        )
        async with engine.worker(concurrency=4, claim_batch=50):
            await until(lambda: len(done) > 5000)
            urgent = engine.enqueue(work, {"n": 0}, priority=-1)
            await engine.ended(urgent)
            await engine.drained()
            # And what comes afterwards, behind twenty thousand dead entries.
            await engine.ended(*[engine.enqueue(work, {"n": 0}) for _ in range(10)])
        assert old.execute("SELECT count(*) FROM rota.job").fetchone() == (0,), "the snapshot was not held"
    assert len(done) == 20_011
    assert starts.count(False) > 0.5 * len(starts), "claims walk over the dead from the beginning"
    await asyncio.sleep(0)
