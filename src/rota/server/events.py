"""A live stream as an HTTP answer: server-sent events, until the client, the server or the right to see it is gone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from time import monotonic

import orjson
import psycopg
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rota.errors import AuthError, RotaError
from rota.server.hub import Client, Hub

HEARTBEAT_S = 3.0  # pages call a server lost that has been silent for 8 s
CHECK_S = 15.0
SEND_WITHIN_S = 30.0  # a client that has not read for so long is let go

Rights = Callable[[], Awaitable[frozenset[str]]]  # the kinds that the client may be told of now


class EventStream(Response):
    """Sends what the hub tells to one client."""

    media_type = "text/event-stream"

    def __init__(self, hub: Hub, client: Client, last_id: str | None, kinds: frozenset[str], look_again: Rights) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._hub = hub
        self._client = client
        self._last_id = last_id
        self._kinds = kinds
        self._look_again = look_again

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Streams until there is a reason to end."""
        gone = asyncio.create_task(self._await_disconnect(receive))
        check = asyncio.create_task(self._check_rights())
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            number = await self._greet(send)
            beaten = monotonic()
            while not (gone.done() or check.done() or self._hub.closed):
                self._client.wake.clear()
                if (more := self._hub.after(number, self._kinds)) is None:
                    number = await self._reset(send, "you are too far behind: fetch everything anew")
                else:
                    text, number = more
                    if text:
                        await _send(send, text)
                if (left_s := beaten + HEARTBEAT_S - monotonic()) <= 0:
                    await _send(send, HEARTBEAT)
                    beaten = monotonic()
                    continue
                await self._wait(left_s)
            if check.done():
                await _send(send, _message("end", {"why": check.result()}))
            elif self._hub.closed:
                await _send(send, _message("end", {"why": "the server is stopping: come back"}))
            await _send(send, b"", more=False)
        except TimeoutError:
            pass  # it does not read: without an end of the answer, the connection is closed
        finally:
            gone.cancel()
            check.cancel()
            self._hub.leave(self._client)

    async def _greet(self, send: Send) -> int:
        await _send(send, b"retry: %d\n\n" % random.randint(1000, 5000))  # so that many do not come back in step
        if self._last_id is None:
            hello = _message("hello", {"kinds": sorted(self._kinds)}, self._hub.last_id)
            number = self._hub.position(self._hub.last_id) or 0
            await _send(send, hello)
            return number
        number_then = self._hub.position(self._last_id)
        return number_then if number_then is not None else await self._reset(send, "what came meanwhile is no longer known")

    async def _reset(self, send: Send, why: str) -> int:
        last_id = self._hub.last_id
        await _send(send, _message("reset", {"why": why}, last_id))
        return self._hub.position(last_id) or 0

    async def _check_rights(self) -> str:
        """Look from time to time whether the client may still be told, and of what; return why not, once it may not."""
        # Beside the stream: heartbeats must not wait for a slow database.
        while True:
            await asyncio.sleep(CHECK_S)
            try:
                self._kinds = await self._look_again()
            except AuthError as error:
                self._client.wake.set()
                return str(error)
            except (RotaError, psycopg.Error):
                pass  # the database is away: there is nothing to tell then, and the next look will show

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._client.wake.wait()
        except TimeoutError:
            pass

    async def _await_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._client.wake.set()


async def _send(send: Send, text: bytes, *, more: bool = True) -> None:
    async with asyncio.timeout(SEND_WITHIN_S):
        await send({"type": "http.response.body", "body": text, "more_body": more})


def _message(kind: str, data: dict[str, object], last_id: str | None = None) -> bytes:
    head = b"" if last_id is None else b"id: %s\n" % last_id.encode()
    return head + b"event: %s\ndata: %s\n\n" % (kind.encode(), orjson.dumps(data))


HEARTBEAT = _message("heartbeat", {})
