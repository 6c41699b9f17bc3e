"""Stands between Rota and PostgreSQL and is a bad network: connections break, answers to commits and notifications get lost."""

from __future__ import annotations

import asyncio
import random
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Self

from tests.support.wait import PATIENCE_S

_HEADER = struct.Struct("!cI")
_END_OF_REQUEST = (b"Q", b"S")  # a simple query, or the Sync after an extended one: what PostgreSQL answers, and commits
_NOTIFICATION, _COMPLETE = b"A", b"C"
_TURN = (b"Z", b"G", b"R")  # after these it is the client's turn: ready, ready for COPY, authentication
_IDLE = b"Z\0\0\0\5I"  # ready, and no transaction is open: what was asked is committed by now
CLIENTS = ("rota enqueue", "rota chaos client")


class Proxy:
    """Forwards from a port of its own to the server's, in a thread; the harness tells it when to be bad."""

    def __init__(self, server_port: int, seed: int) -> None:
        self.port = 0
        self.done: Counter[str] = Counter()  # what was done to connections
        self.loses_notifications = 0.0  # the share of them
        self._server_port = server_port
        self._random = random.Random(seed)
        self._links: set[Link] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chaos-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    def cut(self) -> None:
        """Break one connection, wherever it is in its conversation."""
        self._loop.call_soon_threadsafe(self._cut_one)

    def set_trap(self) -> None:
        """Break a connection that asks something: the server does it, or at least gets the request; nobody gets the answer."""
        self._loop.call_soon_threadsafe(self._set_trap)

    def _cut_one(self) -> None:
        if links := self._talking():
            self._random.choice(links).cut("connections cut")

    def _set_trap(self) -> None:
        # Some connections are silent for long, so several get the trap and the first to speak is the one.
        links = self._talking()
        if self._random.random() < 0.5:
            links = [link for link in links if link.name in CLIENTS]
        trap = [self._random.random() < 0.7]
        for link in self._random.sample(links, min(len(links), 6)):
            link.trap = trap

    def _talking(self) -> list[Link]:
        return sorted((link for link in self._links if link.name), key=lambda link: link.number)

    async def _listen(self) -> int:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(self._listener.sockets[0].getsockname()[1])

    async def _close(self) -> None:
        self._listener.close()
        for link in list(self._links):
            link.cut("")
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE_S)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.transport.abort()
            return
        link = Link(self, (reader, writer), (server_reader, server_writer))
        self._links.add(link)
        try:
            await asyncio.gather(link.forward_requests(), link.forward_answers())
        finally:
            link.cut("")
            self._links.discard(link)

    def loses(self) -> bool:
        """Whether the notification at hand is one of the lost ones."""
        return self._random.random() < self.loses_notifications


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Link:
    """One connection: both directions, cut into the protocol's messages."""

    _numbers = iter(range(1_000_000_000))

    def __init__(self, proxy: Proxy, client: Stream, server: Stream) -> None:
        self.number = next(self._numbers)
        self.name = ""  # the application's, once it has said it
        self._proxy = proxy
        self._client = client
        self._server = server
        # [True]: the answer to the next commit gets lost; [False]: the next answer of any kind, before the server has given it.
        # Shared by several links, and empty for all of them when one is caught.
        self.trap: list[bool] = []

    def cut(self, why: str) -> None:
        """Break both sides without a good-bye."""
        if why:
            self._proxy.done[why] += 1
        self._client[1].transport.abort()
        self._server[1].transport.abort()

    async def forward_requests(self) -> None:
        """Client to server; the first message is the one without a type."""
        source, sink = self._client[0], self._server[1]
        try:
            length = struct.unpack("!I", prefix := await source.readexactly(4))[0]
            start = await source.readexactly(length - 4)
            fields = start[4:].split(b"\0")
            names = dict(zip(fields[::2], fields[1::2], strict=False))
            self.name = names.get(b"application_name", b"?").decode()
            sink.write(prefix + start)
            rest = b""
            while (data := await source.read(65536)) and not sink.transport.is_closing():
                messages, rest = _split(rest + data)
                sink.write(data)
                await sink.drain()
                if self.trap == [False] and any(kind in _END_OF_REQUEST for kind, _ in messages):
                    self.trap.clear()
                    self.cut("connections cut after a request")
        except (OSError, asyncio.IncompleteReadError):
            pass
        self.cut("")

    async def forward_answers(self) -> None:
        """Server to client; a link with a trap gets its answers whole, or not at all."""
        source, sink = self._server[0], self._client[1]
        rest, held = b"", list[bytes]()
        try:
            while (data := await source.read(65536)) and not sink.transport.is_closing():
                messages, rest = _split(rest + data)
                for kind, message in messages:
                    if kind == _NOTIFICATION:
                        self._notify(message)
                        continue
                    held.append(message)
                    if self.trap == [True]:
                        if kind not in _TURN:
                            continue
                        if message == _IDLE and any(each.startswith(_COMPLETE) for each in held):
                            self.trap.clear()
                            self.cut("answers to commits lost")
                            return
                    sink.writelines(held)
                    held.clear()
                await sink.drain()
        except OSError:
            pass
        self.cut("")

    def _notify(self, message: bytes) -> None:
        if self._proxy.loses():
            self._proxy.done["notifications lost"] += 1
        else:
            self._client[1].write(message)


def _split(data: bytes) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Cut what has come in into whole messages, each with its type, and the rest."""
    messages = list(_whole(data))
    return messages, data[sum(len(message) for _, message in messages) :]


def _whole(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while len(data) - at >= 5:
        kind, length = _HEADER.unpack_from(data, at)
        if len(data) - at < 1 + length:
            return
        yield kind, data[at : at + 1 + length]
        at += 1 + length
