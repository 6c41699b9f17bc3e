"""The transport that there is, PostgreSQL, keeps what a transport promises, and nobody reaches round it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, get_type_hints
from uuid import UUID

import psycopg
import pytest
from tests.engine.transport_contract import LEASE_S, TransportContract, ended, new_job, party, take
from tests.support.jobs import declare

from rota.contrib.testing.clock import Clock
from rota.control import service
from rota.db.single import SingleConnections
from rota.engine import postgres, transport
from rota.engine.postgres import PostgresPulse, PostgresSession, PostgresTransport
from rota.store.intake import Intake

ENGINE = Path(postgres.__file__).parent
# The parts of the engine that know of jobs only what a session tells. A handler's own transaction (`context`) is PostgreSQL's by
# its very meaning.
BEHIND_THE_SEAM = ("claimer", "completer", "desk", "drain", "executor", "heartbeat", "holdings", "slots", "upkeep", "worker")


class PostgresPlace:
    """A database of the test's own."""

    def __init__(self, dsn: str, conn: psycopg.Connection[Any], *, pooled: bool) -> None:
        self.dsn = dsn
        self.pooled = pooled
        self.publisher = Intake(SingleConnections(dsn), ["default"])
        self._clock = Clock(conn)

    def transport(self, worker: UUID) -> PostgresTransport:
        return PostgresTransport(self.dsn, worker, versions={"work": "v1"}, pooled=self.pooled)

    def pass_time(self, seconds: float) -> None:
        self._clock.move(timedelta(seconds=seconds))

    async def cancel(self, id: UUID) -> None:
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as conn:
            await service.cancel_job(conn, id)


@pytest.fixture(params=["plain", "pooled"])
def place(request: pytest.FixtureRequest, dsn: str, conn: psycopg.Connection[Any]) -> Iterator[PostgresPlace]:
    """PostgreSQL as it is, and as behind a transaction pooler."""
    declare(conn, "work")
    place = PostgresPlace(dsn, conn, pooled=request.param == "pooled")
    yield place
    place.publisher.close()


class TestPostgresTransport(TransportContract):
    """The contract."""


@pytest.mark.req("C09", "Q06")
async def test_what_somebody_has_locked_is_said_to_be(place: PostgresPlace, dsn: str) -> None:
    await place.publisher.ainsert_many([new_job(), new_job()])
    async with party(place) as workers:
        session = await workers.join()
        runs = [ended(run, "completed") for run in await take(session, 2)]
        with psycopg.connect(dsn) as other:
            other.execute("SELECT FROM rota.job WHERE id = %s FOR UPDATE", [runs[0].id])
            assert await session.locked(runs) == {runs[0].id}
            with pytest.raises(psycopg.errors.LockNotAvailable) as error:
                await session.complete(runs)
            assert session.fault_of(error.value) == "locked"
        assert await session.complete(runs) == set()


@pytest.mark.req("C09")
async def test_what_cannot_be_stored_is_not_the_sessions_fault(place: PostgresPlace) -> None:
    await place.publisher.ainsert(new_job())
    async with party(place) as workers:
        session = await workers.join()
        [run] = await take(session)
        with pytest.raises(psycopg.Error) as error:
            await session.complete([ended(run, "completed", result="not JSON")])
        assert session.fault_of(error.value) == "refused"
        with pytest.raises(psycopg.Error) as error:
            await session.conn.execute("SELECT nothing")
        assert session.fault_of(error.value) == "denied"
        assert session.fault_of(psycopg.errors.ReadOnlySqlTransaction()) == "lost"
        assert await session.complete([ended(run, "completed", result=None)]) == set()


@pytest.mark.req("C09")
async def test_completions_are_one_statement_however_many(place: PostgresPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    await place.publisher.ainsert_many([new_job(n) for n in range(50)])
    async with party(place) as workers:
        session = await workers.join()
        sent: list[str] = []
        execute = psycopg.AsyncConnection.execute

        async def note(self: Any, query: Any, *args: Any, **options: Any) -> Any:
            sent.append(re.sub(r"--.*\n", "", query).split(maxsplit=1)[0])
            return await execute(self, query, *args, **options)

        monkeypatch.setattr(psycopg.AsyncConnection, "execute", note)
        runs = await session.claim("default", 50, lease_s=LEASE_S)
        assert (len(runs), sent) == (50, ["UPDATE"])
        sent.clear()
        await session.complete([ended(run, "completed") for run in runs])
    assert sent == (["SET", "WITH"] if place.pooled else ["WITH"])


@pytest.mark.req("C09")
@pytest.mark.parametrize(
    ("promise", "kept_by"),
    [
        (transport.Session, PostgresSession),
        (transport.Pulse, PostgresPulse),
        (transport.Transport, PostgresTransport),
        (transport.Publisher, Intake),
    ],
)
def test_it_has_every_method_as_it_is_promised(promise: type, kept_by: type) -> None:
    promised = {name: value for name, value in vars(promise).items() if inspect.isfunction(value) and not name.startswith("_")}
    assert promised
    for name, method in promised.items():
        kept = inspect.unwrap(getattr(kept_by, name))
        assert list(inspect.signature(kept).parameters) == list(inspect.signature(method).parameters), name
        assert get_type_hints(method).keys() == get_type_hints(kept).keys(), name


@pytest.mark.req("C09")
@pytest.mark.parametrize("part", BEHIND_THE_SEAM)
def test_nobody_reaches_round_it(part: str) -> None:
    tree = ast.parse((ENGINE / f"{part}.py").read_text("utf-8"))
    taken = {
        f"{node.module}.{name.name}" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names
    }  # fmt: skip
    forbidden = ("rota.store.runs", "rota.store.jobs", "rota.store.workers", "rota.store.tasks", "rota.store.jobs_change")
    assert [name for name in taken if name.startswith(forbidden)] == []
