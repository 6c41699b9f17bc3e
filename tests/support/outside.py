"""The world outside as tests need it: servers that behave and misbehave, one that nobody may reach, and names that lie."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Got:
    """A request that has arrived."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Outside:
    """A server on this machine that takes down what it is sent, and answers as it is told."""

    port: int = 0
    got: list[Got] = field(default_factory=list)
    answer: Answer | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}/hook"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Take a request down and answer it."""
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.got.append(Got(request.method, request.path, request.rel_url.raw_query_string, headers, body))
        return web.Response(status=204) if self.answer is None else await self.answer(request)

    def answers(self, status: int, text: str = "", kind: str = "text/plain", **headers: str) -> None:
        """Answer every request so from now on."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}

        async def answer(_: web.Request) -> web.StreamResponse:
            return web.Response(status=status, body=text.encode(), content_type=kind, headers=named)

        self.answer = answer


@asynccontextmanager
async def outside() -> AsyncIterator[Outside]:
    """Run a server during a block."""
    server = Outside()
    app = web.Application(client_max_size=10_000_000)
    app.router.add_route("*", "/{rest:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        yield server
    finally:
        await runner.cleanup()


@dataclass
class Canary:
    """Listens on loopback, in both kinds of addresses, and counts what it should never get."""

    port: int = 0
    connections: int = 0
    bytes: int = 0

    async def hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take down that somebody came."""
        self.connections += 1
        try:
            while data := await reader.read(65536):
                self.bytes += len(data)
        except OSError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def canary() -> AsyncIterator[Canary]:
    """Listen during a block."""
    bird = Canary()
    servers = [await asyncio.start_server(bird.hear, "127.0.0.1", 0)]
    bird.port = servers[0].sockets[0].getsockname()[1]
    if socket.has_ipv6:
        servers.append(await asyncio.start_server(bird.hear, "::1", bird.port))
    try:
        yield bird
    finally:
        for server in servers:
            server.close()
            await server.wait_closed()


Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def raw(script: Script) -> AsyncIterator[str]:
    """Serve bytes of a test's own making during a block; the URL."""
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await reader.readuntil(b"\r\n\r\n")
            await script(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await server.wait_closed()


class Names(AbstractResolver):
    """Says what names mean; with several answers for one, a name means something else each time it is looked up."""

    def __init__(self, **names: Sequence[Sequence[str]]) -> None:
        self.names = {name.replace("_", "."): list(answers) for name, answers in names.items()}
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> list[ResolveResult]:
        """Answer once."""
        self.asked.append(host)
        answers = self.names.get(host)
        if not answers:
            raise OSError(None, f"no such name: {host}")
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            ResolveResult(
                hostname=host, host=address, port=port, family=socket.AF_INET6 if ":" in address else socket.AF_INET, proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]  # fmt: skip

    async def close(self) -> None:
        """Nothing is open."""


class Memory:
    """How much more memory this process has had during a block than before it, at most."""

    def __enter__(self) -> Memory:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        self._before = self._read("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.grown = max(self._read("VmHWM") - self._before, 0)

    @staticmethod
    def _read(name: str) -> int:
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
        return int(line.split()[1]) * 1024
