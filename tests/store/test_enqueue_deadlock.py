"""An enqueue with parents that PostgreSQL ends because of a deadlock is done again, unless the transaction is the caller's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.support.wait import until

from rota import Rota

pytestmark = [pytest.mark.req("Q19"), pytest.mark.fault(17)]


class Rival:
    """Somebody who locks two jobs, the later first: an enqueue that has the earlier one waits for them, and they for it."""

    def __init__(self, dsn: str, jobs: list[UUID]) -> None:
        self.earlier, self.later = sorted(jobs)
        self.conn = psycopg.connect(dsn)
        self.conn.execute("SET deadlock_timeout = '60 s'")  # the other one finds out, and is ended
        self.lock(self.later)

    def lock(self, job: UUID) -> None:
        self.conn.execute("SELECT 1 FROM rota.job WHERE id = %s FOR UPDATE", [job])

    async def cross(self) -> None:
        """Ask for the other's lock once they wait for ours; when we have it, they have been ended."""
        with psycopg.connect(self.conn.info.dsn, autocommit=True) as looking:
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            await until(lambda: looking.execute(waiting).fetchone() == (1,))
        await asyncio.to_thread(self.lock, self.earlier)
        self.conn.commit()
        self.conn.close()


@pytest.fixture
def app(dsn: str) -> Any:
    with Rota(dsn) as app:

        @app.task
        async def work() -> None: ...

        yield app


def parents_of(app: Rota) -> list[UUID]:
    return [job.id for job in app.enqueue_many([app.job("work") for _ in range(2)])]


def count(dsn: str) -> int:
    with psycopg.connect(dsn) as conn:
        row = conn.execute("SELECT count(*) FROM rota.job WHERE state = 'waiting'").fetchone()
        assert row is not None
        return row[0]  # type: ignore[no-any-return]


def one(app: Rota, parents: list[UUID], conn: Any = None) -> None:
    app.enqueue("work", parents=parents, conn=conn)


def many(app: Rota, parents: list[UUID], conn: Any = None) -> None:
    app.enqueue_many([app.job("work", parents=parents, key="k"), app.job("work", parents=parents)], conn=conn)


async def aone(app: Rota, parents: list[UUID]) -> None:
    await app.aenqueue("work", parents=parents)


async def amany(app: Rota, parents: list[UUID]) -> None:
    await app.aenqueue_many([app.job("work", parents=parents, key="k"), app.job("work", parents=parents)])


@pytest.mark.parametrize(("enqueue", "jobs"), [(one, 1), (many, 2)])
async def test_it_is_done_again(dsn: str, app: Rota, enqueue: Callable[..., None], jobs: int) -> None:
    parents = await asyncio.to_thread(parents_of, app)
    rival = Rival(dsn, parents)
    errors: list[BaseException] = []

    def attempt() -> None:
        try:
            enqueue(app, parents)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    await rival.cross()
    await asyncio.to_thread(thread.join)
    assert errors == []
    assert count(dsn) == jobs


@pytest.mark.parametrize(("enqueue", "jobs"), [(aone, 1), (amany, 2)])
async def test_from_an_event_loop_too(dsn: str, app: Rota, enqueue: Callable[..., Any], jobs: int) -> None:
    parents = await asyncio.to_thread(parents_of, app)
    rival = Rival(dsn, parents)
    await asyncio.gather(enqueue(app, parents), rival.cross())
    assert count(dsn) == jobs
    await app.aclose()


@pytest.mark.parametrize("enqueue", [one, many])
async def test_a_transaction_of_the_callers_own_is_theirs_to_begin_again(dsn: str, app: Rota, enqueue: Callable[..., None]) -> None:
    parents = await asyncio.to_thread(parents_of, app)
    rival = Rival(dsn, parents)

    def attempt() -> None:
        with psycopg.connect(dsn) as conn, pytest.raises(psycopg.errors.DeadlockDetected):
            enqueue(app, parents, conn)

    await asyncio.gather(asyncio.to_thread(attempt), rival.cross())
    assert count(dsn) == 0
