"""How far a run has come: told by its handler, stored now and then, and kept with the run."""

from __future__ import annotations

import asyncio
import json
from time import monotonic
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import isolated
from tests.support.engine import Engine
from tests.support.wait import until

from rota.engine import logbook
from rota.engine.context import Context
from rota.errors import UsageError
from rota.events import RunLeaseLost
from rota.model.progress import show_progress, write_progress
from rota.model.run import Run
from rota.store import logs as store

pytestmark = pytest.mark.req("C06")


def a_run() -> Run:
    return Run("id", 1, "work", "default", 0, None, "{}", 2, 4, {}, 0.0, 0.0)  # type: ignore[arg-type]


async def test_it_works(engine: Engine) -> None:
    go = asyncio.Event()

    @engine.task
    async def work(ctx: Context) -> None:
        ctx.progress(0, 3)
        await go.wait()
        for done in range(1, 4):
            ctx.progress(done, 3, f"part {done} password=x")

    async with engine.worker():
        id = engine.enqueue(work)
        first = await until(lambda: engine.job(id).progress)
        assert (first["done"], first["total"], first["message"], first["attempt"]) == (0, 3, "", 1)
        assert engine.state(id) == "running"
        go.set()
        await engine.ended(id)
        await until(lambda: engine.job(id).progress["done"] == 3)
    assert engine.job(id).progress["message"] == "part 3 password=[redacted]"
    assert engine.runs(id)[0].progress == engine.job(id).progress


async def test_as_often_as_one_likes(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of calls in the same second are one write, and the newest of them is not lost."""
    writes: list[Any] = []
    now = [monotonic()]
    said, go = asyncio.Event(), asyncio.Event()
    show = store.show_progress

    async def note(*args: Any, **kwargs: Any) -> set[str]:
        writes.append(kwargs["progress"])
        return await show(*args, **kwargs)

    monkeypatch.setattr(store, "show_progress", note)
    monkeypatch.setattr(logbook, "monotonic", lambda: now[0])  # as if none of the calls took any time

    @engine.task
    async def work(ctx: Context) -> None:
        ctx.progress(1)
        await until(lambda: writes)
        for number in range(2, 3001):
            ctx.progress(number)
            if number % 100 == 0:
                await asyncio.sleep(0)
        said.set()
        await go.wait()

    async with engine.worker():
        id = engine.enqueue(work)
        await said.wait()
        assert len(writes) == 1
        now[0] += logbook.PROGRESS_S
        await until(lambda: (engine.job(id).progress or {}).get("done") == 3000)
        assert len(writes) == 2
        go.set()
        await engine.ended(id)


async def test_another_attempt_begins_anew(engine: Engine) -> None:
    go = asyncio.Event()

    @engine.task
    async def work(ctx: Context) -> None:
        if ctx.attempt == 1:
            ctx.progress(1, 2, "first")
            await asyncio.sleep(0.3)
            raise ValueError("again")
        await go.wait()

    async with engine.worker():
        id = engine.enqueue(work, retry=isolated.AT_ONCE)
        await until(lambda: engine.job(id).attempt == 2)
        await until(lambda: engine.runs(id)[0].progress)
        assert engine.job(id).progress is None
        go.set()
        await engine.ended(id)
    assert [run.progress and run.progress["message"] for run in engine.runs(id)] == ["first", None]


@pytest.mark.fault(1)
async def test_a_zombie_shows_nothing(engine: Engine) -> None:
    go, over = asyncio.Event(), asyncio.Event()

    @engine.task
    async def work(ctx: Context) -> None:
        if ctx.attempt > 1:
            await over.wait()
            ctx.progress(2, 2, "the other's")
            return
        await go.wait()
        ctx.progress(1, 2, "a zombie's")

    async with engine.worker(concurrency=2):
        id = engine.enqueue(work)
        await until(lambda: engine.state(id) == "running")
        with engine.conn.transaction():
            engine.take_away(id)
            engine.conn.execute("UPDATE rota.job SET crashes = 0")  # or it would run in a process of its own
        await until(lambda: engine.job(id).attempt == 2)
        go.set()
        await until(lambda: engine.seen(RunLeaseLost))
        await asyncio.sleep(0.3)  # had it been stored, it would have been by now
        assert engine.job(id).progress is None
        over.set()
        await engine.ended(id)
        await until(lambda: engine.job(id).progress)
    assert [run.progress and run.progress["message"] for run in engine.runs(id)] == [None, "the other's"]


async def test_isolated_handlers(engine: Engine) -> None:
    engine.tasks.update(isolated.app.tasks)
    async with engine.worker():
        id = engine.enqueue("count_up", {"to": 500})
        await engine.ended(id)
        await until(lambda: (engine.job(id).progress or {}).get("done") == 500)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ((-1,), "done=-1 is out of range: from 0"),
        ((float("nan"),), "done=nan is out of range"),
        ((2**60,), "out of range"),
        (("1",), "done='1' is not a number"),
        ((True,), "done=True is not a number"),
        ((3, 2), "done=3 is more than total=2"),
        ((0, float("inf")), "total=inf is out of range"),
        ((0, 1, 7), "message=7 is not text"),
    ],
)
def test_what_is_no_progress(given: tuple[Any, ...], why: str) -> None:
    with pytest.raises(UsageError, match=why.replace("(", r"\(")):
        write_progress(a_run(), *given)


@given(st.integers(0, 2**52) | st.floats(0, 1e9), st.none() | st.integers(0, 2**53), st.text(max_size=2000))
def test_it_comes_back(done: float, total: int | None, message: str) -> None:
    if total is not None and done > total:
        done, total = total, int(done) + 1
    progress = json.loads(write_progress(a_run(), done, total, message))
    assert (progress["done"], progress["total"], progress["attempt"]) == (done, total, 2)
    assert len(progress["message"]) < 600
    assert show_progress(progress)


def test_as_people_read_it() -> None:
    assert show_progress({"done": 45, "total": 120, "message": "importing"}) == "45 of 120 (37 %), importing"
    assert show_progress({"done": 1200, "total": None, "message": ""}) == "1,200"
    assert show_progress({"done": 0, "total": 0}) == "0 of 0"
