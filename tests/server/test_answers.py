"""What every answer has, whatever it answers: headers, an id, and one form for everything that is wrong."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from fastapi import FastAPI
from pydantic import BaseModel
from tests.server.conftest import Serve
from tests.support.serving import Serving
from tests.support.wait import PATIENCE_S, until

from rota.errors import ConfigError, Conflict, DatabaseError, Forbidden, LeaseLost, NotFound, NotMigrated, UsageError
from rota.server.headers import DEFAULTS, PAGE

ALWAYS = (
    "Content-Security-Policy",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "Referrer-Policy",
    "Permissions-Policy",
    "Cross-Origin-Opener-Policy",
    "Cross-Origin-Resource-Policy",
    "Cache-Control",
)


class Order(BaseModel):
    """Something to send."""

    password: int
    name: str = ""


def add_failing_routes(asgi: FastAPI) -> None:
    """Make routes that go wrong in every way."""
    raised: dict[str, Exception] = {
        "internal": RuntimeError("the password is hunter2"),
        "usage": UsageError("limit=0 is out of range: from 1 to 500"),
        "notfound": NotFound("no job"),
        "conflict": Conflict("there is one"),
        "forbidden": Forbidden("may not"),
        "config": ConfigError("mail.smtp_password is hunter2"),
        "run": LeaseLost("gone"),
        "database": DatabaseError("PostgreSQL cannot be reached: connection to 10.1.2.3 as hunter2 failed"),
        "unmigrated": NotMigrated('relation "rota.job" does not exist: run `rota migrate up`'),
        "undefined": psycopg.errors.UndefinedTable('relation "shop.item" does not exist\nLINE 1: password hunter2'),
        "slow": psycopg.errors.QueryCanceled("canceling statement due to statement timeout"),
        "locked": psycopg.errors.LockNotAvailable("canceling statement due to lock timeout"),
        "standby": psycopg.errors.ReadOnlySqlTransaction("cannot execute INSERT in a read-only transaction"),
        "lost": psycopg.OperationalError("server closed the connection; password hunter2"),
        "nul": psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"),
        "surrogate": UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
        "odd": UsageError("name='\ud800\x00' is not allowed, nor password=hunter2"),
    }

    async def fail(kind: str) -> None:
        raise raised[kind]

    async def order(order: Order) -> Order:
        return order

    asgi.add_api_route("/fail/{kind}", fail)
    asgi.add_api_route("/order", order, methods=["POST"])


@pytest.fixture
async def failing(server: Serving) -> Serving:
    add_failing_routes(server.asgi)
    return server


@pytest.mark.req("H07")
async def test_security_headers_are_on_every_answer(failing: Serving) -> None:
    for method, path, status in (
        ("GET", "/healthz", 200),
        ("GET", "/nowhere", 404),
        ("DELETE", "/healthz", 405),
        ("GET", "/fail/internal", 500),
        ("GET", "/fail/database", 503),
        ("POST", "/order", 422),
        ("OPTIONS", "/healthz", 405),
        ("GET", "/openapi.json", 200),
    ):
        async with failing.client.request(method, path) as answer:
            assert answer.status == status
            for name in ALWAYS:
                assert len(answer.headers.getall(name)) == 1, (path, name)
            assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
            assert answer.headers["Cache-Control"] == "no-store"
            assert "Strict-Transport-Security" not in answer.headers  # it did not come by https
            assert "Server" not in answer.headers


@pytest.mark.req("H07", "H08")
async def test_what_is_no_http_is_answered_in_the_same_form(server: Serving) -> None:
    for sent in (
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nBad Header: x\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"POST /order HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST /order HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
    ):
        head, _, body = (await talk(server.port, sent)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400"), sent
        assert b"content-security-policy: default-src 'none'" in head.lower()
        assert json.loads(body)["code"] == "bad_request"


async def talk(port: int, *parts: bytes) -> bytes:
    """Send bytes as they are, and give what comes until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    finally:
        writer.close()


@pytest.mark.req("H07")
async def test_a_route_may_loosen_what_a_page_needs_and_keeps_the_rest(server: Serving) -> None:
    from starlette.responses import HTMLResponse

    async def page() -> HTMLResponse:
        return HTMLResponse("<p>hello", headers={**PAGE, "cache-control": "no-cache"})

    server.asgi.add_api_route("/page", page)
    async with server.client.get("/page") as answer:
        assert answer.headers.getall("Content-Security-Policy") == [PAGE["content-security-policy"]]
        assert answer.headers["Cache-Control"] == "no-cache"
        assert answer.headers["X-Frame-Options"] == "DENY"
    policy = PAGE["content-security-policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert set(re.findall(r"https?:|\*", policy)) == set()
    assert DEFAULTS["referrer-policy"] != "no-referrer"  # with which browsers hide the origin of our own forms


CODES = {
    "internal": (500, "internal"),
    "usage": (422, "usage"),
    "notfound": (404, "not_found"),
    "conflict": (409, "conflict"),
    "forbidden": (403, "forbidden"),
    "config": (500, "config"),
    "run": (500, "internal"),
    "database": (503, "database"),
    "unmigrated": (503, "not_migrated"),
    "undefined": (503, "not_migrated"),
    "slow": (503, "too_slow"),
    "locked": (503, "locked"),
    "standby": (503, "database"),
    "lost": (503, "database"),
    "nul": (422, "validation"),
    "surrogate": (422, "validation"),
    "odd": (422, "usage"),
}


@pytest.mark.req("A03", "H08")
async def test_errors_are_problems_with_a_stable_code(failing: Serving) -> None:
    details = {}
    for kind, (status, code) in CODES.items():
        async with failing.client.get(f"/fail/{kind}", headers={"X-Request-Id": "mine-7"}) as answer:
            assert (answer.status, answer.content_type) == (status, "application/problem+json"), kind
            text = await answer.text()
            assert ("Retry-After" in answer.headers) is (status == 503)
        said = json.loads(text)
        assert (said["status"], said["code"], said["request_id"]) == (status, code, "mine-7")
        assert said["type"].endswith(code)
        details[kind] = said["detail"]
        for secret in ("hunter2", "10.1.2.3", "Traceback"):
            assert secret not in text, kind
    assert all(details.values())
    assert "filter" in details["slow"]
    assert details["undefined"] == 'relation "shop.item" does not exist: run `rota migrate up`'


@pytest.mark.req("A03")
async def test_a_body_that_does_not_fit_is_told_by_field_and_never_echoed(failing: Serving) -> None:
    async with failing.client.post("/order", json={"password": "hunter2", "name": 7}) as answer:
        text = await answer.text()
        assert answer.status == 422
    said = json.loads(text)
    assert said["code"] == "validation"
    assert [error["field"] for error in said["errors"]] == ["body.password", "body.name"]
    assert "hunter2" not in text


@pytest.mark.req("A03")
async def test_a_body_that_cannot_be_read_is_no_error_of_ours(failing: Serving) -> None:
    headers = {"Content-Type": "application/json"}
    for body in (
        b"{",
        b'"\xff"',
        b'{"password": 1, "name": "\\ud800"}',
        b'{"password": 1e999}',
        b"[" * 100_000,
        b'{"password": ' + b"9" * 5000 + b"}",
        b"",
        b"\x00",
    ):
        async with failing.client.post("/order", data=body, headers=headers) as answer:
            assert answer.status in (400, 422), body[:50]
            assert (await answer.json(content_type=None))["code"] in ("validation", "bad_request")


@pytest.mark.req("O01")
async def test_a_sane_request_id_is_kept_and_another_made_up(server: Serving) -> None:
    for given in ("mine-7", "a" * 64):
        async with server.client.get("/healthz", headers={"X-Request-Id": given}) as answer:
            assert answer.headers.getall("X-Request-Id") == [given]
    for given in ("", "a b", "a" * 65, "<script>", 'x","y":"', "é"):
        async with server.client.get("/healthz", headers={"X-Request-Id": given}) as answer:
            (made,) = answer.headers.getall("X-Request-Id")
            assert made != given
            assert re.fullmatch(r"[0-9a-f-]{36}", made)


@pytest.mark.req("H07")
async def test_nobody_writes_headers_of_ours(server: Serving) -> None:
    """Neither by a path nor by an id with line breaks in it."""
    for sent in (
        b"GET /nowhere%0d%0aX-Evil:%201 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Request-Id: a%0d%0aX-Evil: 1\r\nConnection: close\r\n\r\n",
    ):
        head, _, _ = (await talk(server.port, sent)).partition(b"\r\n\r\n")
        assert b"x-evil" not in head.lower()


class Lines:
    """What is logged, instead of being written."""

    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []

    def __call__(self, _logger: object, _method: str, event: dict[str, Any]) -> str:
        self.said.append(event)
        return ""


@pytest.fixture
async def lines() -> AsyncIterator[Lines]:
    import structlog

    heard = Lines()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, structlog.processors.add_log_level, heard])
    yield heard
    structlog.reset_defaults()


@pytest.mark.req("O01")
async def test_requests_are_logged_without_what_was_asked(lines: Lines, serve: Serve) -> None:
    async with serve() as server:
        async with server.client.get("/auth/verify?token=hunter2", headers={"X-Request-Id": "mine-7"}):
            pass
        async with server.client.get("/healthz"):
            pass
        await until(lambda: lines.said, what="for the line")
    (line,) = lines.said
    assert (line["path"], line["correlation_id"], line["component"]) == ("/auth/verify", "mine-7", "server")
    assert {"method", "status", "ms", "client"} <= line.keys()
    assert "hunter2" not in str(lines.said)


@pytest.mark.req("H07")
async def test_a_socket_that_says_nothing_holds_nothing_up(server: Serving) -> None:
    with socket.create_connection(("127.0.0.1", server.port)):
        async with server.client.get("/healthz") as answer:
            assert answer.status == 200
