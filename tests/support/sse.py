"""A client of server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from tests.support.serving import Serving
from tests.support.wait import PATIENCE_S


@dataclass(frozen=True)
class Heard:
    """One event."""

    id: str | None
    kind: str
    data: Any


class Listening:
    """What comes over one stream."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer
        self.last_id: str | None = None
        self.heartbeats = 0

    async def next(self, within: float = PATIENCE_S) -> Heard | None:
        """Wait for the next event that is no heartbeat; None at the end of the stream."""
        async with asyncio.timeout(within):
            fields: dict[str, str] = {}
            async for line in self.answer.content:
                text = line.decode().rstrip("\n")
                name, _, value = text.partition(": ")
                if text:
                    fields[name] = value
                elif fields.get("event") == "heartbeat":
                    self.heartbeats += 1
                    fields = {}
                elif "event" in fields:
                    self.last_id = fields.get("id", self.last_id)
                    return Heard(fields.get("id"), fields["event"], json.loads(fields["data"]))
                else:
                    fields = {}
            return None

    async def until(self, kind: str, which: Callable[[Any], bool] = lambda _: True, within: float = PATIENCE_S) -> Heard:
        """Wait for an event of this kind whose data is the one that is wanted."""
        async with asyncio.timeout(within):
            while (heard := await self.next(within)) is not None:
                if heard.kind == kind and which(heard.data):
                    return heard
        raise AssertionError(f"the stream ended before {kind!r}")


@asynccontextmanager
async def listen(
    server: Serving | aiohttp.ClientSession, headers: dict[str, str], last_id: str | None = None
) -> AsyncIterator[Listening]:
    """Open a stream of a server, or of the one that a client talks to."""
    client = server.client if isinstance(server, Serving) else server
    more = {} if last_id is None else {"Last-Event-ID": last_id}
    timeout = aiohttp.ClientTimeout(total=None)
    async with client.get("/api/admin/stream", headers={**headers, **more}, timeout=timeout) as answer:
        assert answer.status == 200, await answer.text()
        yield Listening(answer)
