"""One call: how far it goes, how long it takes, how much is read, and what goes along when it is sent on."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import subprocess
import zlib
from collections.abc import AsyncIterator
from functools import lru_cache
from pathlib import Path

import pytest
from aiohttp import web
from tests.support.outside import Memory, Names, Outside, outside, raw

from rota.model.http_call import read_url
from rota.outbound.address import Rules
from rota.outbound.client import Answer, Bounds, Client, NotCalled, Request, _tls

pytestmark = pytest.mark.req("H03")

MB = 1024 * 1024


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    client = Client(Rules(["127.0.0.0/8"]), resolver=Names(a_org=[["127.0.0.1"]], b_org=[["127.0.0.1"]]))
    yield client
    await client.close()


@pytest.fixture
async def server() -> AsyncIterator[Outside]:
    async with outside() as server:
        yield server


async def get(client: Client, url: str, **bounds: float) -> Answer:
    return await client.call(Request(read_url(url), "GET"), Bounds(**{"timeout_s": 5, **bounds}))  # type: ignore[arg-type]


async def test_it_works(client: Client, server: Outside) -> None:
    server.answers(201, "made", X_Thing="7")
    request = Request(read_url(server.url + "?a=%2F&b=c+d"), "PUT", {"X-Mine": "1", "Content-Type": "text/plain"}, b"body")
    answer = await client.call(request)
    assert (answer.status, answer.head, answer.size, answer.cut, answer.redirects) == (201, b"made", 4, False, 0)
    assert answer.headers["x-thing"] == "7"
    [got] = server.got
    assert (got.method, got.path, got.query, got.body) == ("PUT", "/hook", "a=%2F&b=c+d", b"body")
    assert (got.headers["x-mine"], got.headers["user-agent"], got.headers["accept-encoding"]) == ("1", "rota", "identity")


async def test_cookies_of_one_call_are_not_anothers(client: Client, server: Outside) -> None:
    server.answers(200, Set_Cookie="a=b; Path=/")
    for _ in range(2):
        await get(client, server.url)
    assert all("cookie" not in got.headers for got in server.got)


class TestRedirects:
    @pytest.mark.parametrize(
        ("status", "method", "becomes", "body"),
        [
            (301, "POST", "GET", b""), (302, "POST", "GET", b""), (303, "POST", "GET", b""), (303, "PUT", "GET", b""),
            (307, "POST", "POST", b"x"), (308, "PUT", "PUT", b"x"), (301, "PUT", "PUT", b"x"), (302, "DELETE", "DELETE", b"x"),
        ],
    )  # fmt: skip
    async def test_methods(self, client: Client, server: Outside, status: int, method: str, becomes: str, body: bytes) -> None:
        server.answer = _once_to(status, "/there?q=1")
        request = Request(read_url(server.url), method, {"Content-Type": "text/plain", "Authorization": "t"}, b"x")
        answer = await client.call(request)
        assert (answer.status, answer.redirects) == (200, 1)
        there = server.got[1]
        assert (there.method, there.path, there.query, there.body) == (becomes, "/there", "q=1", body)
        assert there.headers["authorization"] == "t"
        assert ("content-type" in there.headers) is bool(body)

    async def test_head_stays_head(self, client: Client, server: Outside) -> None:
        server.answer = _once_to(303, "/there")
        await client.call(Request(read_url(server.url), "HEAD"))
        assert [got.method for got in server.got] == ["HEAD", "HEAD"]

    @pytest.mark.req("H11")
    async def test_another_host_is_told_nothing_that_was_for_the_first(self, client: Client, server: Outside) -> None:
        secret = {"Authorization": "Bearer x", "Cookie": "c=d", "X-Api-Key": "k", "webhook-signature": "v1,x", "webhook-id": "1"}
        for there in (f"http://b.org:{server.port}/there", f"http://127.0.0.1:{server.port}/there"):
            server.got.clear()
            server.answer = _once_to(307, there)
            request = Request(read_url(f"http://a.org:{server.port}/"), "POST", {**secret, "Content-Type": "text/plain"}, b"x")
            await client.call(request)
            first, second = server.got
            assert first.headers.keys() >= {name.lower() for name in secret}
            assert second.headers.keys().isdisjoint({name.lower() for name in secret})
            assert second.headers["content-type"] == "text/plain"
            assert second.headers["host"].startswith(("b.org", "127.0.0.1"))

    async def test_ten_and_no_more(self, client: Client, server: Outside) -> None:
        async def count(request: web.Request) -> web.Response:
            number = int(request.query.get("n", 0))
            return web.Response(status=302, headers={"Location": f"/?n={number + 1}"}) if number < left else web.Response()

        left, server.answer = 10, count
        assert (await get(client, server.url)).redirects == 10
        left = 11
        with pytest.raises(NotCalled, match="more than 10 times") as raised:
            await get(client, server.url)
        assert (raised.value.kind, raised.value.redirects) == ("redirect", 10)

    async def test_none_where_none_are_wanted(self, client: Client, server: Outside) -> None:
        server.answers(302, Location="/there")
        assert (await get(client, server.url, redirects=0)).status == 302
        assert len(server.got) == 1

    @pytest.mark.parametrize("location", ["", "http://", "http://[", "//", "http://a b/", "\x01", "http:///x", "javascript:1"])
    async def test_to_nowhere(self, client: Client, location: str) -> None:
        async def script(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 302 Found\r\nLocation: " + location.encode() + b"\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()

        async with raw(script) as url:
            with pytest.raises(NotCalled) as raised:
                await get(client, url)
        assert raised.value.kind in ("redirect", "protocol")


class TestBounds:
    @pytest.mark.parametrize(
        "beginning", [b"", b"HTTP/1.1 200 ", b"HTTP/1.1 200 OK\r\nX", b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n"]
    )
    async def test_a_server_that_dribbles_has_an_end(self, client: Client, beginning: bytes) -> None:
        async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(beginning)
            while True:
                writer.write(b"0" if beginning else b"")
                await writer.drain()
                await asyncio.sleep(0.15)

        async with raw(drip) as url:
            with pytest.raises(NotCalled, match=r"within 1\.5 s") as raised:
                await get(client, url, timeout_s=1.5)
        assert raised.value.kind == "timeout"
        assert raised.value.status == (200 if beginning.endswith(b"\r\n\r\n") else None)

    async def test_the_end_is_of_all_redirects_together(self, client: Client, server: Outside) -> None:
        async def slow(request: web.Request) -> web.Response:
            await asyncio.sleep(0.15)
            return web.Response(status=302, headers={"Location": "/again"})

        server.answer = slow
        with pytest.raises(NotCalled, match=r"within 0\.5 s"):  # not that there were too many redirects
            await get(client, server.url, timeout_s=0.5)

    async def test_the_end_is_of_looking_the_name_up_as_well(self) -> None:
        class Never(Names):
            async def resolve(self, *_: object, **__: object) -> list[object]:  # type: ignore[override]
                await asyncio.sleep(60)
                return []

        client = Client(Rules(), resolver=Never())
        with pytest.raises(NotCalled, match=r"no answer within 0\.2 s"):
            await get(client, "http://slow.org/", timeout_s=0.2)
        await client.close()

    @pytest.mark.parametrize("chunked", [True, False])
    async def test_of_an_endless_answer_so_much_is_read(self, client: Client, chunked: bool) -> None:
        async def pour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            kind = b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"\r\n"
            writer.write(b"HTTP/1.1 200 OK\r\n" + kind)
            piece = b"x" * 65536
            while True:
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
                await writer.drain()

        async with raw(pour) as url:
            with Memory() as memory:
                answer = await get(client, url, max_bytes=10 * MB, head_bytes=100)
        assert (answer.status, answer.cut, answer.head) == (200, True, b"x" * 100)
        assert 10 * MB < answer.size < 11 * MB
        assert memory.grown < 20 * MB

    @pytest.mark.parametrize("coding", ["gzip", "x-gzip", "deflate", "br", "zstd", "gzip, gzip"])
    async def test_what_is_small_on_the_way_stays_so(self, client: Client, server: Outside, coding: str) -> None:
        bomb = _bomb(31 if "gzip" in coding else 15)

        async def answer(_: web.Request) -> web.Response:
            return web.Response(body=bomb, headers={"Content-Encoding": coding})

        server.answer = answer
        with Memory() as memory:
            got = await get(client, server.url, head_bytes=4096)
        assert (got.status, got.size) == (200, len(bomb))
        assert len(got.head) <= 4096
        assert memory.grown < 20 * MB

    @pytest.mark.parametrize(
        "packed", [gzip.compress(b"hello", mtime=0), zlib.compress(b"hello"), zlib.compress(b"hello")[2:-4], b"hello"]
    )
    async def test_a_packed_answer_is_shown_unpacked(self, client: Client, server: Outside, packed: bytes) -> None:
        async def answer(_: web.Request) -> web.Response:
            return web.Response(body=packed, headers={"Content-Encoding": "gzip" if packed[:2] == b"\x1f\x8b" else "deflate"})

        server.answer = answer
        assert (await get(client, server.url)).head == b"hello"

    @pytest.mark.parametrize(
        "headers",
        [
            b"".join(b"X-%d: y\r\n" % n for n in range(5000)),
            b"X: " + b"y" * 100_000 + b"\r\n",
            b"X" * 100_000 + b": y\r\n",
            b": y\r\n",
            b"X\0: y\r\n",
            b"Content-Length: 1\r\nContent-Length: 2\r\n",
            b"Content-Length: -1\r\n",
        ],
    )
    async def test_floods_of_headers_and_nonsense(self, client: Client, headers: bytes) -> None:
        async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n")
            await writer.drain()

        async with raw(flood) as url:
            with Memory() as memory, pytest.raises(NotCalled) as raised:
                await get(client, url)
        assert raised.value.kind in ("protocol", "connection")
        assert memory.grown < 20 * MB

    async def test_an_answer_that_never_begins(self, client: Client) -> None:
        """Any number of interim answers is none."""

        async def wait(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                writer.write(b"HTTP/1.1 102 Processing\r\n\r\n" * 10)
                await writer.drain()
                await asyncio.sleep(0.01)

        async with raw(wait) as url:
            with pytest.raises(NotCalled, match=r"no answer within 0\.4 s"):
                await get(client, url, timeout_s=0.4)

    @pytest.mark.parametrize(
        ("beginning", "kind"),
        [
            (b"", "connection"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "protocol"),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nha", "protocol"),
            (b"hello, who is there?\r\n\r\n", "protocol"),
        ],
    )
    async def test_answers_that_break_off(self, client: Client, beginning: bytes, kind: str) -> None:
        async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(beginning)
            await writer.drain()

        async with raw(hang_up) as url:
            with pytest.raises(NotCalled) as raised:
                await get(client, url)
        assert raised.value.kind == kind

    async def test_nobody_listens(self, client: Client) -> None:
        async with raw(lambda *_: asyncio.sleep(0)) as url:
            pass
        with pytest.raises(NotCalled, match="no connection") as raised:
            await get(client, url)
        assert raised.value.kind == "connection"

    async def test_no_such_name(self, client: Client) -> None:
        with pytest.raises(NotCalled, match=r"nowhere\.org was not found") as raised:
            await get(client, "http://nowhere.org/?token=hunter2canary")
        assert raised.value.kind == "dns"
        assert "hunter2canary" not in str(raised.value)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and a.org that nobody else has signed, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=a.org", "-addext", "subjectAltName=DNS:a.org,IP:127.0.0.1",
         "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder / "cert.pem", folder / "key.pem"


class TestTls:
    @pytest.mark.parametrize(
        ("host", "trusted", "newest", "kind"),
        [
            ("a.org", True, ssl.TLSVersion.TLSv1_3, None),
            ("a.org", True, ssl.TLSVersion.TLSv1_2, None),
            ("a.org", True, ssl.TLSVersion.TLSv1_1, "tls"),
            ("b.org", True, ssl.TLSVersion.TLSv1_3, "tls"),
            ("a.org", False, ssl.TLSVersion.TLSv1_3, "tls"),
        ],
    )
    async def test_who_is_believed(
        self, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, host: str, trusted: bool, newest: ssl.TLSVersion,
        kind: str | None,
    ) -> None:  # fmt: skip
        cert, key = certificate
        monkeypatch.setattr("rota.outbound.client._tls", _tls.__wrapped__)
        if trusted:
            monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        if newest < ssl.TLSVersion.TLSv1_2:
            context.set_ciphers("ALL:@SECLEVEL=0")
            with pytest.warns(DeprecationWarning, match="TLSv1"):
                context.minimum_version = ssl.TLSVersion.TLSv1
            with pytest.warns(DeprecationWarning, match="TLSv1"):
                context.maximum_version = newest
        else:
            context.maximum_version = newest
        got = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            got.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://a.org/x\r\nContent-Length: 0\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        client = Client(Rules(["127.0.0.1"]), resolver=Names(a_org=[["127.0.0.1"]], b_org=[["127.0.0.1"]]))
        try:
            if kind is not None:
                with pytest.raises(NotCalled) as raised:
                    await get(client, f"https://{host}:{port}/")
                assert raised.value.kind in (kind, "connection")  # a server may hang up on who wants a later version
                assert got == []
            else:
                assert (await get(client, f"https://{host}:{port}/", redirects=0)).status == 302
                with pytest.raises(NotCalled, match="from https to http"):
                    await get(client, f"https://{host}:{port}/")
        finally:
            await client.close()
            server.close()
            await server.wait_closed()


def _once_to(status: int, location: str) -> object:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/there":
            return web.Response(text="there")
        return web.Response(status=status, headers={"Location": location})

    return answer


@lru_cache
def _bomb(bits: int) -> bytes:
    """64 MB of nothing, packed."""
    packer = zlib.compressobj(9, zlib.DEFLATED, bits)
    return b"".join(packer.compress(bytes(MB)) for _ in range(64)) + packer.flush()
