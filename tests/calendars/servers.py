"""Radicale as a CalDAV server in a process of its own, and a proxy before it that makes trouble."""

from __future__ import annotations

import asyncio
import base64
import http.client
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from xml.etree import ElementTree

import aiohttp
from aiohttp import web
from tests.calendars.events import summary_in, uid_in
from tests.support.wait import PATIENCE_S, wait_until

USER, PASSWORD = "ann", "correct-horse-battery"
DAV = "{DAV:}"
DATA = "{urn:ietf:params:xml:ns:caldav}calendar-data"
MAKE = (
    '<?xml version="1.0"?><C:mkcalendar xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><set><prop>'
    "<displayname>c</displayname></prop></set></C:mkcalendar>"
)
QUERY = (
    '<?xml version="1.0"?><C:calendar-query xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><prop><getetag/><C:calendar-data/>'
    '</prop><C:filter><C:comp-filter name="VCALENDAR"/></C:filter></C:calendar-query>'
)


class Dav:
    """A calendar on the server, as somebody's client sees it."""

    def __init__(self, port: int, name: str) -> None:
        self.port = port
        self.path = f"/{USER}/{name}/"
        assert self.ask("MKCALENDAR", "", MAKE)[0] == 201

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}{self.path}"

    def ask(self, method: str, name: str, body: str | None = None, **headers: str) -> tuple[int, bytes]:
        """Ask the server something."""
        word = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        sent = {"Authorization": f"Basic {word}", **{key.replace("_", "-"): value for key, value in headers.items()}}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, self.path + name, None if body is None else body.encode(), sent)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def put(self, text: str, name: str | None = None) -> None:
        """Write an event, over the resource that has it."""
        href = name or self._names().get(uid_in(text)) or f"{uid_in(text)}.ics"
        status, body = self.ask("PUT", href, text, Content_Type="text/calendar")
        assert status in (201, 204), (status, body)

    def remove(self, uid: str) -> None:
        """Delete an event."""
        assert self.ask("DELETE", self._names()[uid])[0] in (200, 204)

    def texts(self) -> Mapping[str, str]:
        """The events by UID; the same twice is an error."""
        found: dict[str, str] = {}
        for _, text in self._all():
            assert uid_in(text) not in found, f"{uid_in(text)} is there twice"
            found[uid_in(text)] = text
        return found

    def titles(self) -> dict[str, str]:
        """The titles of the events by UID."""
        return {uid: summary_in(text) for uid, text in self.texts().items()}

    def _names(self) -> dict[str, str]:
        return {uid_in(text): name for name, text in self._all()}

    def _all(self) -> list[tuple[str, str]]:
        status, body = self.ask("REPORT", "", QUERY, Depth="1")
        assert status == 207, (status, body)
        return [
            (response.findtext(f"{DAV}href", "").rpartition("/")[2], next(response.iter(DATA)).text or "")
            for response in ElementTree.fromstring(body).iter(f"{DAV}response")
        ]


@contextmanager
def radicale(folder: Path) -> Iterator[int]:
    """Run a server during a block; its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "users").write_text(f"{USER}:{PASSWORD}\n")
    config = folder / "config"
    config.write_text(
        f"""[server]
hosts = 127.0.0.1:{port}
max_connections = 100
delay_on_error = 0
[auth]
type = htpasswd
htpasswd_filename = {folder / "users"}
htpasswd_encryption = plain
delay = 0
[storage]
filesystem_folder = {folder / "collections"}
[logging]
level = error
[web]
type = none
"""
    )
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "radicale", "--config", str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        wait_until(lambda: _answers(port, process), what=f"for Radicale, which says: {(folder / 'log').read_text()[-2000:]}")
        yield port
    finally:
        process.kill()
        process.wait()


def _answers(port: int, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "Radicale did not start"
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


Trouble = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


class Between:
    """A proxy before a server, which answers by itself where `trouble` says so, or loses the answer where `lose` does."""

    def __init__(self, target: int) -> None:
        self._target = f"http://127.0.0.1:{target}"
        self.port = 0
        self.trouble: Trouble | None = None
        self.lose: Callable[[web.Request], bool] = lambda request: False
        self.hide: set[str] = set()  # headers of answers that are left out, in small letters
        self.after: Callable[[web.Request, bytes], Awaitable[None]] | None = None  # waited for before an answer is passed on
        self.asked: list[tuple[str, str]] = []
        self._session: aiohttp.ClientSession | None = None

    def url(self, calendar: Dav) -> str:
        """The address of a calendar by way of the proxy."""
        return f"http://127.0.0.1:{self.port}{calendar.path}"

    def answers(self, method: str, status: int, times: int = 1_000_000, body: str = "", **headers: str) -> None:
        """Answer these requests so, so often."""
        left = times

        async def trouble(request: web.Request) -> web.StreamResponse | None:
            nonlocal left
            if request.method != method or left <= 0:
                return None
            left -= 1
            return web.Response(
                status=status, text=body, headers={name.replace("_", "-"): value for name, value in headers.items()}
            )

        self.trouble = trouble

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass a request on, or not."""
        body = await request.read()
        self.asked.append((request.method, request.path))
        if self.trouble is not None and (answer := await self.trouble(request)) is not None:
            return answer
        assert self._session is not None
        headers = {name: value for name, value in request.headers.items() if name.lower() not in ("host", "content-length")}
        async with self._session.request(
            request.method, self._target + request.raw_path, data=body, headers=headers, skip_auto_headers=["Content-Type"]
        ) as answer:
            data = await answer.read()
        if self.after is not None:
            await self.after(request, body)
        if self.lose(request):
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        kept = {
            name: value
            for name, value in answer.headers.items()
            if name.lower() not in {"content-length", "transfer-encoding", "connection", "date", "server", *self.hide}
        }
        return web.Response(status=answer.status, body=data, headers=kept)


@asynccontextmanager
async def between(target: int) -> AsyncIterator[Between]:
    """Run a proxy during a block."""
    proxy = Between(target)
    app = web.Application(client_max_size=100_000_000)
    app.router.add_route("*", "/{rest:.*}", proxy.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    async with aiohttp.ClientSession() as session:
        proxy._session = session
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            proxy.port = runner.addresses[0][1]
            yield proxy
        finally:
            await runner.cleanup()
    await asyncio.sleep(0)
