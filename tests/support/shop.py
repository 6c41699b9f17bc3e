"""A server of an application with some tasks, and an admin who talks to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.support import people
from tests.support.people import Headers
from tests.support.serving import Serving, serving, settings_for

from rota import Rota, every

API = "/api/admin"
ADMIN = "ada@example.org"


@dataclass
class Answer:
    """What came back."""

    status: int
    body: Any
    headers: Headers

    @property
    def etag(self) -> str:
        """What it says the version of the thing is."""
        return self.headers["etag"]


@dataclass
class Shop:
    """A running server, and the headers of its admin."""

    server: Serving
    admin: Headers

    @property
    def app(self) -> Rota:
        """Its application."""
        return self.server.app

    async def ask(
        self, method: str, path: str, body: Any = None, *, headers: Headers | None = None, params: Any = None, data: Any = None
    ) -> Answer:
        """Send a request to the admin API, as its admin, with more headers."""
        sent = {**self.admin, **(headers or {})}
        if data is not None:
            sent["content-type"] = "application/json"
        async with self.server.client.request(method, API + path, headers=sent, json=body, params=params, data=data) as answer:
            text = await answer.text()
            told = await answer.json(content_type=None) if text else None
            return Answer(answer.status, told, {name.lower(): value for name, value in answer.headers.items()})

    async def get(self, path: str, **params: Any) -> Any:
        """Look at something that is there."""
        answer = await self.ask("GET", path, params=[(name, str(value)) for name, value in params.items()])
        assert answer.status == 200, answer.body
        return answer.body

    async def post(self, path: str, body: Any = None, *, status: int = 200) -> Any:
        """Change something that can be changed."""
        answer = await self.ask("POST", path, body)
        assert answer.status == status, answer.body
        return answer.body

    async def refused(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, str]:
        """Send a request that is refused: the status and the code of the problem."""
        answer = await self.ask(method, path, body, **options)
        assert answer.headers["content-type"] == "application/problem+json", answer.body
        assert answer.body["status"] == answer.status
        return answer.status, answer.body["code"]


def define_tasks(app: Rota) -> None:
    """Define the tasks of the shop."""

    @app.task(queue="mail", tags=["post"])
    def send(user_id: int, lang: str = "en") -> None:
        """Sends a letter."""

    @app.task(default_payload={"n": 1})
    def count(n: int) -> None: ...

    @app.task(schedule=every("1h"))
    def sweep() -> None: ...


@asynccontextmanager
async def open_shop(dsn: str, **settings: Any) -> AsyncIterator[Shop]:
    """Run a server of the shop during a block."""
    app = Rota(settings=settings_for(dsn, server_requests_per_minute=1_000_000, **settings), name="shop")
    define_tasks(app)
    async with serving(app) as server:
        await server.state.control.sync_definitions()
        await people.make(server, ADMIN, "admin")
        yield Shop(server, await people.api_token(server, ADMIN))
