"""The session of a browser: its cookie, where changes may come from, where it leads, and how it ends."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.support import people
from tests.support.serving import Serving

from rota.contrib.testing.clock import Clock
from rota.control import accounts

if TYPE_CHECKING:
    from tests.server.conftest import Serve

pytestmark = pytest.mark.req("H05")

ADA = "ada@example.org"


async def sign_in(server: Serving, next: str = "/", **headers: str) -> Any:
    token = await people.link_token(server, ADA)
    return await server.client.post("/auth/sign-in", data={"token": token, "next": next}, headers=headers, allow_redirects=False)


async def status(server: Serving, headers: dict[str, str], path: str = "/auth/me", method: str = "GET") -> int:
    async with server.client.request(method, path, headers=headers) as answer:
        return answer.status


async def test_the_cookie_over_http(server: Serving) -> None:
    await people.make(server, ADA)
    async with await sign_in(server) as answer:
        cookie = SimpleCookie(answer.headers["set-cookie"])["rota"]
    assert cookie["httponly"]
    assert not cookie["secure"]
    assert (cookie["samesite"], cookie["path"], cookie["domain"]) == ("lax", "/", "")
    assert int(cookie["max-age"]) == 168 * 3600


async def test_the_cookie_over_https(serve: Serve) -> None:
    async with serve(server_url="https://rota.example.org") as server:
        await people.make(server, ADA)
        async with await sign_in(server) as answer:
            cookie = SimpleCookie(answer.headers["set-cookie"])["__Host-rota"]
        assert cookie["httponly"]
        assert cookie["secure"]
        assert (cookie["samesite"], cookie["path"], cookie["domain"]) == ("lax", "/", "")
        assert await status(server, {"Cookie": f"__Host-rota={cookie.value}"}) == 200
        assert await status(server, {"Cookie": f"rota={cookie.value}"}) == 401  # which a page without https could have set


async def test_only_the_hash_of_the_cookie_is_stored(server: Serving, conn: psycopg.Connection[Any]) -> None:
    await people.make(server, ADA)
    value = (await people.cookie(server, ADA))["Cookie"].partition("=")[2]
    assert conn.execute("SELECT token_hash FROM rota.session").fetchall() == [(accounts.hash_of(value),)]


async def test_signing_out_ends_the_session(server: Serving) -> None:
    await people.make(server, ADA)
    mine, another = await people.cookie(server, ADA), await people.cookie(server, ADA)
    async with server.client.post("/auth/logout", headers=mine) as answer:
        assert answer.status == 204
        assert "Max-Age=0" in answer.headers["set-cookie"]
    assert [await status(server, mine), await status(server, another)] == [401, 200]
    assert await status(server, mine, "/auth/logout", "POST") == 401


async def test_a_session_ends_by_itself(server: Serving, conn: psycopg.Connection[Any]) -> None:
    clock = Clock(conn)
    await people.make(server, ADA)
    mine = await people.cookie(server, ADA)
    clock.move(timedelta(hours=167))
    assert await status(server, mine) == 200
    clock.move(timedelta(hours=2))
    assert await status(server, mine) == 401


ORIGINS: list[tuple[dict[str, str], int]] = [
    ({}, 204),  # no browser
    ({"Origin": "{own}"}, 204),
    ({"Sec-Fetch-Site": "same-origin", "Origin": "{own}"}, 204),
    ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, 204),
    ({"Origin": "https://evil.example"}, 403),
    ({"Origin": "null"}, 403),
    ({"Origin": ""}, 403),
    ({"Origin": "{own}.evil.example"}, 403),
    ({"Origin": "http://evil.example/{own}"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Sec-Fetch-Site": "same-site"}, 403),
    ({"Sec-Fetch-Site": "none"}, 403),
    ({"Sec-Fetch-Site": "cross-site", "Origin": "{own}"}, 403),
]


async def test_changes_by_cookie_come_from_our_own_pages(server: Serving) -> None:
    await people.make(server, ADA)
    for headers, expected in ORIGINS:
        sent = {name: value.format(own=server.url) for name, value in headers.items()}
        mine = await people.cookie(server, ADA)
        async with server.client.post("/auth/logout", headers={**mine, **sent}) as answer:
            assert answer.status == expected, sent
            if expected == 403:
                assert (await answer.json())["code"] == "cross_origin"
        assert await status(server, {**mine, **sent}) == (401 if expected == 204 else 200)  # to look is no change
        # Nothing a browser adds by itself is behind a token: where it comes from does not matter.
        assert await status(server, {**await people.jwt(server, ADA), **sent}, "/auth/logout", "POST") == 204
        # Nor may another site sign somebody in here.
        async with await sign_in(server, **sent) as answer:
            assert answer.status == (303 if expected == 204 else 403), sent


async def test_a_wrong_header_is_not_made_good_by_a_cookie(server: Serving) -> None:
    await people.make(server, ADA)
    mine = await people.cookie(server, ADA)
    for header in ("Bearer nonsense", "Basic YTpi", "Bearer", "bearer  ", "x"):
        assert await status(server, {**mine, "Authorization": header}) == 401


async def test_a_made_up_cookie_is_401(server: Serving) -> None:
    for cookie in ("", "x", "y" * 5000, "\x80", "a=b; rota=c"):
        async with server.client.get("/auth/me", headers={"Cookie": f"rota={cookie}"}) as answer:
            assert answer.status == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert (await answer.json())["code"] == "auth"


async def test_next_leads_nowhere_else(server: Serving) -> None:
    await people.make(server, ADA)
    for evil in ("//evil.com", "/\\evil.com", "https://evil.com", "/%2f/evil.com", "/\r\nX: y"):
        async with await sign_in(server, evil) as answer:
            assert (answer.status, answer.headers["location"]) == (303, "/dashboard")
        async with server.client.get("/auth/sign-in", params={"token": "x", "next": evil}) as answer:
            assert 'name="next" value="/dashboard"' in await answer.text()


async def test_below_a_path(serve: Serve) -> None:
    async with serve(server_root_path="/rota") as server:
        await people.make(server, ADA)
        async with server.client.get("/auth/sign-in", params={"token": "x"}) as answer:
            assert 'action="/rota/auth/sign-in"' in await answer.text()
        for next, leads in (("/rota/jobs", "/rota/jobs"), ("/jobs", "/rota/dashboard"), ("/rota/../x", "/rota/dashboard")):
            async with await sign_in(server, next) as answer:
                assert answer.headers["location"] == leads


async def test_who_is_disabled_is_out_at_once(server: Serving) -> None:
    await people.make(server, ADA)
    held = [await people.cookie(server, ADA), await people.jwt(server, ADA), await people.api_token(server, ADA)]
    assert [await status(server, each) for each in held] == [200] * 3
    await server.state.control.disable_user(ADA)
    assert [await status(server, each) for each in held] == [401] * 3
    await server.state.control.enable_user(ADA)
    assert [await status(server, each) for each in held] == [401, 401, 200]


async def test_the_account_decides_whatever_its_sessions_say(server: Serving, conn: psycopg.Connection[Any]) -> None:
    await people.make(server, ADA)
    held = [await people.cookie(server, ADA), await people.jwt(server, ADA), await people.api_token(server, ADA)]
    conn.execute("UPDATE rota.account SET disabled_at = rota.now()")
    assert [await status(server, each) for each in held] == [401] * 3


async def test_to_know_who_asks_is_one_statement(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    await people.make(server, ADA)
    held = [await people.cookie(server, ADA), await people.jwt(server, ADA), await people.api_token(server, ADA)]
    statements: list[Any] = []
    execute = psycopg.AsyncCursor.execute

    async def counting(self: Any, query: Any, *args: Any, **options: Any) -> Any:
        if query:  # an empty one tries whether a connection works
            statements.append(query)
        return await execute(self, query, *args, **options)

    await status(server, held[-1])  # that a token was used is written down, once a minute at most
    monkeypatch.setattr(psycopg.AsyncCursor, "execute", counting)
    for each in held:
        statements.clear()
        assert await status(server, each) == 200
        assert len(statements) == 1


async def test_two_racing_bootstraps_make_one_admin(serve: Serve, conn: psycopg.Connection[Any]) -> None:
    async with serve() as one, serve() as other:
        tokens = []
        for server, email in ((one, "one@localhost"), (other, "other@localhost"), (one, "one@localhost")):
            async with server.state.connection() as own:
                link = await accounts.bootstrap_link(own, server.state.settings, email=email)
            assert link is not None
            tokens.append(people.token_of(link))

        async def press(server: Serving, token: str) -> int:
            async with server.client.post("/auth/sign-in", data={"token": token}, allow_redirects=False) as answer:
                return answer.status

        answers = await asyncio.gather(*(press(server, token) for token in tokens for server in (one, other) for _ in range(3)))
        assert sorted(answers) == [303] + [401] * 17
        assert conn.execute("SELECT count(*) FROM rota.account WHERE role = 'admin'").fetchone() == (1,)
        async with one.state.connection() as own:
            assert await accounts.bootstrap_link(own, one.state.settings) is None
            link = await accounts.admin_link(own, one.state.settings)
        assert link is not None
        assert await press(other, people.token_of(link)) == 303
        assert conn.execute("SELECT count(*) FROM rota.account").fetchone() == (1,)
