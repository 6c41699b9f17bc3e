"""Jobs of a task with a limit are held until they are admitted, whichever way they come in; all others are not touched by it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.support import jobs as given

from rota import Rota
from rota.control import service
from rota.model.filters import JobFilter
from rota.store import tasks
from rota.task import Task

pytestmark = pytest.mark.req("S09")

Conn = psycopg.Connection[Any]
AConn = psycopg.AsyncConnection[Any]


@pytest.fixture
def app(dsn: str, conn: Conn) -> Iterator[Rota]:
    """An application with a task that has a limit and one that has none, both known to the database."""
    with Rota(dsn) as app:

        @app.task(max_concurrency=2)
        def narrow(n: int = 0) -> None: ...

        @app.task
        def wide(n: int = 0) -> None: ...

        tasks.sync(conn, tasks=app.tasks.values(), queues=["default"])
        yield app


@pytest.fixture(params=["narrow", "wide"])
def task(app: Rota, request: pytest.FixtureRequest) -> Task[..., None]:
    """One of the two."""
    return Task(app.tasks[request.param], app._intake)


def state(task: Task[..., None]) -> tuple[bool, str]:
    """What a due job of the task is stored with."""
    return (True, "held") if task.name == "narrow" else (False, "queued")


def stored(conn: Conn) -> list[tuple[bool, str]]:
    return conn.execute("SELECT limited, state FROM rota.job ORDER BY id").fetchall()


async def test_one(conn: Conn, task: Task[..., None]) -> None:
    await task.aenqueue(1)
    await task.using(key="k").aenqueue(1)
    assert stored(conn) == [state(task)] * 2


def test_one_in_the_callers_transaction(conn: Conn, task: Task[..., None]) -> None:
    with conn.transaction():
        task.using(conn=conn).enqueue(1)
        task.using(conn=conn, key="k").enqueue(1)
    assert stored(conn) == [state(task)] * 2


@pytest.mark.parametrize("count", [3, 100], ids=["by a statement", "by COPY"])
def test_many(app: Rota, conn: Conn, task: Task[..., None], count: int) -> None:
    app.enqueue_many(task.job(n) for n in range(count))
    assert stored(conn) == [state(task)] * count


def test_many_that_are_not_due(app: Rota, conn: Conn, task: Task[..., None]) -> None:
    app.enqueue_many(task.using(delay="1h").job(n) for n in range(60))
    assert stored(conn) == [(task.name == "narrow", "delayed")] * 60


def test_by_sql(conn: Conn, task: Task[..., None]) -> None:
    given.enqueue(conn, task.name)
    given.enqueue(conn, task.name, delay=timedelta(hours=1))
    assert stored(conn) == [state(task), (task.name == "narrow", "delayed")]


def test_one_that_waits_for_a_parent(app: Rota, conn: Conn, task: Task[..., None]) -> None:
    parent = app.enqueue("wide")
    child = task.using(parents=[parent]).enqueue()
    worker = given.start_worker(conn)
    [(id, token)] = given.claim(conn, worker)
    assert conn.execute("SELECT limited, state FROM rota.job WHERE id = %s", [child.id]).fetchone() == (
        task.name == "narrow",
        "waiting",
    )
    given.finish(conn, id, token, worker, "completed")
    assert stored(conn) == [state(task)]


async def test_a_retry(conn: Conn, aconn: AConn, task: Task[..., None]) -> None:
    id = (await task.using(delay="1h").aenqueue()).id
    assert (await service.retry_job(aconn, id)).state == "queued"
    assert stored(conn) == [state(task)], "one that was not due"
    assert (await service.retry_job(aconn, id)).state == "queued"
    assert stored(conn) == [state(task)], "one that was due already"
    await service.cancel_job(aconn, id)
    assert (await service.retry_job(aconn, id)).state == "queued"
    assert stored(conn) == [state(task)], "one that had ended"


async def test_a_retry_goes_by_the_limit_of_today(conn: Conn, aconn: AConn, app: Rota) -> None:
    ids = [given.enqueue(conn, name) for name in ("narrow", "wide")]
    for id in ids:
        await service.cancel_job(aconn, id)
    conn.execute("UPDATE rota.task SET max_concurrency = CASE name WHEN 'wide' THEN 1 END")
    for id in ids:
        await service.retry_job(aconn, id)
    assert stored(conn) == [(False, "queued"), (True, "held")]


async def test_users_see_it_as_queued(conn: Conn, aconn: AConn, app: Rota) -> None:
    id = given.enqueue(conn, "narrow")
    waiting = given.enqueue(conn, "wide", parents=[id])
    assert (await service.get_job(aconn, id)).job.state == "queued"
    assert await given.list_ids(aconn, states=("queued",)) == [id]
    assert await given.list_ids(aconn, states=("queued", "waiting")) == [waiting, id]
    assert await given.list_ids(aconn, states=("running", "waiting")) == [waiting]
    assert (await service.count_jobs(aconn, JobFilter(states=("queued",)))).count == 1
    [queue] = await service.list_queues(aconn)
    assert (queue.ready.count, queue.held.count, queue.delayed.count) == (0, 1, 0)
    assert await service.cancel_jobs(aconn, JobFilter(states=("queued",))) == service.Bulk(1, 0)
    assert (await service.get_job(aconn, id)).job.state == "canceled"
