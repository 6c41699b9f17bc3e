"""A hub of WebSub: it takes requests, asks whether they were meant, and sends what is published."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web
from tests.support.outside import outside


@dataclass
class Subscription:
    """Somebody who wants to hear of a topic."""

    callback: str
    topic: str
    secret: str
    lease_s: int


@dataclass
class Hub:
    """What the hub knows, and how it behaves."""

    port: int = 0
    asked: list[dict[str, str]] = field(default_factory=list)
    confirmed: dict[str, Subscription] = field(default_factory=dict)  # by callback
    answers: list[int] = field(default_factory=list)  # to verifications
    status: int = 202
    lease_s: int | None = None  # that it gives; else what was asked for
    denies: str | None = None
    working: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}/hub"

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Take a request, and verify it afterwards."""
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.asked.append(form)
        if self.status == 202:
            task = asyncio.create_task(self._verify(form))
            self.working.add(task)
            task.add_done_callback(self.working.discard)
        return web.Response(status=self.status)

    async def settle(self) -> None:
        """Wait until all verifications are done."""
        while self.working:
            await asyncio.gather(*self.working)

    async def verify(self, callback: str, mode: str, topic: str, **more: str) -> tuple[int, str]:
        """Ask a subscriber whether it wants this; the status and the body of its answer."""
        query = {"hub.mode": mode, "hub.topic": topic, **{f"hub.{name}": value for name, value in more.items()}}
        async with aiohttp.ClientSession() as client, client.get(callback, params=query) as answer:
            return answer.status, await answer.text()

    async def publish(
        self,
        topic: str,
        body: bytes,
        *,
        method: str = "sha256",
        secret: str | None = None,
        signed: bool = True,
        kind: str = "application/rss+xml",
    ) -> list[int]:
        """Send news to all who want it; what they answer."""
        came = []
        for each in [each for each in self.confirmed.values() if each.topic == topic]:
            digest = hmac.new((secret or each.secret).encode(), body, getattr(hashlib, method)).hexdigest()
            headers = {"Content-Type": kind} | ({"X-Hub-Signature": f"{method}={digest}"} if signed else {})
            async with aiohttp.ClientSession() as client, client.post(each.callback, data=body, headers=headers) as answer:
                came.append(answer.status)
        return came

    async def _verify(self, form: dict[str, str]) -> None:
        mode, topic, callback = form["hub.mode"], form["hub.topic"], form["hub.callback"]
        if self.denies is not None:
            status, _ = await self.verify(callback, "denied", topic, reason=self.denies)
            self.answers.append(status)
            return
        challenge = secrets.token_hex(8)
        lease_s = self.lease_s or int(form.get("hub.lease_seconds", 0))
        more = {"lease_seconds": str(lease_s)} if mode == "subscribe" else {}
        status, body = await self.verify(callback, mode, topic, challenge=challenge, **more)
        self.answers.append(status)
        if (status, body) != (200, challenge):
            return
        if mode == "subscribe":
            self.confirmed[callback] = Subscription(callback, topic, form["hub.secret"], lease_s)
        else:
            self.confirmed.pop(callback, None)


@asynccontextmanager
async def hub() -> AsyncIterator[Hub]:
    """Run a hub during a block."""
    async with outside() as server:
        made = Hub(server.port)
        server.answer = made.take
        yield made
        await made.settle()
