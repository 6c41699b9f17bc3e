"""The audit compared with the API's own list of changes: each writes a row, and so does each refusal."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from tests.support import jobs as given
from tests.support import people
from tests.support.people import Headers
from tests.support.shop import ADMIN, Shop, open_shop

from rota.db import migrations
from rota.server.refusals import ROWS, write_refusals

pytestmark = pytest.mark.req("T10")

Conn = psycopg.Connection[Any]
Row = tuple[str, str]  # operation and target

# Changes nothing that belongs to a person, or is no person's doing.
EXEMPT = {
    "schedules_preview_body": "computes times",
    "websub_deliver": "a hub sends it, which has no account",
}
USER = "uma@example.org"
OPML = '<opml version="2.0"><body><outline xmlUrl="https://example.org/a.xml"/></body></opml>'
PAIR = {
    "calendar_pair_id": "team",
    "connector": "caldav",
    "window_start": "2030-01-01T00:00:00Z",
    "window_end": "2030-02-01T00:00:00Z",
}


@pytest.fixture
async def shop(dsn: str, conn: Conn) -> AsyncIterator[Shop]:
    async with open_shop(dsn, app_env="local", http_enabled=True, app_apps=("rota.apps.feeds",)) as shop:
        migrations.up(conn, shop.app.migrations)
        await people.make(shop.server, USER)
        yield shop


async def changes(shop: Shop) -> dict[str, tuple[str, str]]:
    """Method and path of every operation of the document that is not a GET, by its id."""
    async with shop.server.client.get("/openapi.json") as answer:
        paths = (await answer.json())["paths"]
    return {
        each["operationId"]: (method.upper(), path)
        for path, operations in paths.items()
        for method, each in operations.items()
        if method != "get"
    }


def rows(conn: Conn) -> list[Row]:
    return conn.execute("SELECT operation, target FROM rota.audit ORDER BY id").fetchall()


class Caller:
    """Calls every operation once, each on something of its own that it can change."""

    def __init__(self, shop: Shop, conn: Conn, admin: Headers, user: Headers) -> None:
        self.shop, self.conn, self.admin, self.user = shop, conn, admin, user

    async def send(self, headers: Headers, method: str, path: str, body: Any = None, **options: Any) -> Any:
        sent = {"json": body} if body is not None else {}
        async with self.shop.server.client.request(
            method, path, headers=headers, allow_redirects=False, **sent, **options
        ) as answer:
            text = await answer.text()
            assert answer.status < 400, (method, path, answer.status, text)
            return await answer.json(content_type=None) if text.startswith("{") else None

    async def job(self, **more: Any) -> str:
        body = {"task": "send", "payload": {"user_id": 1}, "delay": "1h", **more}
        made: str = (await self.shop.post("/jobs", body, status=201))["id"]
        return made

    async def own_job(self) -> str:
        body = {"url": "https://example.org/", "run_at": "2090-01-01T00:00:00Z"}
        made: str = (await self.send(self.user, "POST", "/jobs", body))["id"]
        return made

    async def failed_job(self) -> str:
        id = given.enqueue(self.conn, "count", payload={"n": 1})
        worker = given.start_worker(self.conn)
        given.fail(self.conn, worker)
        return str(id)

    async def schedule(self) -> str:
        name = f"s-{uuid4()}"
        await self.shop.post("/schedules", {"name": name, "task": "count", "every": "1h"}, status=201)
        return name

    async def account(self) -> str:
        made: str = (await self.shop.post("/users", {"email": f"{uuid4()}@example.org"}, status=201))["id"]
        return made

    async def webhook(self) -> str:
        return str((await self.shop.post("/webhooks", {"url": "https://example.org/"}, status=201))["id"])

    async def feed(self) -> str:
        body = {"url": f"https://example.org/{uuid4()}.xml"}
        return str((await self.shop.post("/feeds", body, status=201))["feed"]["id"])

    async def call(self, operation: str, method: str, path: str) -> None:
        """Prepare, forget what that has written, and call it."""
        headers, parameters, body, options = await getattr(self, f"for_{operation}", self.for_anything)(operation)
        self.conn.execute("DELETE FROM rota.audit")
        await self.send(headers, method, re.sub(r"\{\w+\}", str(parameters), path), body, **options)

    async def for_anything(self, operation: str) -> tuple[Headers, str, Any, dict[str, Any]]:
        noun = operation.partition("_")[0]
        parameter, body = await PREPARE[operation](self)
        headers = self.user if noun in ("own", "http") or "own_token" in operation else self.admin
        return headers, parameter, body, {}

    async def for_auth_sign_in(self, _: str) -> tuple[Headers, str, Any, dict[str, Any]]:
        return {}, "", None, {"data": {"token": await people.link_token(self.shop.server, USER)}}

    async def for_auth_sign_out(self, _: str) -> tuple[Headers, str, Any, dict[str, Any]]:
        return await people.jwt(self.shop.server, USER), "", None, {}

    async def for_auth_request_link(self, _: str) -> tuple[Headers, str, Any, dict[str, Any]]:
        return {}, "", {"email": USER}, {}


Prepared = tuple[Any, Any]


def plain(body: Any = None, parameter: Any = "") -> Callable[[Caller], Awaitable[Prepared]]:
    async def prepare(_: Caller) -> Prepared:
        return parameter, body

    return prepare


def on(make: Callable[[Caller], Awaitable[Any]], body: Any = None) -> Callable[[Caller], Awaitable[Prepared]]:
    async def prepare(caller: Caller) -> Prepared:
        return await make(caller), body

    return prepare


async def canceled(caller: Caller) -> str:
    id = await caller.own_job()
    await caller.send(caller.user, "POST", f"/jobs/{id}/cancel")
    return id


async def own_token(caller: Caller) -> str:
    return str((await caller.send(caller.user, "POST", "/auth/tokens", {"name": "t"}))["record"]["id"])


async def token(caller: Caller) -> str:
    return str((await caller.send(caller.admin, "POST", "/api/admin/tokens", {"owner": USER, "name": "t"}))["record"]["id"])


async def deleted(caller: Caller) -> str:
    await caller.shop.ask("DELETE", "/schedules/sweep")
    return "sweep"


async def fingerprint(caller: Caller) -> str:
    await caller.failed_job()
    [row] = caller.conn.execute("SELECT DISTINCT fingerprint FROM rota.run WHERE final AND fingerprint IS NOT NULL").fetchall()
    return str(row[0])


async def alert(caller: Caller) -> str:
    [row] = caller.conn.execute(
        "INSERT INTO rota.alert (kind, subject, severity, summary, first_seen_at, last_seen_at)"
        " VALUES ('job_failed', 'x', 'error', 'x', rota.now(), rota.now()) RETURNING id"
    ).fetchall()
    return str(row[0])


async def limited(caller: Caller) -> str:
    await caller.shop.ask("PUT", "/queues/mail/limits", {"max_concurrency": 3})
    return "mail"


async def new_task(caller: Caller) -> str:
    caller.conn.execute("DELETE FROM rota.task WHERE name = 'send'")
    return ""


PREPARE: dict[str, Callable[[Caller], Awaitable[Prepared]]] = {
    "calendar_jobs_schedule": plain({"jobs": [PAIR]}),
    "http_jobs_create": plain({"url": "https://example.org/"}),
    "own_jobs_cancel": on(Caller.own_job),
    "own_jobs_retry": on(canceled),
    "users_create_user": plain({"email": "new@example.org"}),
    "users_change_user": on(Caller.account, {"role": "operator"}),
    "users_disable_user": on(Caller.account),
    "users_enable_user": on(Caller.account),
    "tokens_create_own_token": plain({"name": "t"}),
    "tokens_revoke_own_token": on(own_token),
    "tokens_create_token": plain({"owner": USER, "name": "t"}),
    "tokens_revoke_token": on(token),
    "jobs_enqueue": plain({"task": "count", "payload": {"n": 1}}),
    "jobs_bulk": on(Caller.failed_job, {"action": "retry", "filter": {"task": "count"}}),
    "jobs_retry": on(Caller.failed_job),
    "jobs_cancel": on(Caller.job),
    "jobs_edit": on(Caller.job, {"payload": {"user_id": 2}}),
    "jobs_reschedule": on(Caller.job, {"run_at": "2031-01-01T00:00:00Z"}),
    "schedules_create": plain({"name": "new", "task": "count", "every": "1h"}),
    "schedules_patch": on(Caller.schedule, {"every": "2h"}),
    "schedules_update": on(Caller.schedule, {"every": "2h"}),
    "schedules_delete": on(Caller.schedule),
    "schedules_restore": on(deleted),
    "schedules_enable": on(Caller.schedule),
    "schedules_disable": on(Caller.schedule),
    "schedules_run": on(Caller.schedule),
    "tasks_sync": on(new_task),
    "tasks_enable": plain(parameter="count"),
    "tasks_disable": plain(parameter="count"),
    "tasks_update": plain({"max_attempts": 7}, "count"),
    "tasks_reset": plain(parameter="count"),
    "tasks_trigger": plain({"payload": {"n": 1}}, "count"),
    "errors_retry": on(fingerprint),
    "queues_pause": plain(parameter="mail"),
    "queues_resume": plain(parameter="mail"),
    "queues_limit": plain({"max_concurrency": 3}, "mail"),
    "queues_unlimit": on(limited),
    "alerts_acknowledge": on(alert),
    "webhooks_add": plain({"url": "https://example.org/"}),
    "webhooks_remove": on(Caller.webhook),
    "webhooks_enable": on(Caller.webhook),
    "webhooks_disable": on(Caller.webhook),
    "webhooks_test": on(Caller.webhook),
    "feeds_subscribe": plain({"url": "https://example.org/feed.xml"}),
    "feeds_import": plain({"opml": OPML}),
    "feeds_unsubscribe": on(Caller.feed),
    "feeds_fetch": on(Caller.feed),
}


async def test_every_change_of_the_document_is_written_down(shop: Shop, conn: Conn) -> None:
    caller = Caller(shop, conn, await people.cookie(shop.server, ADMIN), await people.jwt(shop.server, USER))
    missing = []
    for operation, (method, path) in (await changes(shop)).items():
        if operation not in EXEMPT:
            await caller.call(operation, method, path)
            await write_refusals(shop.server.state)  # sign-in links, too, are counted first
            if not rows(conn):
                missing.append(operation)
    assert missing == []


async def test_every_refusal_is_written_down(shop: Shop, conn: Conn) -> None:
    """Of strangers, and of an account that may not."""
    known = await changes(shop)
    eve = await people.api_token(shop.server, USER, "own.read")
    for headers, status, actor in (({}, 401, "anonymous"), (eve, 403, USER)):
        seen = set()
        for operation, (method, path) in known.items():
            if operation in EXEMPT or (operation.startswith("auth_") and operation != "auth_sign_out"):
                continue
            at = re.sub(r"\{\w+\}", "7b1e6a32-0000-4000-8000-000000000000", path)
            async with shop.server.client.request(method, at, headers=headers, json={}) as answer:
                assert answer.status == status, (operation, answer.status)
            await write_refusals(shop.server.state)  # once a minute, as a rule
            seen.add(f"{method} {path}")
        written = conn.execute(
            "SELECT target FROM rota.audit WHERE operation = 'access.refused' AND actor = %s AND detail ->> 'status' = %s",
            [actor, str(status)],
        ).fetchall()
        assert seen - {re.sub(r":path", "", target) for (target,) in written} == set()


async def test_failed_sign_ins_are_written_down(shop: Shop, conn: Conn) -> None:
    for _ in range(3):
        async with shop.server.client.get("/auth/verify", params={"token": "wrong"}) as answer:
            assert answer.status == 401
    async with shop.server.client.post("/auth/sign-in", data={"token": "wrong"}) as answer:
        assert answer.status == 401
    await write_refusals(shop.server.state)
    assert conn.execute(
        "SELECT actor, target, (detail ->> 'count')::integer FROM rota.audit WHERE operation = 'sign_in.refused' ORDER BY target"
    ).fetchall() == [("anonymous", "GET /auth/verify", 3), ("anonymous", "POST /auth/sign-in", 1)]


async def test_a_flood_of_refusals_writes_few_rows(shop: Shop, conn: Conn) -> None:
    before = len(rows(conn))
    documented = [path for _, path in (await changes(shop)).values()]
    for n in range(3):
        for path in documented:
            async with shop.server.client.post(re.sub(r"\{\w+\}", f"x{n}", path), headers={"Cookie": f"rota={n}"}):
                pass
    await write_refusals(shop.server.state)
    assert len(rows(conn)) - before == ROWS + 1
    assert rows(conn)[-1] == ("access.refused", "other requests")
