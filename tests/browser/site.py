"""A server with a worker inside, in a process of its own, and the means to sign a browser in to it."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
from tests.support.command import environment, start
from tests.support.processes import ended_after, until

from rota.config import Settings, load_settings
from rota.control import accounts
from rota.control.access import Actor

SECRET = "only-for-tests-" + "x" * 32
APP = "tests.browser.site_app:app"
ROOT = Path(__file__).parents[2]
SYSTEM = Actor("test", "system")


@dataclass(frozen=True)
class Site:
    """Where it is, and its database."""

    dsn: str
    url: str  # with the path below which it is
    pid: int  # of the server

    @property
    def dashboard(self) -> str:
        """Where the pages begin."""
        return f"{self.url}/dashboard"

    def execute(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement in its database, with values for its places."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            cursor = conn.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def enqueue(self, task: str, payload: str = "{}", **options: Any) -> str:
        """Store a job, as a trigger of the application's own would."""
        named = "".join(f", {name} => %s" for name in options)
        [(id,)] = self.execute(f"SELECT rota.enqueue(%s, %s::jsonb{named})::text", task, payload, *options.values())
        return str(id)

    def sign_in_link(self, email: str, role: str) -> str:
        """Make an account, and a link by which it signs in once."""
        return str(_in_a_loop(self._make_link(email, role)))

    def sign_in(self, email: str, role: str) -> str:
        """Make an account and sign it in: the value of the cookie."""

        async def sign() -> str:
            [token] = parse_qs(urlsplit(await self._make_link(email, role)).query)["token"]
            async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as conn:
                known = await accounts.sign_in(conn, self._settings.auth, token, browser=True)
            return str(known.cookie)

        return str(_in_a_loop(sign()))

    @property
    def _settings(self) -> Settings:
        return load_settings(database_url=self.dsn, app_env="local", auth_secret=SECRET, server_url=self.url)

    async def _make_link(self, email: str, role: str) -> str:
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as conn:
            await accounts.create_account(conn, SYSTEM, email, role=role)
            return await accounts.sign_in_link(conn, self._settings, email)


@contextmanager
def running_site(dsn: str, folder: Path, **settings: str) -> Iterator[Site]:
    """Run a server on a database during a block."""
    made = {f"ROTA_{name.upper()}": value for name, value in settings.items()}
    env = environment(
        ROTA_DATABASE_URL=dsn,
        ROTA_APP_ENV="local",
        ROTA_AUTH_SECRET=SECRET,
        ROTA_SERVER_PORT="0",
        ROTA_JOBS_ENABLED="true",
        ROTA_HTTP_ENABLED="true",
        PYTHONPATH=str(ROOT),
        **made,
    )
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("CREATE TABLE IF NOT EXISTS word (word text PRIMARY KEY)")
    process = start("server", "-a", APP, cwd=folder, env=env)
    with ended_after(process):
        [url] = until(lambda: re.findall(r"http://127\.0\.0\.1:\d+", (folder / "stderr").read_text())[:1], why="for the server")
        site = Site(dsn, url + settings.get("server_root_path", ""), process.pid)
        until(lambda: site.execute("SELECT 1 FROM rota.worker WHERE stopped_at IS NULL"), why="for the worker inside")
        yield site


def _in_a_loop(coroutine: Any) -> Any:
    """Run a coroutine to its end, beside the loop of the test."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(coroutine)))
    thread.start()
    thread.join()
    return found[0]
