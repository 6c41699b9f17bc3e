"""The server when its database goes: it says so, lives on, and is itself again when the database is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from fastapi import Depends, FastAPI
from psycopg_pool.base import AttemptWithBackoff
from tests.server.conftest import Serve
from tests.support import people
from tests.support.postgres import Databases, migrate
from tests.support.proxy import Proxy
from tests.support.serving import Serving, serving, settings_for
from tests.support.wait import EVERY_S, NEVER_S, PATIENCE_S, until

from rota import Rota
from rota.control import audit
from rota.db.embedded import EmbeddedPostgres
from rota.errors import DatabaseError
from rota.server import state
from rota.server.refusals import write_refusals
from rota.server.state import State, state_of

pytestmark = pytest.mark.req("H09")

Conn = psycopg.Connection[Any]
ADA = "ada@example.org"


async def ask(server: Serving, path: str = "/auth/me", **headers: str) -> tuple[int, Any]:
    async with server.client.get(path, headers=headers) as answer:
        return answer.status, await answer.json(content_type=None)


async def until_status(server: Serving, path: str, status: int, deadline_s: float = 30, **headers: str) -> Any:
    async with asyncio.timeout(deadline_s):
        while True:
            seen, said = await ask(server, path, **headers)
            if seen == status:
                return said
            assert seen in (200, 503), said
            await asyncio.sleep(EVERY_S)


@pytest.fixture
async def ada(server: Serving) -> dict[str, str]:
    await people.make(server, ADA, "admin")
    return await people.api_token(server, ADA)


CUT = b"""SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND pid <> pg_backend_pid()"""  # they end a moment later


async def test_no_request_fails_when_sessions_were_ended(server: Serving, ada: dict[str, str], conn: Conn) -> None:
    for path in ["/auth/me", "/api/admin/overview"] * 4:
        before = await asyncio.gather(*(ask(server, path, **ada) for _ in range(8)))
        assert conn.execute(CUT).fetchall()
        after = await asyncio.gather(*(ask(server, path, **ada) for _ in range(8)))
        assert {status for status, _ in (*before, *after)} == {200}


async def test_a_read_is_repeated_when_its_session_was_ended_meanwhile(server: Serving, ada: dict[str, str], conn: Conn) -> None:
    conn.execute("BEGIN")
    conn.execute("LOCK TABLE rota.queue")
    reading = asyncio.create_task(ask(server, "/api/admin/queues", **ada))
    await until(lambda: conn.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() == (1,))
    conn.execute(CUT)
    conn.execute("COMMIT")
    assert (await reading)[0] == 200


async def test_the_first_request_after_an_outage_waits(dsn: str, postgres: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AttemptWithBackoff, "INITIAL_DELAY", NEVER_S)  # what psycopg's pools would wait before another try
    monkeypatch.setattr(state, "WAIT_S", PATIENCE_S)
    with Proxy(postgres.tcp_dsn(urlsplit(dsn).path.lstrip("/"))) as proxy:
        async with serving(Rota(settings=settings_for(proxy.dsn))) as server:
            assert (await ask(server, "/readyz"))[0] == 200
            proxy.refuse()
            first = asyncio.create_task(ask(server, "/auth/me", Authorization="Bearer rota_x"))
            pool = server.state.connections._async_pools[asyncio.get_running_loop()]
            await until(lambda: pool.connect_error is not None)
            proxy.accept()
            assert (await first)[0] == 401


async def test_sessions_with_a_server_that_became_a_standby_are_replaced(serve: Serve) -> None:
    async with serve(database_pool_max=1) as server:

        async def ask_for_link() -> int:
            async with server.client.post("/auth/magic-link", json={"email": ADA}) as answer:
                return answer.status

        async with server.state.connection() as conn:
            await conn.execute("SET default_transaction_read_only = on")
        assert [await ask_for_link() for _ in range(3)] == [503, 200, 200]


async def test_what_cannot_be_recorded_later_is_logged_and_harms_no_request(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: Any) -> None:
        raise DatabaseError("it is away")

    monkeypatch.setattr(audit, "record_many", fail)
    async with serve() as server:
        for _ in range(2):
            async with server.client.get("/auth/me") as answer:
                assert answer.status == 401
        await write_refusals(server.state)
        assert "1 kinds of refused requests could not be recorded: it is away" in caplog.text
        async with server.client.get("/auth/me") as answer:
            assert answer.status == 401


async def test_a_statement_that_takes_too_long_is_given_up(server: Serving, ada: dict[str, str]) -> None:
    add_sleep(server.asgi)
    status, said = await ask(server, "/sleep")
    assert (status, said["code"]) == (503, "too_slow")
    assert "narrower filter" in said["detail"]
    assert (await ask(server, **ada))[0] == 200


def add_sleep(asgi: FastAPI) -> None:
    async def sleep(state: State = Depends(state_of)) -> None:  # noqa: B008
        async with state.connection() as conn:
            await conn.execute("SET statement_timeout = '100ms'")
            await conn.execute("SELECT pg_sleep(60)")

    asgi.add_api_route("/sleep", sleep)


class TestOwnServer:
    @pytest.fixture
    async def server(self, own_postgres: EmbeddedPostgres) -> AsyncIterator[Serving]:
        dsn = own_postgres.dsn(tcp=True)
        migrate(dsn)
        async with serving(Rota(settings=settings_for(dsn, database_connect_timeout_s=1))) as server:
            yield server

    async def test_a_restart(self, server: Serving, ada: dict[str, str], own_postgres: EmbeddedPostgres) -> None:
        assert (await ask(server, "/readyz"))[0] == 200
        await asyncio.to_thread(own_postgres.stop)
        said = await until_status(server, "/auth/me", 503, **ada)
        assert (said["code"], "127.0.0.1" in str(said)) == ("database", False)
        assert (await until_status(server, "/readyz", 503))["wrong"] == "the database cannot be reached"
        assert (await ask(server, "/healthz"))[0] == 200
        await asyncio.to_thread(own_postgres.start)
        await until_status(server, "/readyz", 200)
        await until_status(server, "/auth/me", 200, **ada)


async def test_it_answers_soon_when_nobody_does(dsn: str, postgres: Databases) -> None:
    """A database that takes connections and says nothing must not hold requests for long."""
    with Proxy(postgres.tcp_dsn(urlsplit(dsn).path.lstrip("/"))) as proxy:
        async with serving(
            Rota(settings=settings_for(proxy.dsn, database_connect_timeout_s=1, server_statement_timeout_ms=500))
        ) as server:
            assert (await ask(server, "/readyz"))[0] == 200
            proxy.stall()
            async with asyncio.timeout(PATIENCE_S):
                answers = await asyncio.gather(*(ask(server, "/auth/me", Cookie="rota=x") for _ in range(30)))
            assert {(status, said["code"]) for status, said in answers} == {(503, "database")}
            assert (await ask(server, "/healthz"))[0] == 200
