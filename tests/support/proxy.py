"""A TCP proxy in front of PostgreSQL that loses connections in all the ways a network does."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self
from urllib.parse import urlsplit

from tests.support.wait import PATIENCE_S

CHUNK = 64 * 1024


class Link:
    """One connection through the proxy."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.name = ""  # the application_name that the client gave
        self.client = client
        self.server = server
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.cut_after: bytes | None = None  # cut once this was forwarded and answered, without passing on the answer
        self.mute = False

    def cut(self) -> None:
        """End both connections without a word, as a firewall or a crash does."""
        for side in (self.client, self.server):
            side.transport.abort()


class Proxy:
    """Forwards connections to the server of a DSN; runs in a thread, so that a blocked event loop does not block it."""

    def __init__(self, tcp_dsn: str) -> None:
        self._target = urlsplit(tcp_dsn)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._port = 0
        self._stalled: Callable[[str], bool] = lambda _: False
        self._cut_after: tuple[str, bytes] | None = None
        self.accepted = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def dsn(self) -> str:
        """The database by way of the proxy."""
        user, _, _ = self._target.netloc.rpartition("@")
        where = self._target._replace(netloc=f"{user}@127.0.0.1:{self._port}")
        return where._replace(query="sslmode=disable&gssencmode=disable").geturl()

    def cut(self, name: str = "") -> int:
        """Cut every connection whose application_name has `name` in it; say how many."""

        async def cut() -> int:
            links = [link for link in self._links if name in link.name]
            for link in links:
                link.cut()
            return len(links)

        return self._call(cut())

    def cut_after(self, sent: bytes, name: str = "") -> None:
        """Cut the next connection that sends this, when the server has done it and before its answer gets through."""
        self._cut_after = name, sent

    @property
    def has_cut(self) -> bool:
        """Whether what `cut_after` asked for has happened."""
        return self._cut_after is None

    def stall(self, name: str = "") -> None:
        """Let nothing through any more on these connections, open as they are, nor on new ones of the name."""

        async def stall() -> None:
            self._stalled = lambda other: name in other
            for link in self._links:
                if name in link.name:
                    link.flowing.clear()

        self._call(stall())

    def hold_new(self) -> None:
        """Let nothing through on new connections; those that are open go on."""

        async def hold() -> None:
            self._stalled = lambda _: True

        self._call(hold())

    def strand(self, name: str = "") -> None:
        """Make these connections half-open for good; new ones work."""

        async def strand() -> None:
            for link in self._links:
                if name in link.name:
                    link.flowing.clear()

        self._call(strand())

    def flow(self) -> None:
        """Let everything through again."""

        async def flow() -> None:
            self._stalled = lambda _: False
            for link in self._links:
                link.flowing.set()

        self._call(flow())

    def refuse(self) -> None:
        """Be away: no connection stays, none is accepted."""

        async def refuse() -> None:
            if self._listener is not None:
                self._listener.close()
            for link in list(self._links):
                link.cut()

        self._call(refuse())

    def accept(self) -> None:
        """Be back, on the same port."""
        self._call(self._listen())

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._connect, "127.0.0.1", self._port)
        self._port = self._listener.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for link in list(self._links):
            link.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.accepted += 1
        try:
            answers, server = await asyncio.open_connection(self._target.hostname, self._target.port)
        except OSError:
            writer.transport.abort()
            self._tasks.discard(task)
            return
        link = Link(writer, server)
        self._links.add(link)
        try:
            await asyncio.gather(self._send(link, reader), self._answer(link, answers))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the last is our own doing, at the end
        finally:
            link.cut()
            self._links.discard(link)
            self._tasks.discard(task)
            with contextlib.suppress(OSError):
                await server.wait_closed()

    async def _send(self, link: Link, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(CHUNK):
            if not link.name:
                link.name = _application_name(data)
                if self._stalled(link.name):
                    link.flowing.clear()
            if self._cut_after is not None and self._cut_after[0] in link.name and self._cut_after[1] in data:
                link.mute, self._cut_after = True, None
            await link.flowing.wait()
            link.server.write(data)
            await link.server.drain()
        link.cut()

    async def _answer(self, link: Link, answers: asyncio.StreamReader) -> None:
        while data := await answers.read(CHUNK):
            await link.flowing.wait()
            if link.mute:
                break  # the server has answered, so it has done what it was asked; nobody will hear of it
            link.client.write(data)
            await link.client.drain()
        link.cut()


def _application_name(startup: bytes) -> str:
    _, found, rest = startup.partition(b"application_name\0")
    return rest.partition(b"\0")[0].decode() if found else "?"
