"""Two worker processes, one of which is killed: no feed twice at once, no host crowded, nothing stored twice or lost."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from aiohttp import web as http
from tests.feeds.world import Site, make_app, rss
from tests.support.processes import WorkerProcess
from tests.support.wait import until

from rota.db import migrations

FEEDS = 12
HOST_CONCURRENCY = 3
APP = "tests.feeds.small_app:app"


@pytest.mark.req("W02")
async def test_two_workers(
    dsn: str, conn: psycopg.Connection[Any], aconn: psycopg.AsyncConnection[Any], web: Site, tmp_path: Path
) -> None:
    open_now: dict[str, int] = {}
    at_most = {"feed": 0, "host": 0}
    fetched: dict[str, int] = {}

    async def answer(request: http.Request) -> http.Response:
        path = request.path
        open_now[path] = open_now.get(path, 0) + 1
        at_most["feed"] = max(at_most["feed"], open_now[path])
        at_most["host"] = max(at_most["host"], sum(open_now.values()))
        try:
            await asyncio.sleep(0.05)
            fetched[path] = number = fetched.get(path, 0) + 1
            return http.Response(body=rss(*map(str, range(number))))
        finally:
            open_now[path] -= 1

    async with make_app(dsn) as app:
        feeds = app.include("rota.apps.feeds")
        migrations.up(conn, app.migrations)
        for number in range(FEEDS):
            web.pages[f"/{number}"] = answer
            await feeds.subscribe(aconn, web.url(f"/{number}"), "ann")
    settings = {"ROTA_HTTP_ALLOW": "127.0.0.1"}
    with ExitStack() as stack:
        log = stack.enter_context((tmp_path / "log").open("wb"))
        first, second = (
            stack.enter_context(WorkerProcess(APP, dsn, errors=log, env=settings, queues={"feeds": 1})) for _ in range(2)
        )
        first.wait_ready()
        second.wait_ready()
        await until(lambda: len(fetched) == FEEDS and min(fetched.values()) >= 2, what="for every feed to be fetched twice")
        first.kill()
        before = dict(fetched)
        await until(lambda: all(fetched[path] >= before[path] + 2 for path in before), what="for the other one to go on")
        second.kill(15)
        await asyncio.to_thread(second.wait)  # the site goes on answering meanwhile
    assert at_most["feed"] == 1
    assert at_most["host"] <= HOST_CONCURRENCY
    stored = conn.execute(
        "SELECT count(*), count(DISTINCT (feed_id, uid)), sum(entry_count) FROM feeds.entry JOIN feeds.feed f ON f.id = feed_id"
    ).fetchone()
    assert stored is not None
    assert stored[0] == stored[1]
    for entries, url in conn.execute("SELECT entry_count, url FROM feeds.feed"):
        # What the killed one had fetched and not stored was fetched again, so no entry is missing.
        path = "/" + url.rpartition("/")[2]
        assert fetched[path] - 2 <= entries <= fetched[path]
