"""Enqueues that meet: many with one key, batches that lock the same keys, answers that never arrive."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from tests.support.postgres import Databases
from tests.support.proxy import Proxy
from tests.support.wait import PATIENCE_S, wait_until

from rota import Enqueued, Rota
from rota.config import load_settings
from rota.errors import DatabaseError

INSERTERS = 64


@pytest.fixture
def app(dsn: str) -> Iterator[Rota]:
    with Rota(dsn) as app:
        yield app


@pytest.fixture
def work(app: Rota) -> Any:
    @app.task
    def work(number: int = 0) -> None: ...

    return work


def stored(conn: psycopg.Connection[Any]) -> list[Any]:
    return [row[0] for row in conn.execute("SELECT id FROM rota.job ORDER BY id")]


@pytest.mark.fault(12)
@pytest.mark.req("Q03", "Q20")
@pytest.mark.parametrize("bulk", [False, True], ids=["one", "many"])
def test_64_inserters_of_one_key_half_roll_back(app, work, conn, dsn, bulk):
    start = threading.Barrier(INSERTERS)

    def insert(number: int) -> Enqueued | None:
        with psycopg.connect(dsn) as own:
            own.execute("SELECT 1")
            start.wait(PATIENCE_S)
            if bulk:
                (made,) = app.enqueue_many([work.using(key="the one").job(7)], conn=own)
            else:
                made = work.using(key="the one", conn=own).enqueue(7)
            if number % 2:
                own.rollback()
                return None
            own.commit()
            return made

    with ThreadPoolExecutor(INSERTERS) as threads:
        made = [each for each in threads.map(insert, range(INSERTERS)) if each is not None]
    (job,) = stored(conn)
    assert {each.id for each in made} == {job}
    assert sum(each.created for each in made) == 1
    assert conn.execute("SELECT job_id FROM rota.job_key").fetchall() == [(job,)]


@pytest.mark.fault(12)
@pytest.mark.req("Q03", "Q20")
def test_when_all_roll_back_the_key_is_free(work, conn, dsn):
    def insert(_: int) -> None:
        with psycopg.connect(dsn) as own:
            work.using(key="the one", conn=own).enqueue(7)
            own.rollback()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(insert, range(16)))
    assert stored(conn) == []
    assert work.using(key="the one").enqueue(8).created


@pytest.mark.fault(17)
def test_batches_with_the_same_keys_in_any_order_do_not_deadlock(app, work, conn, dsn):
    start = threading.Barrier(4)

    def insert(turn: int) -> list[Enqueued]:
        keys = list(range(40))[turn:] + list(range(40))[:turn]
        with psycopg.connect(dsn) as own:
            start.wait(PATIENCE_S)
            return [each for _ in range(5) for each in app.enqueue_many([work.using(key=f"k{n}").job(n) for n in keys], conn=own)]

    with ThreadPoolExecutor(4) as threads:
        made = [each for batch in threads.map(insert, (0, 13, 26, 39)) for each in batch]
    assert {each.id for each in made} == set(stored(conn))
    assert sum(each.created for each in made) == 40


@pytest.mark.fault(8)
@pytest.mark.req("Q03")
@pytest.mark.parametrize("bulk", [False, True], ids=["one", "many"])
def test_an_answer_that_never_arrives_and_a_client_that_tries_again(postgres: Databases, dsn, conn, bulk):
    with Proxy(postgres.tcp_dsn(conn.info.dbname)) as proxy:
        settings = load_settings(database_url=proxy.dsn, database_connect_timeout_s=5)
        with Rota(settings=settings) as app:

            @app.task
            def work(number: int) -> None: ...

            keyed = [work.using(key=f"welcome:{n}").job(n) for n in (1, 2)] if bulk else [work.using(key="welcome:1").job(1)]
            work.enqueue(0)  # connected, and used just now: nobody looks whether the connection is alive
            proxy.cut_after(b"COMMIT" if bulk else b"welcome:1")
            with pytest.raises(DatabaseError, match="PostgreSQL"):
                app.enqueue_many(keyed)
            assert proxy.has_cut
            wait_until(lambda: len(stored(conn)) == 1 + len(keyed), what="the commit that nobody heard of")
            again = app.enqueue_many(keyed)
            assert [each.created for each in again] == [False] * len(keyed)
            assert [each.id for each in again] == stored(conn)[1:]


@pytest.mark.req("Q03")
def test_a_key_that_is_being_inserted_is_waited_for(work, conn, dsn):
    """Whoever comes second knows only at the end of the first transaction whose job it is."""
    with psycopg.connect(dsn) as first, ThreadPoolExecutor(1) as thread:
        mine = work.using(key="k", conn=first).enqueue(1)
        second = thread.submit(work.using(key="k").enqueue, 1)
        wait_until(
            lambda: (
                conn.execute(
                    "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
                ).fetchone()
                is not None
            )
        )
        assert not second.done()
        first.commit()
        assert second.result(20) == Enqueued(mine.id, created=False)
