"""API tokens: shown once, for some operations and some time, never more than their owner, and how they end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.support import people
from tests.support.people import call
from tests.support.serving import Serving

from rota.contrib.testing.clock import Clock
from rota.control.accounts import hash_of

pytestmark = pytest.mark.req("A03")

ADA, OLE, EVE = "ada@example.org", "ole@example.org", "eve@example.org"
OWN, ALL = "/auth/tokens", "/api/admin/tokens"


def bearer(made: Any) -> people.Headers:
    return {"Authorization": f"Bearer {made['token']}"}


@pytest.fixture
async def admin(server: Serving) -> people.Headers:
    await people.make(server, ADA, "admin")
    return await people.jwt(server, ADA)


async def test_a_token_is_shown_once_and_only_its_hash_stored(
    server: Serving, admin: people.Headers, conn: psycopg.Connection[Any]
) -> None:
    status, made = await call(server, admin, "POST", OWN, {"name": "laptop", "scopes": ["own.read", "jobs.read"], "days": 30})
    assert status == 201
    assert made["token"].startswith("rota_")
    assert (made["record"]["name"], made["record"]["scopes"]) == ("laptop", ["jobs.read", "own.read"])
    assert conn.execute("SELECT token_hash FROM rota.api_token").fetchall() == [(hash_of(made["token"]),)]
    for table in ("api_token", "audit"):
        assert not any(made["token"] in row for (row,) in conn.execute(f"SELECT t::text FROM rota.{table} t"))
    status, page = await call(server, admin, "GET", OWN)
    assert page["items"] == [made["record"]]
    assert made["token"] not in str(page)
    status, me = await call(server, bearer(made), "GET", "/auth/me")
    assert (me["email"], me["via"], me["may"]) == (ADA, "token", ["jobs.read"])


async def test_a_token_does_what_its_scopes_name(server: Serving, admin: people.Headers) -> None:
    reader = await people.api_token(server, ADA, "users.read")
    assert (await call(server, reader, "GET", "/api/admin/users"))[0] == 200
    for method, path, body in (
        ("POST", "/api/admin/users", {"email": OLE}),
        ("GET", "/api/admin/audit", None),
        ("GET", "/auth/me", None),
        ("GET", OWN, None),
        ("POST", OWN, {"name": "more"}),
        ("POST", ALL, {"name": "more", "owner": "00000000-0000-0000-0000-000000000000"}),
    ):
        status, problem = await call(server, reader, method, path, body)
        assert (status, problem["code"]) == (403, "forbidden"), path
    own = await people.api_token(server, ADA, "own.read")
    assert (await call(server, own, "GET", OWN))[0] == 200
    assert (await call(server, own, "POST", OWN, {"name": "more"}))[0] == 403


async def test_a_token_does_no_more_than_its_owner(server: Serving, admin: people.Headers) -> None:
    ole = await people.make(server, OLE, "admin")
    token = await people.api_token(server, OLE, "users.read")
    assert (await call(server, token, "GET", "/api/admin/users"))[0] == 200
    await call(server, admin, "PATCH", f"/api/admin/users/{ole.id}", {"role": "operator"})
    assert (await call(server, token, "GET", "/api/admin/users"))[0] == 403
    for scopes in (["users.read"], ["jobs.read", "audit.read"]):
        status, problem = await call(server, admin, "POST", ALL, {"name": "x", "owner": str(ole.id), "scopes": scopes})
        assert status == 422
        assert "no more than its owner" in problem["detail"]


async def test_a_token_makes_no_stronger_one(server: Serving, admin: people.Headers) -> None:
    ada = await server.state.control.get_user(ADA)
    weak = await people.api_token(server, ADA, "own.change", "tokens.change", "jobs.read")
    for path, whose in ((OWN, {}), (ALL, {"owner": str(ada.id)})):
        for scopes, status in ((None, 403), (["users.change"], 403), (["jobs.read"], 201)):
            body = {"name": "x", **whose} | ({} if scopes is None else {"scopes": scopes})
            assert (await call(server, weak, "POST", path, body))[0] == status


async def test_a_token_ends(server: Serving, admin: people.Headers, conn: psycopg.Connection[Any]) -> None:
    clock = Clock(conn)
    made = [(await call(server, admin, "POST", OWN, {"name": "x", "days": 2}))[1] for _ in range(3)]
    assert (await call(server, admin, "DELETE", f"{OWN}/{made[0]['record']['id']}"))[1]["revoked_at"] is not None
    assert (await call(server, admin, "DELETE", f"{ALL}/{made[1]['record']['id']}"))[1]["revoked_at"] is not None
    assert [(await call(server, bearer(each), "GET", "/auth/me"))[0] for each in made] == [401, 401, 200]
    clock.move(timedelta(days=1, hours=23))
    assert (await call(server, bearer(made[2]), "GET", "/auth/me"))[0] == 200
    clock.move(timedelta(hours=2))
    assert (await call(server, bearer(made[2]), "GET", "/auth/me"))[0] == 401


@pytest.mark.req("H06")
async def test_another_ones_token_is_as_if_it_were_not_there(server: Serving, admin: people.Headers) -> None:
    await people.make(server, OLE)
    await people.make(server, EVE)
    ole, eve = await people.jwt(server, OLE), await people.jwt(server, EVE)
    made = (await call(server, ole, "POST", OWN, {"name": "mine"}))[1]
    theirs = await call(server, eve, "DELETE", f"{OWN}/{made['record']['id']}")
    missing = await call(server, eve, "DELETE", f"{OWN}/{made['record']['id'] + 999}")
    for status, problem in (theirs, missing):
        assert (status, problem["code"]) == (404, "not_found")
    assert (await call(server, eve, "GET", OWN))[1] == {"items": [], "next": None, "count": None}
    assert (await call(server, bearer(made), "GET", "/auth/me"))[0] == 200
    assert len((await call(server, admin, "GET", ALL))[1]["items"]) == 1


async def test_the_last_use_is_known_to_the_minute(server: Serving, admin: people.Headers, conn: psycopg.Connection[Any]) -> None:
    clock = Clock(conn)
    clock.freeze()
    token = await people.api_token(server, ADA)

    def last_used() -> Any:
        row = conn.execute("SELECT last_used_at, xmin::text FROM rota.api_token").fetchone()
        assert row is not None
        return row

    assert last_used()[0] is None
    await call(server, token, "GET", "/auth/me")
    first = last_used()
    assert first[0] == clock.now()
    clock.move(timedelta(seconds=59))
    await call(server, token, "GET", "/auth/me")
    assert last_used() == first  # nothing was written
    clock.move(timedelta(seconds=2))
    await call(server, token, "GET", "/auth/me")
    assert last_used()[0] == clock.now()


async def test_pages_of_tokens(server: Serving, admin: people.Headers) -> None:
    for n in range(5):
        await call(server, admin, "POST", OWN, {"name": f"t{n}"})
    names, cursor = [], ""
    while cursor is not None:
        _, page = await call(server, admin, "GET", f"{ALL}?limit=2" + (f"&cursor={cursor}" if cursor else ""))
        names += [each["name"] for each in page["items"]]
        cursor = page["next"]
    assert names == ["t4", "t3", "t2", "t1", "t0"]


BAD: list[Any] = [
    {},
    {"name": ""},
    {"name": "   "},
    {"name": "x" * 201},
    {"name": "nul\0"},
    {"name": "x", "scopes": []},
    {"name": "x", "scopes": ["everything"]},
    {"name": "x", "scopes": ["runs.write"]},
    {"name": "x", "scopes": "jobs.read"},
    {"name": "x", "days": 0},
    {"name": "x", "days": 4000},
    {"name": "x", "days": 1.5},
    {"name": "x", "days": True},
    {"name": "x", "role": "admin"},
]


async def test_what_makes_no_token(server: Serving, admin: people.Headers) -> None:
    for body in BAD:
        assert (await call(server, admin, "POST", OWN, body))[0] == 422, body


async def test_a_token_is_not_signed_out(server: Serving, admin: people.Headers) -> None:
    token = await people.api_token(server, ADA)
    status, problem = await call(server, token, "POST", "/auth/logout")
    assert status == 403
    assert "DELETE /auth/tokens/" in problem["detail"]
