"""Accounts over the API: roles, the last admin, and who may look."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.support import people
from tests.support.people import call
from tests.support.serving import Serving

from rota.errors import Conflict

if TYPE_CHECKING:
    from tests.server.conftest import Serve

pytestmark = pytest.mark.req("A03")

ADA, OLE = "ada@example.org", "ole@example.org"
USERS = "/api/admin/users"


@pytest.fixture
async def admin(server: Serving) -> people.Headers:
    await people.make(server, ADA, "admin")
    return await people.jwt(server, ADA)


async def test_accounts_are_made_changed_and_listed(server: Serving, admin: people.Headers) -> None:
    status, made = await call(server, admin, "POST", USERS, {"email": "Ole@Example.org", "role": "operator"})
    assert (status, made["email"], made["role"]) == (201, OLE, "operator")
    one = f"{USERS}/{made['id']}"
    assert (await call(server, admin, "GET", one))[1] == made
    assert (await call(server, admin, "GET", f"{USERS}/OLE@example.org"))[1] == made
    assert (await call(server, admin, "PATCH", one, {"role": "read_only"}))[1]["role"] == "read_only"
    assert (await call(server, admin, "POST", f"{one}/disable"))[1]["disabled_at"] is not None
    assert (await call(server, admin, "POST", f"{one}/enable"))[1]["disabled_at"] is None
    status, page = await call(server, admin, "GET", f"{USERS}?limit=1")
    assert [each["email"] for each in page["items"]] == [ADA]
    status, page = await call(server, admin, "GET", f"{USERS}?limit=1&cursor={page['next']}")
    assert ([each["email"] for each in page["items"]], page["next"]) == ([OLE], None)


async def test_what_is_wrong_is_said_with_a_code(server: Serving, admin: people.Headers) -> None:
    for method, path, body, status, code in (
        ("POST", USERS, {"email": ADA}, 409, "conflict"),
        ("POST", USERS, {"email": "x"}, 422, "validation"),
        ("POST", USERS, {"email": OLE, "role": "system"}, 422, "validation"),
        ("POST", USERS, {"email": OLE, "role": "root"}, 422, "validation"),
        ("GET", f"{USERS}/00000000-0000-0000-0000-000000000000", None, 404, "not_found"),
        ("GET", f"{USERS}/x", None, 422, "validation"),
        ("GET", f"{USERS}/nobody@example.org", None, 404, "not_found"),
        ("GET", f"{USERS}?cursor=x", None, 422, "cursor"),
        ("PATCH", f"{USERS}/00000000-0000-0000-0000-000000000000", {"role": "user"}, 404, "not_found"),
    ):
        got, problem = await call(server, admin, method, path, body)
        assert (got, problem["code"]) == (status, code), (method, path, body)


async def test_only_admins(server: Serving) -> None:
    for role in ("operator", "read_only", "user"):
        await people.make(server, f"{role}@example.org", role)
        headers = await people.jwt(server, f"{role}@example.org")
        for method, path, body in (
            ("GET", USERS, None),
            ("POST", USERS, {"email": OLE}),
            ("GET", "/api/admin/tokens", None),
            ("GET", "/api/admin/audit", None),
        ):
            status, problem = await call(server, headers, method, path, body)
            assert (status, problem["code"]) == (403, "forbidden")
            assert (await call(server, {}, method, path, body))[0] == 401


async def test_a_new_role_holds_at_once(server: Serving, admin: people.Headers) -> None:
    ole = await people.make(server, OLE)
    held = [await people.cookie(server, OLE), await people.jwt(server, OLE), await people.api_token(server, OLE)]
    for role, status in (("user", 403), ("admin", 200), ("read_only", 403)):
        await call(server, admin, "PATCH", f"{USERS}/{ole.id}", {"role": role})
        assert [(await call(server, each, "GET", USERS))[0] for each in held] == [status] * 3


async def test_the_last_admin_stays(server: Serving, admin: people.Headers) -> None:
    ada = await server.state.control.get_user(ADA)
    for method, path, body in (
        ("PATCH", f"{USERS}/{ada.id}", {"role": "operator"}),
        ("POST", f"{USERS}/{ada.id}/disable", None),
    ):
        status, problem = await call(server, admin, method, path, body)
        assert status == 409
        assert "the last admin" in problem["detail"]
    assert (await call(server, admin, "PATCH", f"{USERS}/{ada.id}", {"role": "admin"}))[0] == 200
    ole = await people.make(server, OLE, "admin")
    await server.state.control.disable_user(OLE)
    assert (await call(server, admin, "POST", f"{USERS}/{ada.id}/disable"))[0] == 409  # one who is disabled does not count
    assert (await call(server, admin, "PATCH", f"{USERS}/{ole.id}", {"role": "user"}))[0] == 200


async def test_two_admins_who_remove_each_other(serve: Serve, conn: psycopg.Connection[Any]) -> None:
    async with serve() as one, serve() as other:
        await people.make(one, ADA, "admin")
        await people.make(one, OLE, "admin")
        for _ in range(5):
            outcomes = await asyncio.gather(
                one.state.control.set_role(ADA, "user"),
                other.state.control.disable_user(OLE),
                one.state.control.disable_user(ADA),
                other.state.control.set_role(OLE, "operator"),
                return_exceptions=True,
            )
            assert all(isinstance(each, Conflict) for each in outcomes if isinstance(each, Exception))
            left = conn.execute("SELECT count(*) FROM rota.account WHERE role = 'admin' AND disabled_at IS NULL").fetchone()
            assert left == (1,)
            conn.execute("UPDATE rota.account SET role = 'admin', disabled_at = NULL")
