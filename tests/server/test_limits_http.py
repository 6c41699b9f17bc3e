"""How long a request may be, how often one may ask, and who it is that asks when proxies stand in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastapi import FastAPI, Request
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import Message, Receive, Scope, Send
from tests.server.conftest import Serve
from tests.server.test_answers import talk
from tests.support import people
from tests.support.serving import Serving, listening_to, settings_for

from rota import Rota
from rota.config import ServerSettings
from rota.errors import ConfigError
from rota.server.asgi import make_asgi, running
from rota.server.headers import SecurityHeaders
from rota.server.proxies import Proxied
from rota.server.rates import MOST_BUCKETS, Buckets


def add_echo(asgi: FastAPI) -> None:
    """Make a route that reads its body and says who asked."""

    async def echo(request: Request) -> dict[str, object]:
        body = await request.body()
        assert request.client is not None
        return {
            "length": len(body),
            "client": request.client.host,
            "scheme": request.url.scheme,
            "root": request.scope["root_path"],
        }

    asgi.add_api_route("/echo", echo, methods=["GET", "POST"], include_in_schema=False)


@pytest.fixture
async def small(serve: Serve) -> AsyncIterator[Serving]:
    """A server that takes 1024 bytes."""
    async with serve(server_max_body_bytes=1024) as server:
        add_echo(server.asgi)
        yield server


@pytest.mark.req("A03")
class TestBodies:
    async def test_by_its_length(self, small: Serving) -> None:
        async with small.client.post("/echo", data=b"x" * 1024) as answer:
            assert (await answer.json())["length"] == 1024
        async with small.client.post("/echo", data=b"x" * 1025) as answer:
            assert answer.status == 413
            said = await answer.json(content_type=None)
            assert said["code"] == "too_large"
            assert "1,024" in said["detail"]

    async def test_before_anything_of_it_was_sent(self, small: Serving) -> None:
        """The answer comes although no byte of the body did."""
        head = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999\r\n\r\n"
        assert (await talk(small.port, head)).startswith(b"HTTP/1.1 413")

    async def test_by_counting_chunks(self, small: Serving) -> None:
        head = b"POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        for chunks, status in ((2, b"200"), (3, b"413")):
            body = [b"200\r\n" + b"x" * 512 + b"\r\n"] * chunks
            answer = await talk(small.port, head, *body, b"0\r\n\r\n")
            assert answer.split()[1] == status

    async def test_an_endless_one_is_not_read_to_its_end(self, small: Serving) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", small.port)
        writer.write(b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        sent = 0
        try:
            while sent < 100_000_000:
                writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
                await writer.drain()
                sent += 0x10000
        except ConnectionError:
            pass
        assert sent < 20_000_000
        writer.close()

    @pytest.mark.req("T09")
    @pytest.mark.parametrize(
        "headers",
        [
            b"Content-Length: 5\r\nTransfer-Encoding: chunked",
            b"transfer-encoding: chunked\r\ncontent-length: 0",
            b"Content-Length: 5\r\nTransfer_Encoding: chunked",
            b"TRANSFER_ENCODING: chunked",
            b"Content_Length: 5",
        ],
    )
    async def test_one_whose_end_is_ambiguous_is_refused_and_the_connection_closed(self, small: Serving, headers: bytes) -> None:
        smuggled = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
        answer = await talk(small.port, b"POST /echo HTTP/1.1\r\nHost: a\r\n" + headers + b"\r\n\r\n0\r\n\r\n" + smuggled)
        assert answer.startswith(b"HTTP/1.1 400")
        assert answer.count(b"HTTP/1.1") == 1
        assert b"connection: close" in answer.lower()
        assert b"application/problem+json" in answer

    async def test_a_length_that_is_none(self, small: Serving) -> None:
        for length in (b"1e3", b"+5", b"0x10", b"5 5", b"", b"99999999999999999999999"):
            answer = await talk(small.port, b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: " + length + b"\r\n\r\n")
            assert answer.split()[1] in (b"400", b"413"), length
            assert b"application/problem+json" in answer


@pytest.mark.req("A03")
class TestRates:
    async def test_an_address_has_so_many_a_minute(self, serve: Serve) -> None:
        async with serve(server_requests_per_minute=5) as server:
            seen = []
            for _ in range(7):
                async with server.client.get("/nowhere") as answer:
                    seen.append(answer.status)
            assert seen == [404] * 5 + [429] * 2
            assert 1 <= int(answer.headers["Retry-After"]) <= 12
            assert answer.headers["X-Frame-Options"] == "DENY"
            async with server.client.get("/healthz") as health:
                assert health.status == 200  # who keeps it alive is not counted

    async def test_made_up_credentials_get_nobody_another_bucket(self, serve: Serve) -> None:
        async with serve(server_requests_per_minute=5) as server:
            seen = []
            for number in range(7):
                headers = {"Authorization": f"Bearer made-up-{number}", "Cookie": f"x={number}"}
                async with server.client.get("/auth/me", headers=headers) as answer:
                    seen.append(answer.status)
            assert seen == [401] * 5 + [429] * 2

    async def test_who_is_signed_in_does_not_suffer_from_others_at_the_same_address(self, serve: Serve) -> None:
        async with serve(server_requests_per_minute=6) as server:
            await people.make(server, "ada@example.org", "admin")
            await people.make(server, "bob@example.org", "admin")
            ada, bob = [await people.api_token(server, f"{name}@example.org") for name in ("ada", "bob")]
            for who in (ada, bob):
                async with server.client.get("/auth/me", headers=who) as answer:
                    assert answer.status == 200
            for _ in range(4):  # the address has had its six
                async with server.client.get("/nowhere"):
                    pass
            async with server.client.get("/nowhere") as answer:
                assert answer.status == 429
            for _ in range(6):
                async with server.client.get("/auth/me", headers=ada) as answer:
                    assert answer.status == 200
            async with server.client.get("/auth/me", headers=ada) as answer:
                assert answer.status == 429
            async with server.client.get("/auth/me", headers=bob) as answer:
                assert answer.status == 200

    def test_a_bucket_fills_up_evenly(self) -> None:
        now = [100.0]
        buckets = Buckets(60, clock=lambda: now[0])
        assert [buckets.take(b"a") for _ in range(60)] == [0.0] * 60
        assert buckets.take(b"a") == pytest.approx(1.0)
        assert buckets.take(b"b") == 0.0
        now[0] += 1.0
        assert buckets.take(b"a") == 0.0
        assert buckets.take(b"a") > 0

    def test_there_are_no_endless_buckets(self) -> None:
        buckets = Buckets(60)
        for number in range(MOST_BUCKETS + 100):
            buckets.take(str(number).encode())
        assert len(buckets) == MOST_BUCKETS


@pytest.mark.req("H02")
class TestProxies:
    @pytest.mark.parametrize(
        ("trusted", "headers", "client", "scheme"),
        [
            ((), {"X-Forwarded-For": "9.9.9.9", "X-Forwarded-Proto": "https"}, "127.0.0.1", "http"),  # anybody can write that
            (("10.0.0.1",), {"X-Forwarded-For": "9.9.9.9"}, "127.0.0.1", "http"),
            (("127.0.0.1",), {"X-Forwarded-For": "9.9.9.9", "X-Forwarded-Proto": "https"}, "9.9.9.9", "https"),
            (("127.0.0.0/8",), {"X-Forwarded-For": "6.6.6.6, 9.9.9.9"}, "9.9.9.9", "http"),  # the first was written by who asks
            (("127.0.0.1", "10.0.0.0/8"), {"X-Forwarded-For": "6.6.6.6, 9.9.9.9, 10.1.1.1"}, "9.9.9.9", "http"),
            (("127.0.0.1",), {"X-Forwarded-For": "nonsense"}, "127.0.0.1", "http"),
            (("127.0.0.1",), {"X-Forwarded-For": "9.9.9.9:4711"}, "9.9.9.9", "http"),
            (("127.0.0.1",), {"X-Forwarded-For": "[2001:db8::7]:4711"}, "2001:db8::7", "http"),
            (("127.0.0.1",), {"X-Forwarded-For": "2001:db8::7"}, "2001:db8::7", "http"),
            (("127.0.0.1",), {"X-Forwarded-Proto": "javascript"}, "127.0.0.1", "http"),
        ],
    )
    async def test_who_asks(self, trusted: tuple[str, ...], headers: dict[str, str], client: str, scheme: str) -> None:
        seen: dict[str, Any] = {}
        sent: list[Message] = []

        async def answer(scope: Scope, _receive: Receive, send: Send) -> None:
            seen.update(scope)
            await send({"type": "http.response.start", "status": 200, "headers": []})

        async def send(message: Message) -> None:
            sent.append(message)

        edge = Proxied(SecurityHeaders(answer), ServerSettings(trusted_proxies=trusted))
        given = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "client": ("127.0.0.1", 4711), "scheme": "http", "path": "/", "headers": given}
        await edge(scope, None, send)  # type: ignore[arg-type]
        assert (seen["client"][0], seen["scheme"]) == (client, scheme)
        assert ("strict-transport-security" in str(sent)) is (scheme == "https")

    async def test_over_http(self, serve: Serve) -> None:
        async with serve(server_trusted_proxies=["127.0.0.1"]) as server:
            add_echo(server.asgi)
            headers = {"X-Forwarded-For": "6.6.6.6, 9.9.9.9", "X-Forwarded-Proto": "https"}
            async with server.client.get("/echo", headers=headers) as answer:
                said = await answer.json()
                assert (said["client"], said["scheme"]) == ("9.9.9.9", "https")
                assert "Strict-Transport-Security" in answer.headers

    def test_nonsense_is_refused_at_the_start(self) -> None:
        with pytest.raises(ConfigError, match=r"trusted_proxies='10.0.0.0/99'"):
            Proxied(Starlette(), ServerSettings(trusted_proxies=("10.0.0.0/99",)))

    async def test_below_a_path_of_a_proxy_that_keeps_it_or_cuts_it_off(self, serve: Serve) -> None:
        async with serve(server_root_path="/rota") as server:
            add_echo(server.asgi)
            for before in ("/rota", ""):
                async with server.client.get(f"{before}/echo") as answer:
                    assert (await answer.json())["root"] == "/rota"
                async with server.client.get(f"{before}/openapi.json") as answer:
                    assert (await answer.json())["servers"] == [{"url": "/rota"}]


@pytest.mark.req("H02")
class TestMounted:
    async def test_below_a_path_of_another_application(self, dsn: str) -> None:
        """Requests work as they are; what goes on beside them begins and ends with the other application's lifespan."""
        app = Rota(settings=settings_for(dsn))
        inner = make_asgi(app)
        outer = Starlette(routes=[Mount("/rota", inner)], lifespan=lambda _: running(inner))
        async with listening_to(outer) as (_, client):
            assert inner.state.rota.background.timers
            async with client.get("/rota/readyz") as answer:
                assert (answer.status, answer.headers["X-Frame-Options"]) == (200, "DENY")
            async with client.get("/rota/openapi.json") as answer:
                document = await answer.json()
                assert document["servers"] == [{"url": "/rota"}]
                assert "/healthz" in document["paths"]
            async with client.get("/rota/auth/me") as answer:
                assert answer.status == 401
            async with client.get("/healthz") as answer:
                assert answer.status == 404
                assert "X-Frame-Options" not in answer.headers  # the other application's own
        assert inner.state.rota.draining
        await app.aclose()

    async def test_without_a_lifespan(self, dsn: str) -> None:
        app = Rota(settings=settings_for(dsn))
        inner = make_asgi(app)
        async with listening_to(Starlette(routes=[Mount("/deep/rota", inner)])) as (_, client):
            async with client.get("/deep/rota/readyz") as answer:
                assert json.loads(await answer.text()) == {"status": "ready", "wrong": None}
            assert inner.state.rota.background is None
        await inner.state.rota.aclose()
        await app.aclose()
