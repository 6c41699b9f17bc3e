"""The server when its database goes: it says so, lives on, and is itself again when the database is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from fastapi import Depends, FastAPI
from tests.support import people
from tests.support.postgres import Databases, migrate
from tests.support.proxy import Proxy
from tests.support.serving import Serving, serving, settings_for
from tests.support.wait import EVERY_S, PATIENCE_S

from rota import Rota
from rota.db.embedded import EmbeddedPostgres
from rota.server.state import State, state_of

pytestmark = pytest.mark.req("H09")

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


async def test_sessions_that_were_ended_are_replaced(server: Serving, ada: dict[str, str], conn: psycopg.Connection[Any]) -> None:
    assert (await ask(server, **ada))[0] == 200
    ended = conn.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'rota server' AND datname = current_database()"
    ).fetchall()
    assert ended
    status, said = await ask(server, **ada)  # the one at hand may be one of those
    assert status == 200 or (status, said["code"]) == (503, "database")
    await until_status(server, "/auth/me", 200, **ada)


async def test_sessions_with_a_server_that_became_a_standby_are_replaced(server: Serving) -> None:
    async with server.state.connection() as conn:
        await conn.execute("SET default_transaction_read_only = on")

    async def ask_for_link() -> int:
        async with server.client.post("/auth/magic-link", json={"email": ADA}) as answer:
            return answer.status

    assert [await ask_for_link() for _ in range(3)] == [503, 200, 200]


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
