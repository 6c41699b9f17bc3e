"""What is secret is shown to no caller: not in clear, not encoded, not as ciphertext; by no route, no command and no log."""

from __future__ import annotations

import asyncio
import base64
import io
import itertools
import json
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import structlog
import typer
from aiohttp import web
from pydantic import SecretStr
from tests.support import invoke, people
from tests.support.outside import outside
from tests.support.people import Headers
from tests.support.shop import ADMIN, Shop, open_shop
from tests.support.wait import PATIENCE_S, until

from rota import Context, Rota, Secret
from rota.cli.main import COMMANDS
from rota.config import LogSettings
from rota.control import alerts
from rota.db import migrations
from rota.errors import KeyReused
from rota.log import configure_logging

pytestmark = pytest.mark.req("T07")

Conn = psycopg.Connection[Any]

KEY = "keyc4n4ry" * 5
ROLES = {ADMIN: "admin", "ole@example.org": "operator", "rita@example.org": "read_only", "ann@example.org": "user"}
ANN = "ann@example.org"
PLACES = (
    "query",
    "header",
    "body",
    "signing",
    "edited",
    "schedule",
    "default",
    "row",
    "event",
    "raised",
    "logged",
    "keyed",
    "path",
)


def mark(place: str) -> str:
    """A secret of one place, of letters and digits, so that it is written alike everywhere."""
    return f"c4n4ry{place}5ecr3tOf20Chars"


def forms(text: str) -> Iterator[str]:
    """A text as it may be written: as it is, and inside of base64, wherever it begins."""
    yield text
    for shift in range(3):
        yield base64.b64encode(b"x" * shift + text.encode()).decode()[(2, 4, 4)[shift] : -4]


FORBIDDEN = ["rota-secret:", "rota-open:", "rota-draft", *forms(KEY), *itertools.chain(*(forms(mark(place)) for place in PLACES))]


def found_in(text: str) -> list[str]:
    """What a text has of what it must not have."""
    return [each for each in FORBIDDEN if each in text]


def define_leaks(app: Rota) -> Any:
    """Define tasks that try to tell their secrets to everybody."""

    @app.task(max_attempts=1)
    async def leak(ctx: Context, token: Secret) -> None:
        ctx.log.info(f"calling with {token.get_secret_value()}", token=token.get_secret_value(), pair={"t": [token]})
        ctx.progress(1, 2, f"at {token.get_secret_value()}")
        raise RuntimeError(f"refused {token.get_secret_value()} {[token.get_secret_value()]!r}")

    @app.task(on="happened", max_attempts=1)
    async def hear(token: Secret) -> None:
        raise ValueError(token.get_secret_value())

    @app.task(default_payload={"token": mark("default")})
    async def use(token: Secret) -> None: ...

    @app.recurring(key="row", history=True)
    async def recur(token: Secret) -> None: ...

    return recur


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What the process logs."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logging(LogSettings(format="json", level="debug"), stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture(params=["key", "no key"])
async def shop(dsn: str, conn: Conn, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    key = {"secrets_key": KEY} if request.param == "key" else {}
    settings = {"http_enabled": True, "http_allow": "127.0.0.1", "app_apps": ("rota.apps.feeds",), **key}
    async with open_shop(dsn, **settings) as shop:
        migrations.up(conn, shop.app.migrations)
        for name, role in ROLES.items():
            if name != ADMIN:
                await people.make(shop.server, name, role)
        yield shop


async def store_secrets(shop: Shop, conn: Conn, url: str, *, key: bool) -> None:
    """Store marked secrets wherever they can be stored, and run what can be run."""
    call = {
        "url": f"{url}/200?token={mark('query')}",
        "json": {"card": mark("body")},
        "headers": {"Authorization": f"Bearer {mark('header')}", "X-Plain": mark("header")},
        "signing_secret": mark("signing"),
        "retry": {"max_attempts": 1},
    }
    ann = await people.jwt(shop.server, ANN)
    for more in ({}, {"url": call["url"].replace("/200", "/500")}, {"run_at": "2090-01-01T00:00:00Z"}):
        status, job = await people.call(shop.server, ann, "POST", "/jobs", {**call, **more})
        assert status == 202, job
    status, answer = await people.call(shop.server, ann, "POST", "/jobs", {**call, "headers": {"Host": mark("header")}})
    assert (status, found_in(json.dumps(answer))) == (422, [])
    payload = {
        "url": f"{url}/200",
        "headers": {"Authorization": mark("header")},
        "secrets": [mark("signing")],
        "query": mark("query"),
    }
    edited = (await shop.post("/jobs", {"task": "http_call", "payload": payload, "delay": "1h"}, status=201))["id"]
    await shop.post(f"/jobs/{edited}/edit", {"changes": {"headers": {"X-New": mark("edited")}}})
    await shop.post(f"/jobs/{edited}/cancel", {"reason": "not needed"})
    await shop.post("/schedules", {"name": "calls", "task": "http_call", "every": "1h", "payload": payload}, status=201)
    assert (await shop.ask("PUT", "/schedules/calls", {"payload": {**payload, "query": mark("schedule")}})).status == 200
    await shop.post("/schedules/calls/run")
    await shop.post("/webhooks", {"url": f"{url}/hook/{mark('path')}"}, status=201)
    await shop.post("/webhooks/1/test", status=202)
    if key:
        recur = define_leaks(shop.app)
        await shop.server.state.control.sync_definitions()
        await shop.post("/tasks/leak/trigger", {"payload": {"token": mark("raised")}}, status=201)
        await shop.post("/tasks/use/trigger", {}, status=201)
        assert (await shop.ask("PUT", "/tasks/use/settings", {"default_payload": {"token": mark("default")}})).status == 200
        await recur.aensure(token=SecretStr(mark("row")))
        await shop.app.aemit("happened", {"token": mark("event")})
        first, other = ({"token": mark("keyed")}, {"token": mark("logged")})
        await shop.app.aenqueue("use", first, key="k", delay=timedelta(hours=1))
        with pytest.raises(KeyReused) as raised:
            await shop.app.aenqueue("use", other, key="k")
        assert found_in(str(raised.value)) == []
    tasks = ("http_call", "http_call", "http_call", *(("leak", "use", "hear") if key else ()))
    async with running(shop.app):
        await until(lambda: ended(conn) >= Counter(tasks))
        await until(lambda: bool(conn.execute("SELECT FROM rota.webhook_delivery WHERE tried_at IS NOT NULL").fetchall()))
    async with await psycopg.AsyncConnection.connect(conn.info.dsn, autocommit=True) as aconn:
        await alerts.count_signals(aconn)


def ended(conn: Conn) -> Counter[str]:
    """How many jobs of each task have run and ended."""
    return Counter(
        dict(conn.execute("SELECT task, count(*) FROM rota.run WHERE final AND started_at IS NOT NULL GROUP BY 1").fetchall())
    )


class running:
    """Run a worker of an application during a block."""

    def __init__(self, app: Rota) -> None:
        self.worker = app.worker(scheduler=False)

    async def __aenter__(self) -> None:
        self.task = asyncio.create_task(self.worker.run())

    async def __aexit__(self, *_: object) -> None:
        self.worker.stop()
        await asyncio.wait_for(self.task, PATIENCE_S)


def candidates(conn: Conn, path: str) -> list[str]:
    """Give the path with everything that there is for its parameters."""

    def column(query: str) -> list[str]:
        return [str(value) for (value,) in conn.execute(query)]  # type: ignore[call-overload]

    if "{job_id}/{attempt}" in path:
        return [path.format(job_id=job, attempt=n) for job in column("SELECT id FROM rota.jobs") for n in (1, 2)]
    if "{" not in path:
        return [path]
    noun = path.removeprefix("/api/admin/").strip("/").partition("/")[0]
    sources = {
        "jobs": "SELECT id FROM rota.jobs",
        "runs": "SELECT id FROM rota.jobs",
        "users": "SELECT id FROM rota.account",
        "schedules": "SELECT id FROM rota.schedule WHERE name = 'calls' OR task = 'recur'",
        "tasks": SECRET_TASKS,
        "forms": SECRET_TASKS,
        "errors": "SELECT DISTINCT fingerprint FROM rota.run WHERE fingerprint IS NOT NULL",
        "queues": "SELECT 'http'",
        "workers": "SELECT id FROM rota.worker LIMIT 1",
        "alerts": "SELECT id FROM rota.alert",
        "webhooks": "SELECT id FROM rota.webhook",
        "feeds": "SELECT 1",
        "websub": "SELECT 'none'",
    }
    return [re.sub(r"\{\w+\}", value, path) for value in column(sources[noun])]


SECRET_TASKS = "SELECT name FROM rota.task WHERE name IN ('http_call', 'use', 'leak')"
QUERIES = {
    "/api/admin/jobs/values": {"of": "task"},
    "/api/admin/calendar/hour": {"begin": "2026-01-01T00:00:00Z", "end": "2026-01-01T01:00:00Z"},
    "/api/admin/firings": {"id": "01980000-0000-7000-8000-000000000001"},
    "/api/admin/schedules/preview": {"every": "1h"},
    "/auth/verify": {"token": "none"},
    "/api/admin/users": {"limit": "100"},
}
STREAMS = ("/api/admin/stream", "/api/admin/logs/follow")


async def read(shop: Shop, headers: Headers, path: str) -> tuple[int, str]:
    """The whole answer, headers included."""
    async with shop.server.client.get(path, headers=headers, params=QUERIES.get(path), allow_redirects=False) as answer:
        return answer.status, await answer.text() + str(answer.headers)


class Listening:
    """Collects what the live streams say during a block."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.heard: Counter[str] = Counter()
        self.text = ""

    async def __aenter__(self) -> Listening:
        self.tasks = [asyncio.create_task(self.listen(path)) for path in STREAMS]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)

    async def listen(self, path: str) -> None:
        async with self.shop.server.client.get(path, headers=self.shop.admin) as answer:
            assert answer.status == 200, await answer.text()
            async for line in answer.content:
                self.heard[path] += 1
                self.text += line.decode()


async def test_no_route_command_or_log_has_a_secret(
    shop: Shop, conn: Conn, written: io.StringIO, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    async def echo(asked: web.Request) -> web.Response:
        said = {"headers": dict(asked.headers), "query": asked.query_string, "text": await asked.text(), "path": asked.path}
        return web.json_response(said, status=int(asked.path.partition("/")[2]) if asked.path[1:].isdigit() else 500)

    has_key = request.node.callspec.params["shop"] == "key"
    async with outside() as other, Listening(shop) as streams:
        other.answer = echo
        await store_secrets(shop, conn, f"http://127.0.0.1:{other.port}", key=has_key)
        assert any(mark("header") in str(got.headers) for got in other.got), "the other side was called with them"
        await until(lambda: streams.heard[STREAMS[0]] > 0)
    assert found_in(streams.text) == []
    async with shop.server.client.get("/openapi.json") as answer:
        document = await answer.json()
    paths = [path for path, operations in document["paths"].items() if "get" in operations and path not in STREAMS]
    seen: set[str] = set()
    for name, role in ROLES.items():
        headers = await people.jwt(shop.server, name)
        for path in paths:
            for at in candidates(conn, path)[: None if role == "admin" else 2]:
                status, text = await read(shop, headers, at)
                assert status < 500, (name, at, text)
                assert found_in(text) == [], (name, at, text)
                if status == 200:
                    seen.add(path)
    assert {*paths} - seen <= {"/auth/verify", "/websub/{token}", "/api/admin/feeds/{id}", "/api/admin/feeds/{id}/entries",
                               "/api/admin/feeds/entries/{id}"}  # fmt: skip

    if has_key:
        rota = invoke.Rota(conn.info.dsn, tmp_path, monkeypatch, capsys, ROTA_SECRETS_KEY=KEY)
        for command in await asyncio.to_thread(lambda: list(commands(conn))):
            said = await asyncio.to_thread(rota, *command)
            assert "Traceback" not in said.err, (command, said.err)
            assert found_in(said.out + said.err) == [], (command, said)
    assert "calling with" in written.getvalue() or not has_key
    assert found_in(written.getvalue()) == []


def commands(conn: Conn) -> Iterator[list[str]]:
    """Every command that shows something, with everything that there is to show."""
    shows = {"list", "show", "why", "plan", "stats", "deliveries", "entries", "conflicts", "log", "jobs"}
    ids = {
        "jobs": "SELECT id::text FROM rota.jobs",
        "runs": "SELECT id::text FROM rota.jobs",
        "tasks": SECRET_TASKS,
        "schedules": "SELECT name FROM rota.schedule WHERE name = 'calls'",
        "errors": "SELECT DISTINCT fingerprint FROM rota.run WHERE fingerprint IS NOT NULL",
        "alerts": "SELECT id::text FROM rota.alert",
    }
    yield from (["doctor"], ["overview"], ["config", "show"], ["logs"])
    for noun in sorted(COMMANDS.keys() - {"dev", "worker", "server", "scheduler", "demo", "seed", "init", "logs", "config"}):
        module = __import__(f"rota.cli.{noun}", fromlist=["app"])
        group = typer.main.get_command(module.app)
        for name, command in getattr(group, "commands", {}).items():
            if name not in shows:
                continue
            needed = [each for each in command.params if each.param_type_name == "argument" and each.required]
            if not needed:
                yield from ([noun, name], [noun, name, "--json"])
            elif noun in ids:
                for (id,) in conn.execute(ids[noun]):  # type: ignore[call-overload]
                    yield from ([noun, name, id], [noun, name, id, "--json"])
