"""An enqueue is part of the caller's own transaction, whatever library the connection comes from."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.support.callers import CALLERS, Caller, django_connection

from rota import Rota
from rota.errors import DatabaseError, DuplicateKey, KeyReused, ParentNotFound, UsageError
from rota.model.ids import new_id
from rota.store.jobs import COPY_FROM

MANY = COPY_FROM * 3

pytestmark = pytest.mark.req("Q20")


@pytest.fixture
def app(dsn: str) -> Iterator[Rota]:
    with Rota(dsn) as app:
        yield app


@pytest.fixture
def work(app: Rota) -> Any:
    @app.task
    def work(number: int, text: str = "") -> None: ...

    return work


@pytest.fixture(params=CALLERS)
def caller(request: pytest.FixtureRequest, dsn: str, conn: psycopg.Connection[Any]) -> Iterator[Caller]:
    conn.execute("CREATE TABLE note (text text)")
    with CALLERS[request.param](dsn) as caller:
        yield caller


@pytest.fixture
def stored(conn: psycopg.Connection[Any]) -> Any:
    """What others see: the payloads' numbers, and the rows of the application."""

    def look() -> tuple[list[int], int]:
        numbers = [row[0]["number"] for row in conn.execute("SELECT payload FROM rota.job ORDER BY id")]
        return numbers, conn.execute("SELECT count(*) FROM note").fetchone()[0]

    return look


def test_committed_together(caller, work, stored, conn):
    caller.write()
    made = caller.enqueue(work, 7)
    assert made.created
    assert stored() == ([], 0)
    caller.commit()
    assert stored() == ([7], 1)
    assert conn.execute("SELECT id, state, queue FROM rota.job").fetchone() == (made.id, "queued", "default")


def test_rolled_back_the_job_never_existed(caller, work, stored):
    caller.write()
    caller.enqueue(work, 7)
    caller.rollback()
    assert stored() == ([], 0)


def test_as_the_first_statement_of_the_transaction(caller, work, stored):
    caller.enqueue(work, 7)
    assert stored() == ([], 0)
    caller.rollback()
    assert stored() == ([], 0)


def test_as_the_only_statement_of_the_transaction(caller, work, stored):
    caller.enqueue(work, 7)
    caller.commit()
    assert stored() == ([7], 0)


@pytest.mark.req("Q03")
def test_a_key_gives_the_first_job_back(caller, work, stored):
    keyed = work.using(key="seven")
    first, second = caller.enqueue(keyed, 7), caller.enqueue(keyed, 7)
    assert (first.created, second.created) == (True, False)
    assert first.id == second.id
    caller.write()
    caller.commit()
    assert stored() == ([7], 1)


@pytest.mark.req("Q03")
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"key": "seven"}, KeyReused),
        ({"key": "eight", "strict": True}, DuplicateKey),
        ({"parents": [new_id()]}, ParentNotFound),
    ],
)
def test_a_refusal_leaves_the_transaction_usable(caller, work, stored, options, error):
    caller.enqueue(work.using(key="seven"), 7)
    caller.enqueue(work.using(key="eight"), 8)
    with pytest.raises(error):
        caller.enqueue(work.using(**options), 8)
    caller.write()
    caller.commit()
    assert stored() == ([7, 8], 1)


@pytest.mark.parametrize("number", [3, MANY])
def test_many_committed(caller, app, work, stored, number):
    made = caller.enqueue_many(app, [work.job(n, "\\ \t\n\"'%s $1 é😀") for n in range(number)])
    assert stored() == ([], 0)
    caller.write()
    caller.commit()
    assert stored() == (list(range(number)), 1)
    assert len({each.id for each in made}) == number


@pytest.mark.parametrize("number", [3, MANY])
def test_many_rolled_back(caller, app, work, stored, number):
    caller.enqueue_many(app, [work.job(n) for n in range(number)])
    caller.rollback()
    assert stored() == ([], 0)


@pytest.mark.parametrize("number", [3, MANY])
def test_many_with_one_refused_stores_none_and_leaves_the_transaction_usable(caller, app, work, stored, number):
    caller.write()
    caller.enqueue(work.using(key="seven"), 7)
    jobs = [work.job(n) for n in range(number)]
    with pytest.raises(KeyReused):
        caller.enqueue_many(app, [*jobs, work.using(key="new").job(1), work.using(key="seven").job(8)])
    caller.write()
    caller.commit()
    assert stored() == ([7], 2)


@pytest.mark.req("Q03", "Q19")
def test_many_with_keys_and_parents(caller, app, work, stored, conn):
    known = caller.enqueue(work.using(key="known"), 0)
    root = work.using(key="known").job(0)
    left, right = work.job(1).after(root), work.job(2).after(root)
    last = work.job(3).after(left, right)
    made = caller.enqueue_many(app, [last, right, left, root])
    assert [each.created for each in made] == [True, True, True, False]
    assert made[3].id == known.id
    caller.commit()
    waits = dict(conn.execute("SELECT id, pending_parents FROM rota.job WHERE state = 'waiting'").fetchall())
    assert waits == {made[0].id: 2, made[1].id: 1, made[2].id: 1}
    edges = set(conn.execute("SELECT parent_id, child_id FROM rota.job_edge").fetchall())
    assert edges == {
        (known.id, made[1].id),
        (known.id, made[2].id),
        (made[1].id, made[0].id),
        (made[2].id, made[0].id),
    }


class TestAutocommit:
    """Connections without an open transaction: each call is one of its own."""

    @pytest.mark.parametrize("number", [1, MANY])
    def test_psycopg(self, app, work, dsn, conn, number):
        with psycopg.connect(dsn, autocommit=True) as own:
            work.using(conn=own, key="seven").enqueue(7)
            with pytest.raises(KeyReused):
                app.enqueue_many([*(work.job(n) for n in range(number)), work.using(key="seven").job(8)], conn=own)
            assert own.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
            assert conn.execute("SELECT count(*) FROM rota.job").fetchone() == (1,)
            app.enqueue_many([work.job(n) for n in range(number)], conn=own)
            assert conn.execute("SELECT count(*) FROM rota.job").fetchone() == (1 + number,)

    def test_in_a_pipeline_which_has_no_copy(self, app, work, dsn, conn):
        with psycopg.connect(dsn, autocommit=True) as own:
            with own.pipeline():
                work.using(conn=own, key="seven").enqueue(7)
                app.enqueue_many([work.job(n) for n in range(MANY)], conn=own)
            assert conn.execute("SELECT count(*) FROM rota.job").fetchone() == (1 + MANY,)

    @pytest.mark.parametrize("number", [1, MANY])
    def test_inside_a_block(self, app, work, dsn, conn, number):
        with psycopg.connect(dsn, autocommit=True) as own:
            with own.transaction():
                work.using(conn=own, key="seven").enqueue(7)
                with pytest.raises(KeyReused):
                    app.enqueue_many([*(work.job(n) for n in range(number)), work.using(key="seven").job(8)], conn=own)
                with own.transaction(force_rollback=True):
                    app.enqueue_many([work.job(n) for n in range(number)], conn=own)
                assert conn.execute("SELECT count(*) FROM rota.job").fetchone() == (0,)
            assert conn.execute("SELECT count(*) FROM rota.job").fetchone() == (1,)

    @pytest.mark.parametrize("number", [1, MANY])
    async def test_asyncpg(self, app, work, dsn, conn, number):
        asyncpg = pytest.importorskip("asyncpg")
        own = await asyncpg.connect(dsn)
        await work.using(conn=own, key="seven").aenqueue(7)
        with pytest.raises(KeyReused):
            await app.aenqueue_many([*(work.job(n) for n in range(number)), work.using(key="seven").job(8)], conn=own)
        assert not own.is_in_transaction()
        assert conn.execute("SELECT count(*) FROM rota.job").fetchone() == (1,)
        await app.aenqueue_many([work.job(n) for n in range(number)], conn=own)
        assert conn.execute("SELECT count(*) FROM rota.job").fetchone() == (1 + number,)
        await own.close()

    def test_django(self, app, work, dsn, conn):
        from django.db import transaction

        with django_connection(dsn) as own:
            work.using(conn=own).enqueue(1)
            assert conn.execute("SELECT count(*) FROM rota.job").fetchone() == (1,)
            with transaction.atomic(using=own.alias):
                work.using(conn=own.alias).enqueue(2)
                app.enqueue_many([work.job(n) for n in range(MANY)], conn=own.alias)
                transaction.set_rollback(True, using=own.alias)
            assert conn.execute("SELECT count(*) FROM rota.job").fetchone() == (1,)

    def test_sqlalchemy(self, app, work, dsn, conn):
        library = pytest.importorskip("sqlalchemy")
        engine = library.create_engine(
            "postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=library.NullPool, isolation_level="AUTOCOMMIT"
        )
        with engine.connect() as own:
            work.using(conn=own).enqueue(1)
            app.enqueue_many([work.job(n) for n in range(MANY)], conn=own)
            assert conn.execute("SELECT count(*) FROM rota.job").fetchone() == (1 + MANY,)


class TestWrongConnections:
    def test_an_async_one_for_enqueue(self, app, work, dsn):
        async def connect() -> None:
            async with await psycopg.AsyncConnection.connect(dsn) as own:
                with pytest.raises(UsageError, match=r"conn=psycopg.*AsyncConnection is async: use aenqueue"):
                    work.using(conn=own).enqueue(1)
                with pytest.raises(UsageError, match="is async: use aenqueue or aenqueue_many"):
                    app.enqueue_many([work.job(1)], conn=own)

        asyncio.run(connect())

    async def test_a_sync_one_for_aenqueue(self, app, work, dsn):
        with psycopg.connect(dsn) as own:
            with pytest.raises(UsageError, match=r"conn=psycopg.*Connection is sync: use enqueue"):
                await work.using(conn=own).aenqueue(1)
            with pytest.raises(UsageError, match="is sync: use enqueue or enqueue_many"):
                await app.aenqueue_many([work.job(1)], conn=own)
        with pytest.raises(UsageError, match="conn='default' is sync"):
            await work.using(conn="default").aenqueue(1)

    async def test_sqlalchemy_the_wrong_way_round(self, app, work, dsn):
        pytest.importorskip("greenlet")
        library = pytest.importorskip("sqlalchemy")
        ext = pytest.importorskip("sqlalchemy.ext.asyncio")
        engine = ext.create_async_engine(
            "postgresql+psycopg://", async_creator=lambda: psycopg.AsyncConnection.connect(dsn), poolclass=library.NullPool
        )
        async with ext.AsyncSession(engine) as session:
            with pytest.raises(UsageError, match="AsyncSession is async: use aenqueue"):
                work.using(conn=session).enqueue(1)
        with pytest.raises(UsageError, match=r"AsyncEngine.* is not a connection"):
            await work.using(conn=engine).aenqueue(1)

    @pytest.mark.parametrize("thing", [object(), 7, psycopg, {"host": "x"}], ids=["object", "number", "module", "mapping"])
    async def test_what_is_no_connection(self, app, work, thing):
        with pytest.raises(UsageError, match="is not a connection that Rota can use: give a connection of psycopg"):
            work.using(conn=thing).enqueue(1)
        with pytest.raises(UsageError, match="is not a connection that Rota can use"):
            await work.using(conn=thing).aenqueue(1)

    def test_engines_and_other_databases(self, app, work, dsn):
        library = pytest.importorskip("sqlalchemy")
        engine = library.create_engine("sqlite://")
        with pytest.raises(UsageError, match="Engine is not a connection"):
            work.using(conn=engine).enqueue(1)
        with engine.connect() as own, pytest.raises(UsageError, match=r"over sqlite3.Connection is not a connection"):
            work.using(conn=own).enqueue(1)
        engine.dispose()

    def test_an_alias_that_django_does_not_have(self, app, work, dsn):
        with (
            django_connection(dsn),
            pytest.raises(UsageError, match=r"conn='elsewhere' is no alias of settings.DATABASES: .*rota_tests"),
        ):
            work.using(conn="elsewhere").enqueue(1)

    def test_one_that_is_closed(self, app, work, dsn):
        own = psycopg.connect(dsn)
        own.close()
        with pytest.raises(DatabaseError, match="PostgreSQL cannot be reached: the connection is closed"):
            work.using(conn=own).enqueue(1)

    def test_errors_of_the_callers_transaction_stay_what_they_are(self, app, work, dsn):
        with psycopg.connect(dsn) as own:
            with pytest.raises(psycopg.errors.DivisionByZero):
                own.execute("SELECT 1/0")
            with pytest.raises(psycopg.errors.InFailedSqlTransaction):
                work.using(conn=own).enqueue(1)
            own.rollback()


def test_a_transaction_of_django_that_is_forgotten_is_warned_of_once(app, work, dsn, conn, recwarn):
    from django.db import transaction

    with django_connection(dsn) as own, transaction.atomic(using=own.alias):
        with pytest.warns(RuntimeWarning, match="outside the open transaction of Django"):
            work.enqueue(1)
        work.enqueue(2)
    assert conn.execute("SELECT count(*) FROM rota.job").fetchone() == (2,)
