"""Every route by everybody: what the document says of an operation is what happens, and what is another's does not exist."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
from tests.support import people
from tests.support.people import Headers
from tests.support.shop import ADMIN, Shop, open_shop

from rota.control.access import DEFAULT, OWN, Access, Actor

pytestmark = pytest.mark.req("A03")

ROLES = {"admin": ADMIN, "operator": "ole@example.org", "read_only": "rita@example.org", "user": "uma@example.org"}
LAST = "/auth/logout"  # whoever has called it is not signed in any more
SESSION_ONLY = {("post", "/jobs/schedule")}  # by the source: an admin in a browser
SCOPES = [operation for operation, roles in DEFAULT.items() if roles] + list(OWN)
MISSING: dict[str, Any] = {
    "id": str(uuid4()), "job_id": str(uuid4()), "name": "none", "attempt": 7, "fingerprint": "0123456789abcdef",
    "who": str(uuid4()),
}  # fmt: skip

Operation = tuple[str, str, str]  # method, path, rule


@pytest.fixture
async def shop(dsn: str) -> AsyncIterator[Shop]:
    async with open_shop(dsn, http_enabled=True) as shop:
        yield shop


_known: list[Operation] = []  # the document takes a while to make, and is the same for all


async def operations(shop: Shop) -> list[Operation]:
    """Every operation of the document with its rule; the one that ends a session last."""
    if not _known:
        async with shop.server.client.get("/openapi.json") as answer:
            document: dict[str, Any] = await answer.json()
        found = [(method, path, each["x-rota-rule"]) for path, all in document["paths"].items() for method, each in all.items()]
        _known.extend(sorted(found, key=lambda operation: operation[1] == LAST))
    return _known


async def status(shop: Shop, headers: Headers, method: str, path: str) -> int:
    """What somebody gets who calls an operation on what is not there, with a body that does not fit."""
    numbers = re.search(r"/(alerts|webhooks|tokens)/\{id\}", path)
    path = re.sub(r"\{(\w+)\}", lambda name: "999999999" if numbers else str(MISSING[name[1]]), path)
    body = {"json": {"nothing": "known"}} if method in ("post", "put", "patch") else {}
    async with shop.server.client.request(method, path, headers=headers, allow_redirects=False, **body) as answer:
        return answer.status


def permitted(rule: str, role: str) -> bool:
    """Whether a role may do what a rule asks for."""
    return rule in ("public", "signed in") or Access().allows(Actor("x", role), rule)  # type: ignore[arg-type]


async def test_no_route_is_without_a_rule_that_is_known(shop: Shop) -> None:
    found = await operations(shop)
    assert len(found) > 80
    assert {rule for _, _, rule in found} <= {"public", "signed in", *DEFAULT}
    assert {path for _, path, rule in found if rule == "public"} == {
        "/healthz", "/readyz", "/openapi.json", "/auth/magic-link", "/auth/verify", "/auth/sign-in",
    }  # fmt: skip
    assert all(rule not in ("public", "signed in") for _, path, rule in found if path.startswith("/api/admin"))


async def test_nobody_gets_in_without_a_sign_in(shop: Shop) -> None:
    for headers in ({}, {"Authorization": "Bearer rota_wrong"}, {"Authorization": "Bearer a.b.c"}, {"Cookie": "rota=wrong"}):
        for method, path, rule in await operations(shop):
            got = await status(shop, headers, method, path)
            assert (got == 401) is (rule != "public") or path == "/auth/verify", (method, path, got, headers)


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_may_what_the_rule_says_and_nothing_else(shop: Shop, role: str) -> None:
    if role != "admin":
        await people.make(shop.server, ROLES[role], role)
    headers = await people.cookie(shop.server, ROLES[role])
    for method, path, rule in await operations(shop):
        got = await status(shop, headers, method, path)
        if permitted(rule, role):
            assert got not in (401, 403) or path == "/auth/verify", (method, path, rule, got)
        else:
            assert got == 403, (method, path, rule, got)


async def test_a_token_may_what_its_scopes_say_and_nothing_else(shop: Shop) -> None:
    rules: dict[str, list[tuple[str, str]]] = {}
    for method, path, rule in await operations(shop):
        needed = ("own.read" if method == "get" else "own.change") if rule == "signed in" else rule
        if rule != "public" and path != LAST:
            rules.setdefault(needed, []).append((method, path))
    for rule, found in rules.items():
        with_it = await people.api_token(shop.server, ADMIN, rule)
        without = await people.api_token(shop.server, ADMIN, *(scope for scope in SCOPES if scope != rule))
        for method, path in found:
            allowed, refused = await status(shop, with_it, method, path), await status(shop, without, method, path)
            assert refused == 403, (method, path, rule, refused)
            # What its body or nothing there forbids is no longer a matter of who asks.
            assert allowed in (200, 201, 202, 204, 404, 409, 422) or (method, path) in SESSION_ONLY, (method, path, rule, allowed)


class TestOthers:
    """What belongs to somebody else is not there."""

    async def two(self, shop: Shop) -> tuple[Headers, Headers]:
        for name in ("uma@example.org", "eve@example.org"):
            await people.make(shop.server, name)
        return await people.jwt(shop.server, "uma@example.org"), await people.jwt(shop.server, "eve@example.org")

    async def ask(self, shop: Shop, headers: Headers, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        got, told = await people.call(shop.server, headers, method, path, body)
        if isinstance(told, dict):
            told.pop("request_id", None)
        return got, told

    async def test_their_http_job_is_the_same_404_as_a_missing_one(self, shop: Shop) -> None:
        uma, eve = await self.two(shop)
        got, job = await self.ask(shop, uma, "POST", "/jobs", {"url": "https://example.org/"})
        assert got in (201, 202), job
        id, missing = job["id"], str(uuid4())
        for method, path in (("GET", ""), ("GET", "/attempts"), ("POST", "/cancel"), ("POST", "/retry")):
            theirs = await self.ask(shop, eve, method, f"/jobs/{id}{path}")
            none = await self.ask(shop, eve, method, f"/jobs/{missing}{path}")
            assert theirs[0] == none[0] == 404
            assert str(theirs[1]).replace(id, missing) == str(none[1]), path
        assert (await self.ask(shop, uma, "GET", f"/jobs/{id}"))[0] == 200
        for headers, seen in ((uma, [id]), (eve, [])):
            _, page = await self.ask(shop, headers, "GET", "/jobs")
            assert [each["id"] for each in page["items"]] == seen
            assert page.get("next") is None

    async def test_their_token_is_the_same_404_as_a_missing_one(self, shop: Shop) -> None:
        uma, eve = await self.two(shop)
        _, made = await self.ask(shop, uma, "POST", "/auth/tokens", {"name": "laptop"})
        id, missing = made["record"]["id"], 999_999
        theirs = await self.ask(shop, eve, "DELETE", f"/auth/tokens/{id}")
        none = await self.ask(shop, eve, "DELETE", f"/auth/tokens/{missing}")
        assert theirs[0] == none[0] == 404
        assert str(theirs[1]).replace(str(id), str(missing)) == str(none[1])
        assert (await self.ask(shop, eve, "GET", "/auth/tokens"))[1]["items"] == []
        assert len((await self.ask(shop, uma, "GET", "/auth/tokens"))[1]["items"]) == 1

    async def test_a_user_sees_nothing_of_what_operators_see(self, shop: Shop) -> None:
        uma, _ = await self.two(shop)
        await self.ask(shop, uma, "POST", "/jobs", {"url": "https://example.org/"})
        for path in ("/jobs", "/jobs/count", "/jobs/stats", "/runs", "/errors", "/schedules"):
            assert (await self.ask(shop, uma, "GET", f"/api/admin{path}"))[0] == 403
