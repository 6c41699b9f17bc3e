"""Clients that send their requests slowly, or open many connections: they are cut, and everybody else is answered."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psycopg
import pytest
from tests.server.conftest import Serve
from tests.support import command, people, wait
from tests.support import jobs as given
from tests.support.processes import ended_after, until
from tests.support.serving import SECRET, Serving
from tests.support.sse import listen
from tests.support.wait import PATIENCE_S

from rota.config import load_settings
from rota.server import connections

pytestmark = pytest.mark.req("T09")

HEAD = b"GET /healthz HTTP/1.1\r\nHost: a\r\n"
WHOLE = HEAD + b"\r\n"
POST = b"POST /auth/magic-link HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
ADMIN = "ada@example.org"


@asynccontextmanager
async def connected(port: int, peer: str = "127.0.0.1") -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a connection from one of this machine's addresses."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(peer, 0))
    try:
        yield reader, writer
    finally:
        writer.close()


async def send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


async def rest(reader: asyncio.StreamReader) -> bytes:
    """Read until the server closes the connection."""
    async with asyncio.timeout(PATIENCE_S):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


async def answer_to(reader: asyncio.StreamReader) -> bytes:
    """Read one answer's head and body."""
    async with asyncio.timeout(PATIENCE_S):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        return head + await reader.readexactly(length)


async def looked_once(server: Serving) -> None:
    """Wait until the server knows what streams will be told the changes of."""
    await wait.until(lambda: server.state.hub.looks > 0, what="for the first look")


class TestDeadlines:
    @pytest.fixture
    async def server(self, serve: Serve) -> AsyncIterator[Serving]:
        async with serve(server_header_timeout_s=1, server_body_timeout_s=1, server_requests_per_minute=1_000_000) as server:
            yield server

    @pytest.mark.parametrize(
        ("sent", "part"), [(HEAD, b"header"), (b"G", b"header"), (POST, b"body"), (POST + b'{"email": ', b"body")]
    )
    async def test_a_request_that_does_not_arrive_is_answered_408(self, server: Serving, sent: bytes, part: bytes) -> None:
        async with connected(server.port) as (reader, writer):
            await send(writer, sent)
            told = await rest(reader)
        assert told.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert b'"code": "request_timeout"' in told
        assert b"server.%s_timeout_s allows 1 s" % part in told
        assert b"connection: close" in told.lower()
        assert b"x-content-type-options: nosniff" in told.lower()

    async def test_a_connection_that_sends_nothing_is_closed(self, server: Serving) -> None:
        async with connected(server.port) as (reader, _):
            assert await rest(reader) == b""

    @pytest.mark.parametrize("begun", [HEAD + b"X-Slow: ", POST])
    async def test_a_byte_now_and_then_does_not_extend_it(self, server: Serving, begun: bytes) -> None:
        async with connected(server.port) as (reader, writer):
            await send(writer, begun)
            told = asyncio.ensure_future(rest(reader))
            sent = 0
            while not told.done() and sent < 1000:
                writer.write(b" ")
                sent += 1
                await asyncio.wait({told}, timeout=0.05)
            assert (await told).startswith(b"HTTP/1.1 408")

    async def test_the_next_request_of_a_connection_has_a_deadline_too(self, server: Serving) -> None:
        async with connected(server.port) as (reader, writer):
            await send(writer, WHOLE)
            assert (await answer_to(reader)).startswith(b"HTTP/1.1 200")
            await send(writer, WHOLE + HEAD)  # pipelined: what follows waits in the server until the first is answered
            assert (await answer_to(reader)).startswith(b"HTTP/1.1 200")
            assert (await rest(reader)).startswith(b"HTTP/1.1 408")

    async def test_an_idle_connection_is_kept_for_the_next_request(self, server: Serving) -> None:
        async with connected(server.port) as (reader, writer), connected(server.port) as (silent, _):
            await send(writer, WHOLE)
            await answer_to(reader)
            assert await rest(silent) == b""  # the deadline for a first request has passed meanwhile
            await send(writer, WHOLE)
            assert (await answer_to(reader)).startswith(b"HTTP/1.1 200")

    async def test_a_stream_is_not_cut(self, server: Serving, conn: psycopg.Connection[Any]) -> None:
        given.declare(conn, "work")
        await people.make(server, ADMIN, "admin")
        ada = await people.cookie(server, ADMIN)
        async with listen(server.client, ada) as stream, connected(server.port) as (silent, _):
            await stream.until("hello")
            assert await rest(silent) == b""
            await looked_once(server)
            await server.state.control.pause_queue("default")
            await stream.until("queues")

    async def test_no_database_connection_waits_for_a_body(self, serve: Serve) -> None:
        async with serve(database_pool_max=1) as server, connected(server.port) as (reader, writer):
            await send(writer, POST)
            async with server.client.get("/readyz") as answer:
                assert answer.status == 200
            body = b'{"email": "eve@example.org"}'
            await send(writer, body + b" " * (100 - len(body)))
            assert (await answer_to(reader)).startswith(b"HTTP/1.1 200")


class TestCaps:
    async def test_the_oldest_idle_connection_of_a_peer_gives_way(self, serve: Serve) -> None:
        async with (
            serve(server_max_connections_per_peer=3) as server,
            connected(server.port) as (first, _),
            connected(server.port) as (second, second_writer),
            connected(server.port) as (_third, third_writer),
            connected(server.port) as (fourth, fourth_writer),
        ):
            await send(fourth_writer, WHOLE)
            assert (await answer_to(fourth)).startswith(b"HTTP/1.1 200")
            assert await rest(first) == b""
            await send(second_writer, WHOLE)
            assert (await answer_to(second)).startswith(b"HTTP/1.1 200")
            await send(third_writer, HEAD)
            async with connected(server.port, "127.0.0.2") as (other, other_writer):  # has connections of its own
                await send(other_writer, WHOLE)
                assert (await answer_to(other)).startswith(b"HTTP/1.1 200")

    async def test_what_is_being_answered_does_not_give_way(self, serve: Serve, conn: psycopg.Connection[Any]) -> None:
        given.declare(conn, "work")
        async with serve(server_max_connections_per_peer=2, server_max_connections=3) as server:
            await people.make(server, ADMIN, "admin")
            ada = await people.api_token(server, ADMIN)
            await server.client.close()
            async with (
                aiohttp.ClientSession(server.url) as client,
                listen(client, ada) as one,
                listen(client, ada) as two,
                connected(server.port) as (refused, _),
            ):
                told = await rest(refused)
                assert told.startswith(b"HTTP/1.1 429")
                assert b"server.max_connections_per_peer" in told
                elsewhere = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
                async with aiohttp.ClientSession(server.url, connector=elsewhere) as other, listen(other, ada) as three:
                    async with connected(server.port, "127.0.0.3") as (full, _):
                        told = await rest(full)
                        assert told.startswith(b"HTTP/1.1 503")
                        assert b"retry-after: 1" in told.lower()
                    await looked_once(server)
                    await server.state.control.pause_queue("default")
                    for stream in (one, two, three):
                        await stream.until("queues")

    async def test_a_proxy_has_no_limit_of_its_own(self, serve: Serve) -> None:
        async with (
            serve(server_max_connections_per_peer=1, server_trusted_proxies=["127.0.0.0/8"]) as server,
            connected(server.port) as (one, first),
            connected(server.port) as (two, second),
        ):
            for reader, writer in ((one, first), (two, second)):
                await send(writer, WHOLE)
                assert (await answer_to(reader)).startswith(b"HTTP/1.1 200")

    async def test_nothing_is_left_behind(self, serve: Serve) -> None:
        gates: list[connections.Gate] = []
        made = connections.Gate.__init__

        def remember(gate: connections.Gate, *args: Any, **named: Any) -> None:
            made(gate, *args, **named)
            gates.append(gate)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connections.Gate, "__init__", remember)
            async with serve(server_max_connections_per_peer=2, server_max_connections=3) as server:
                for number in range(12):
                    async with connected(server.port, f"127.0.0.{number % 4 + 1}") as (_, writer):
                        await send(writer, (WHOLE, HEAD, POST, b"nonsense\r\n\r\n")[number // 3])
        [gate] = gates
        assert (gate.open, gate._peers, len(gate._incomplete)) == (0, {}, 0)


class TestDescriptors:
    def test_some_are_kept_for_everything_else(self, monkeypatch: pytest.MonkeyPatch) -> None:
        limits = [1024, 1024]
        monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
        monkeypatch.setattr(resource, "setrlimit", lambda _, now: limits.__setitem__(slice(None), now))
        settings = load_settings(database_url="postgresql://x")
        assert 400 < connections.reserve_descriptors(settings) < 1024 - settings.database.pool_max
        limits[1] = 1_000_000  # then the limit is raised
        assert connections.reserve_descriptors(settings) == 2000
        assert 2000 < limits[0] < 3000
        limits[:] = [resource.RLIM_INFINITY] * 2
        assert connections.reserve_descriptors(settings) == 2000

    def test_half_open_requests_cost_nobody_else_an_answer(self, tmp_path: Path, dsn: str, conn: psycopg.Connection[Any]) -> None:
        """A server with 512 descriptors and 700 clients that send half a request: the next client is answered at once."""
        with served_with(512, tmp_path, dsn) as port, ExitStack() as stack:
            for number in range(700):
                peer = f"127.0.1.{number % 200 + 1}"
                half = socket.create_connection(("127.0.0.1", port), PATIENCE_S, source_address=(peer, 0))
                stack.enter_context(half)
                half.sendall(HEAD if number % 2 else POST)
            for _ in range(5):  # whose address does not matter
                for peer in ("127.0.0.9", "127.0.1.1"):
                    assert readyz(port, peer).startswith(b"HTTP/1.1 200")
            ours = (
                "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'rota server%' AND datname = current_database()"
            )
            assert (conn.execute(ours).fetchone() or (99,))[
                0
            ] < 10  # requests that come one after the other, and what goes on beside them
        assert "which leaves 156 connections instead of server.max_connections=2000" in (tmp_path / "stderr").read_text()


@contextmanager
def served_with(descriptors: int, folder: Path, dsn: str) -> Iterator[int]:
    """Run `rota server` with a limit of open files during a block, and give its port."""
    env = command.environment(ROTA_DATABASE_URL=dsn, ROTA_AUTH_SECRET=SECRET, ROTA_SERVER_PORT="0")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    with ended_after(command.start("server", cwd=folder, env=env, preexec_fn=limit)) as process:
        said = folder / "stderr"
        until(lambda: "listening on" in said.read_text() or process.poll() is not None, why="to listen")
        port = int(said.read_text().partition("listening on http://127.0.0.1:")[2].split()[0])
        until(lambda: readyz(port).startswith(b"HTTP/1.1 200"), why="to be ready")
        yield port


def readyz(port: int, peer: str = "127.0.0.1") -> bytes:
    try:
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S, source_address=(peer, 0)) as client:
            client.sendall(b"GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            return b"".join(iter(lambda: client.recv(65536), b""))
    except OSError as error:
        return repr(error).encode()
