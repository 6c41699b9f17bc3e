"""What Rota's server is measured against: the least that FastAPI and aiohttp can do for the same request.

`python -m bench.bare_api insert|target|calls …`; each says `ready` and a port when it listens.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import uvicorn
from aiohttp import ClientSession, TCPConnector, web
from fastapi import FastAPI
from psycopg_pool import AsyncConnectionPool
from pydantic import BaseModel

TABLE = "CREATE TABLE IF NOT EXISTS call (id uuid PRIMARY KEY, owner text NOT NULL, payload json NOT NULL, state text NOT NULL)"
INSERT = "INSERT INTO call (id, owner, payload, state) VALUES (%s, %s, %s, 'queued')"


class Call(BaseModel):
    """The request."""

    url: str
    method: str = "POST"
    headers: dict[str, str] = {}
    json_body: Any = None


def insert(dsn: str) -> None:
    """An API with one route, which stores its request by one INSERT; nobody signs in."""
    pool = AsyncConnectionPool(dsn, open=False, min_size=4, max_size=10, kwargs={"autocommit": True, "prepare_threshold": 1})

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with pool:
            async with pool.connection() as conn:
                await conn.execute(TABLE)
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/jobs", status_code=202)
    async def create(call: Call) -> dict[str, UUID]:
        id = uuid4()
        async with pool.connection() as conn:
            await conn.execute(INSERT, (id, "somebody", json.dumps(call.model_dump())))
        return {"id": id}

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False, loop="uvloop", http="h11"))

    async def serve() -> None:
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        _say_ready(server.servers[0].sockets[0].getsockname()[1])
        await serving

    asyncio.run(serve())


def target() -> None:
    """A server that answers every call at once, and says every hundred calls how many there were, and when."""
    calls = 0

    async def answer(request: web.BaseRequest) -> web.Response:
        nonlocal calls
        await request.read()
        calls += 1
        if calls % 100 == 0:
            print(calls, time.monotonic_ns(), flush=True)
        return web.Response(text="ok")

    async def serve() -> None:
        runner = web.ServerRunner(web.Server(answer))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        _say_ready(runner.addresses[0][1])
        await asyncio.Event().wait()

    _run(serve())


def calls(url: str, count: int, at_once: int) -> None:
    """Makes calls, so many at once, and ends."""

    async def call(client: ClientSession, numbers: Any) -> None:
        for number in numbers:
            async with client.post(url, json={"n": number}) as answer:
                await answer.read()

    async def make() -> None:
        numbers = iter(range(count))
        async with ClientSession(connector=TCPConnector(limit=at_once)) as client:
            await asyncio.gather(*(call(client, numbers) for _ in range(at_once)))

    _run(make())


def _say_ready(port: int) -> None:
    print("ready", flush=True)
    print(0, port, flush=True)


def _run(coroutine: Any) -> None:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(coroutine)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["insert", dsn]:
            insert(dsn)
        case ["target"]:
            target()
        case ["calls", url, count, at_once]:
            calls(url, int(count), int(at_once))
