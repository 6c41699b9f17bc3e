"""Whatever a handler returns, raises or says, it is stored safely and strands no job."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from tests.support.engine import Engine

from rota.engine.context import Context
from rota.model.retry import Retry


@dataclass
class Point:
    x: int
    y: float


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __repr__


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


class Loop(dict[str, Any]):
    def __init__(self) -> None:
        super().__init__(self=self)


PLAIN: list[tuple[Any, Any]] = [
    (0, 0),
    (False, False),
    ("", ""),
    ([], []),
    ({"a": [1, 2.5, None, "ü\u2028"]}, {"a": [1, 2.5, None, "ü\u2028"]}),
    (10**30, 10**30),
    (Point(1, 2.0), {"x": 1, "y": 2.0}),
    (UUID(int=1), str(UUID(int=1))),
    (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
    *[(text, text) for text in ('"', "\\", '\\"', '\\\\"\\', "NULL", "{a,b}", "}", "a,b", " ", "line\nbreak\ttab\r", "'", "%s")],
]
ODD: list[Any] = [
    math.nan, -math.inf, [1e308 * 10], b"\xff\x00", "\x00", "\ud800", {"\x00": "\ud800"}, nested(5000), nested(500), Loop(),
    object(), Unprintable(), {1: 2, (3, 4): 5}, {1, 2}, Decimal("NaN"), "x" * 10_000_000, ["\ud83d"] * 100_000, lambda: 1,
    "\\u0000", "\\\x00",
]  # fmt: skip


async def test_plain_results_come_back(engine: Engine) -> None:
    @engine.task
    async def work(n: int) -> Any:
        return PLAIN[n][0]

    async with engine.worker():
        ids = [engine.enqueue(work, {"n": n}) for n in range(len(PLAIN))]
        await engine.ended(*ids)
    assert [engine.job(id).result for id in ids] == [stored for _, stored in PLAIN]


@pytest.mark.req("Q15")
@pytest.mark.fault(11)
@pytest.mark.parametrize("by", ["async", "sync", "transaction"])
async def test_odd_results_are_stored_somehow(engine: Engine, by: str) -> None:
    @engine.task(name="async")
    async def work(n: int) -> Any:
        return ODD[n]

    @engine.task(name="sync")
    def work_in_thread(n: int) -> Any:
        return ODD[n]

    @engine.task(name="transaction")
    async def transact(ctx: Context, n: int) -> None:
        async with ctx.transaction():
            ctx.result = ODD[n]

    async with engine.worker():
        ids = [engine.enqueue(by, {"n": n}, max_attempts=1) for n in range(len(ODD))]
        await engine.ended(*ids)
    results = [engine.job(id).result for id in ids]
    assert all(result is not None for result in results)
    assert max(len(json.dumps(result)) for result in results) <= 2 * 64 * 1024
    huge = results[[isinstance(value, str) and len(value) > 10**6 for value in ODD].index(True)]
    assert (huge["truncated"], huge["bytes"]) == (True, 10_000_002)
    # They can be read by anything that reads JSON in SQL.
    assert engine.count("rota.run WHERE result::jsonb IS NULL") == 0


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message")


class Surrogate(Exception): ...


def circular() -> Exception:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    return one


ERRORS: list[Callable[[], BaseException]] = [
    Silent, circular, KeyboardInterrupt, SystemExit, StopIteration, StopAsyncIteration, asyncio.CancelledError, MemoryError,
    RecursionError, lambda: Surrogate("\ud800 \x00"), lambda: ValueError("x" * 10_000_000), lambda: ValueError(Unprintable()),
    lambda: ExceptionGroup("many", [ValueError("\ud800")] * 1000), lambda: BaseExceptionGroup("worse", [SystemExit(1)]),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), lambda: GeneratorExit("not a generator"),
]  # fmt: skip


@pytest.mark.req("Q07", "Q15")
@pytest.mark.fault(11)
@pytest.mark.parametrize("by", ["async", "sync"])
async def test_odd_errors_fail_the_run_and_nothing_else(engine: Engine, by: str) -> None:
    @engine.task(name="async")
    async def work(n: int) -> None:
        raise ERRORS[n]()

    @engine.task(name="sync")
    def work_in_thread(n: int) -> None:
        raise ERRORS[n]()

    @engine.task
    async def fine() -> None: ...

    async with engine.worker(concurrency=2):
        ids = [engine.enqueue(by, {"n": n}, max_attempts=1) for n in range(len(ERRORS))]
        await engine.ended(*ids, state="failed")
        await engine.ended(*[engine.enqueue(fine) for _ in range(10)])
    for id in ids:
        error = engine.job(id).last_error
        assert error["type"]
        assert len(json.dumps(error)) < 400_000
    assert engine.count("rota.run WHERE error::jsonb IS NULL AND outcome = 'failed'") == 0


@pytest.mark.fault(11)
async def test_an_error_shows_where_it_came_from(engine: Engine) -> None:
    @engine.task(retry=Retry(max_attempts=1))
    async def work() -> None:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error

    async with engine.worker():
        id = engine.enqueue(work, max_attempts=1)
        await engine.ended(id, state="failed")
    error = engine.job(id).last_error
    assert (error["type"], error["message"]) == ("ValueError", "second")
    assert error["traceback"].lstrip().startswith(f'File "{__file__}"'), "not with frames of ours"
    assert [(cause["type"], cause["message"]) for cause in error["causes"]] == [("KeyError", "'first'")]


@pytest.mark.fault(11)
async def test_a_payload_that_no_longer_fits_fails_its_job(engine: Engine) -> None:
    @engine.task
    async def work(n: int) -> None: ...

    async with engine.worker():
        ids = [engine.enqueue(work, payload, max_attempts=1) for payload in ({}, {"n": "x"}, {"n": 1, "m": 2})]
        await engine.ended(*ids, state="failed")
        await engine.ended(engine.enqueue(work, {"n": 1}))
    assert [engine.job(id).last_error["type"] for id in ids] == ["PayloadError"] * 3


@pytest.mark.req("Q15")
@pytest.mark.fault(11)
async def test_what_cannot_be_recorded_in_full_is_recorded_all_the_same(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should the sanitising ever miss something, one run must not keep a worker from recording any other."""

    @engine.task
    async def work(n: int) -> int:
        return n

    monkeypatch.setattr("rota.engine.executor.encode_result", lambda value: "not JSON" if value == 3 else str(value))
    async with engine.worker():
        ids = [engine.enqueue(work, {"n": n}) for n in range(8)]
        await engine.ended(*ids)
    assert [engine.job(id).result for id in ids] == [0, 1, 2, None, 4, 5, 6, 7]
    assert "could not be recorded in full" in engine.job(ids[3]).last_error["message"]
