"""API tokens: shown once, for some operations and some time, never more than their owner, and how they end."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.support import people
from tests.support.people import call
from tests.support.serving import Serving
from tests.support.wait import until

from rota.contrib.testing.clock import Clock
from rota.control.access import Actor
from rota.control.accounts import hash_of
from rota.errors import AuthError

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


async def create(server: Serving, headers: people.Headers, **body: Any) -> Any:
    """Create a token of one's own and return the answer."""
    status, made = await call(server, headers, "POST", OWN, {"name": "x", **body})
    assert status == 201, made
    return made


async def works(server: Serving, *made: Any) -> list[bool]:
    """Return which tokens are accepted."""
    return [(await call(server, bearer(each), "GET", "/auth/me"))[0] == 200 for each in made]


@pytest.mark.req("T08")
class TestDescendants:
    """A token that a token creates never outlives it, and never does more."""

    async def test_a_child_expires_with_its_parent_at_the_latest(
        self, server: Serving, admin: people.Headers, conn: psycopg.Connection[Any]
    ) -> None:
        clock = Clock(conn)
        clock.freeze()
        parent = await create(server, admin, days=10)
        clock.move(timedelta(days=3))
        status, problem = await call(server, bearer(parent), "POST", OWN, {"name": "x", "days": 8})
        assert (status, problem["code"]) == (403, "forbidden")
        assert "outlives it" in problem["detail"]
        child, short = await create(server, bearer(parent)), await create(server, bearer(parent), days=7)
        grandchild = await create(server, bearer(child))
        for each in (child, short, grandchild):
            assert each["record"]["expires_at"] == parent["record"]["expires_at"]
        brief = await create(server, bearer(child), days=1)
        assert brief["record"]["expires_at"] < parent["record"]["expires_at"]
        clock.move(timedelta(days=8))
        assert await works(server, parent, child, grandchild) == [False, False, False]

    async def test_revoking_a_token_revokes_its_descendants_and_nothing_else(self, server: Serving, admin: people.Headers) -> None:
        root = await create(server, admin)
        child = await create(server, bearer(root))
        grandchild = await create(server, bearer(child))
        sibling, stranger = await create(server, bearer(root)), await create(server, admin)
        family = [root, child, grandchild, sibling, stranger]
        assert [each["record"]["parent_id"] for each in family] == [
            None,
            root["record"]["id"],
            child["record"]["id"],
            root["record"]["id"],
            None,
        ]
        await call(server, admin, "DELETE", f"{OWN}/{child['record']['id']}")
        assert await works(server, *family) == [True, False, False, True, True]
        await call(server, admin, "DELETE", f"{ALL}/{root['record']['id']}")
        assert await works(server, *family) == [False, False, False, False, True]
        page = (await call(server, admin, "GET", "/api/admin/audit?operation=tokens.revoke"))[1]
        assert [each["detail"]["descendants"] for each in page["items"]] == [
            [sibling["record"]["id"]],
            [grandchild["record"]["id"]],
        ]

    async def test_a_token_creates_tokens_of_its_own_account_only(self, server: Serving, admin: people.Headers) -> None:
        await people.make(server, OLE, "admin")
        token = await create(server, admin, days=5)
        status, problem = await call(server, bearer(token), "POST", ALL, {"name": "x", "owner": OLE})
        assert (status, problem["code"]) == (403, "forbidden")
        assert "its own account only" in problem["detail"]
        status, made = await call(server, bearer(token), "POST", ALL, {"name": "x", "owner": ADA})
        assert (status, made["record"]["parent_id"]) == (201, token["record"]["id"])
        assert (await call(server, admin, "POST", ALL, {"name": "x", "owner": OLE}))[1]["record"]["parent_id"] is None

    async def test_descendants_follow_the_account(self, server: Serving, admin: people.Headers) -> None:
        ole = await people.make(server, OLE, "admin")
        parent = await create(server, await people.jwt(server, OLE))
        child = await create(server, bearer(parent))
        users = "/api/admin/users"
        assert (await call(server, bearer(child), "GET", users))[0] == 200
        await call(server, admin, "PATCH", f"{users}/{ole.id}", {"role": "operator"})
        assert (await call(server, bearer(child), "GET", users))[0] == 403
        await call(server, admin, "POST", f"{users}/{ole.id}/disable")
        assert await works(server, parent, child) == [False, False]

    async def test_a_token_that_is_revoked_meanwhile_creates_none(
        self, server: Serving, admin: people.Headers, conn: psycopg.Connection[Any]
    ) -> None:
        """A child is either there to be revoked with its parent, or not created at all."""
        parent = await create(server, admin)
        id = parent["record"]["id"]
        actor = Actor(ADA, "admin", UUID(parent["record"]["account_id"]), f"token {id}", None, id)
        control = server.state.control.acting_as(actor)
        with conn.transaction():
            conn.execute("SELECT FROM rota.account FOR NO KEY UPDATE")  # a revocation that is under way
            creating = asyncio.create_task(control.create_own_token("late"))
            await until(lambda: blocked(conn), what="a creation that waits")
            conn.execute("UPDATE rota.api_token SET revoked_at = rota.now()")
        with pytest.raises(AuthError, match="not valid any more"):
            await creating

    async def test_the_database_has_no_parent_of_another_account(
        self, server: Serving, admin: people.Headers, conn: psycopg.Connection[Any]
    ) -> None:
        await people.make(server, OLE)
        parent = await create(server, admin)
        child = await create(server, await people.jwt(server, OLE))
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            conn.execute("UPDATE rota.api_token SET parent_id = %s WHERE id = %s", [parent["record"]["id"], child["record"]["id"]])


def blocked(conn: psycopg.Connection[Any]) -> bool:
    """Return whether somebody waits for this connection's locks."""
    row = conn.execute("SELECT count(*) > 0 FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))").fetchone()
    return bool(row and row[0])


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
