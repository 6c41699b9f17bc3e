"""Who has changed what: written with the change, without secrets, listed by page, removed in time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.support import people
from tests.support.people import call
from tests.support.serving import Serving

from rota.config import RetentionSettings
from rota.contrib.testing.clock import Clock
from rota.control import audit, retention
from rota.control.access import Actor
from rota.errors import Conflict

pytestmark = pytest.mark.req("A03")

ADA, OLE = "ada@example.org", "ole@example.org"
AUDIT = "/api/admin/audit"
ROOT = Actor("root", "system")


@pytest.fixture
async def admin(server: Serving) -> people.Headers:
    await people.make(server, ADA, "admin")
    return await people.cookie(server, ADA)


async def test_every_change_to_people_is_written_down(server: Serving, admin: people.Headers) -> None:
    ole = (await call(server, admin, "POST", "/api/admin/users", {"email": OLE}))[1]["id"]
    await call(server, admin, "PATCH", f"/api/admin/users/{ole}", {"role": "operator"})
    made = (await call(server, admin, "POST", "/api/admin/tokens", {"owner": ole, "name": "deploy"}))[1]
    await call(server, admin, "DELETE", f"/api/admin/tokens/{made['record']['id']}")
    await call(server, admin, "POST", f"/api/admin/users/{ole}/disable")
    await call(server, admin, "POST", f"/api/admin/users/{ole}/enable")
    page = (await call(server, admin, "GET", f"{AUDIT}?actor={ADA}"))[1]
    assert [(each["operation"], each["target"]) for each in reversed(page["items"])] == [
        ("sign_in", ADA),
        ("users.create", OLE),
        ("users.set_role", OLE),
        ("tokens.create", OLE),
        ("tokens.revoke", OLE),
        ("users.disable", OLE),
        ("users.enable", OLE),
    ]
    assert {(each["role"], each["via"]) for each in page["items"]} == {("admin", "session")}
    assert page["items"][4]["detail"] == {"role": "operator", "was": "user"}
    token = await people.api_token(server, ADA)
    await call(server, token, "POST", "/api/admin/users", {"email": "eve@example.org"})
    last = (await call(server, admin, "GET", f"{AUDIT}?limit=1"))[1]["items"][0]
    assert last["via"] == f"token {made['record']['id'] + 1}"


async def test_what_fails_is_not_written(server: Serving, conn: psycopg.Connection[Any]) -> None:
    await people.make(server, ADA, "admin")
    before = conn.execute("SELECT count(*) FROM rota.audit").fetchone()
    with pytest.raises(Conflict):
        await server.state.control.disable_user(ADA)
    with pytest.raises(Conflict):
        await server.state.control.create_user(ADA)
    assert conn.execute("SELECT count(*) FROM rota.audit").fetchone() == before


async def test_a_change_that_is_rolled_back_takes_its_row_along(aconn: psycopg.AsyncConnection[Any]) -> None:
    async with aconn.transaction(force_rollback=True):
        await audit.record(aconn, ROOT, "queues.pause", "mail")
    assert (await audit.list_audit(aconn)).items == []


async def test_secrets_and_odd_values_in_details(aconn: psycopg.AsyncConnection[Any]) -> None:
    detail = {
        "password": "hunter22",
        "url": "https://ada:hunter22@example.org",
        "nested": {"api_key": "hunter22", "n": 1},
        "nul": "a\0b",
        "half": "\ud800",
        "nan": float("nan"),
        "object": object(),
    }
    await audit.record(aconn, ROOT, "tasks.trigger", "x\0y" + "z" * 1000, detail)
    await audit.record(aconn, ROOT, "tasks.trigger", "long", {"text": "x" * 100_000})
    long, odd = (await audit.list_audit(aconn)).items
    assert "hunter22" not in str(odd)
    assert odd.detail["nested"]["n"] == 1
    assert len(odd.target) < 600
    assert long.detail["truncated"] is True


async def test_pages_and_filters(server: Serving, admin: people.Headers, aconn: psycopg.AsyncConnection[Any]) -> None:
    for n in range(7):
        await audit.record(aconn, Actor(f"a{n % 2}", "operator"), "jobs.retry" if n % 3 else "jobs.cancel", f"job {n}")

    async def targets(query: str) -> list[str]:
        found: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            page = (await call(server, admin, "GET", f"{AUDIT}?limit=2&{query}" + (f"&cursor={cursor}" if cursor else "")))[1]
            found += [each["target"] for each in page["items"]]
            cursor = page["next"]
        return found

    assert await targets("actor=a0") == ["job 6", "job 4", "job 2", "job 0"]
    assert await targets("actor=a0&operation=jobs.cancel") == ["job 6", "job 0"]
    assert await targets("target=job 3") == ["job 3"]
    assert len(await targets("")) >= 8
    for query in ("cursor=x", "limit=0", "actor=%00", "actor=" + "x" * 600):
        assert (await call(server, admin, "GET", f"{AUDIT}?{query}"))[0] == 422


async def test_old_rows_go(aconn: psycopg.AsyncConnection[Any], conn: psycopg.Connection[Any]) -> None:
    clock = Clock(conn)
    await audit.record(aconn, ROOT, "queues.pause", "old")
    clock.move(timedelta(days=300))
    await audit.record(aconn, ROOT, "queues.pause", "young")
    clock.move(timedelta(days=66))
    assert (await retention.prune(aconn, RetentionSettings()))["audit"] == 1
    assert [each.target for each in (await audit.list_audit(aconn)).items] == ["young"]
