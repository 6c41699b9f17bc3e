"""Calls that a type checker must accept, and calls it must refuse: those end in `# E`.

Never imported: pyright and mypy read it, and tests/unit/test_typing.py compares the lines they complain about.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, assert_type
from uuid import UUID

from pydantic import BaseModel

from rota import Context, Enqueued, NewJob, Retry, Rota, Task

app = Rota()


class Order(BaseModel):
    number: int


@app.task
def bare(user_id: int, lang: str = "en") -> str:
    return f"{user_id} {lang}"


@app.task
async def bare_async(ctx: Context, user_id: int, *, lang: str = "en") -> str:
    return f"{ctx.attempt} {user_id} {lang}"


@app.task(queue="mail", retry=Retry(max_attempts=5, base="1m", cap="30m"), timeout="30s")
async def configured(ctx: Context, user_id: int, tags: list[str]) -> None: ...


@app.task(name="renamed", max_attempts=1, isolate=True, priority=-5)
def without_context(at: datetime, ref: UUID | None = None) -> None: ...


@app.task
def with_model(ctx: Context, order: Order) -> None: ...


@app.task
def nothing(ctx: Context) -> None: ...


@app.task
def loose(value: Any, number: int = 1) -> None: ...


@app.task()
def loosest(value: object) -> None: ...


async def good(id: UUID) -> None:
    assert_type(bare.enqueue(7), Enqueued)
    bare.enqueue(user_id=7)
    bare.enqueue(7, "de")
    bare.enqueue(7, lang="de")
    assert_type(await bare_async.aenqueue(7, lang="de"), Enqueued)
    assert_type(bare.job(7), NewJob)
    configured.enqueue(7, ["a"])
    await configured.aenqueue(user_id=7, tags=[])
    without_context.enqueue(datetime.now(UTC))
    without_context.enqueue(at=datetime.now(UTC), ref=id)
    with_model.enqueue(Order(number=1))
    with_model.enqueue(order=Order(number=1))
    nothing.enqueue()
    loose.enqueue(1)
    loose.enqueue(value=1, number=2)
    loosest.enqueue(value="x")
    assert_type(bare(7), str)
    bare.using(delay="5m", priority=3, queue="mail", key="k", key_ttl=timedelta(hours=1), strict=True).enqueue(7)
    bare.using(run_at=datetime.now(UTC), max_attempts=3, retry=Retry(), timeout=30).using(owner="me").enqueue(7)
    first = bare.using(parents=[id, nothing.enqueue()], on_parent_failure="ignore").enqueue(7)
    await bare.using(conn=object(), triggered_by={"kind": "manual"}).aenqueue(user_id=7)
    assert_type(first.id, UUID)
    assert_type(first.created, bool)
    app.enqueue_many([bare.job(1), nothing.job().after(bare.job(2), id)])
    await app.aenqueue_many(bare.job(number) for number in range(3))
    app.enqueue("bare", {"user_id": 7}, key="k")


async def bad(id: UUID) -> None:
    bare.enqueue()  # E
    bare.enqueue("7")  # E
    bare.enqueue(user_id="7")  # E
    bare.enqueue(usr_id=7)  # E
    bare.enqueue(7, "de", 1)  # E
    bare.enqueue(7, lang=None)  # E
    bare.job("7")  # E
    await bare_async.aenqueue()  # E
    await bare_async.aenqueue(7, "de")  # E
    await bare_async.aenqueue(user_id="7")  # E
    configured.enqueue(7, "a")  # E
    configured.enqueue(7, [1])  # E
    configured.enqueue(7)  # E
    without_context.enqueue("2024-01-01")  # E
    without_context.enqueue(datetime.now(UTC), ref=7)  # E
    with_model.enqueue({"number": 1})  # E
    nothing.enqueue(1)  # E
    bare.using(dealy="5m")  # E
    bare.using(delay=[]).enqueue(7)  # E
    bare.using(delay="5m").enqueue("7")  # E
    await bare.using(key="k").aenqueue(user_id=None)  # E
    bare.using(on_parent_failure="explode")  # E
    bare.using(run_at="tomorrow")  # E
    bare.using(retry=3)  # E
    app.enqueue_many([bare])  # E
    app.enqueue("bare", {"user_id": 7}, keyy="k")  # E


@app.task(timeout=None, quueue="mail")  # E
def misspelled() -> None: ...


by_name: Task[[int], str] = Task.__new__(Task)
by_name.enqueue(1)
by_name.enqueue("1")  # E
