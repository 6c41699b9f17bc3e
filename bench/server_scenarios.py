"""What is measured of the server: taking in HTTP jobs, making their calls, lists over millions of jobs, and live streams."""

import asyncio
import contextlib
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
from aiohttp import ClientSession, ClientTimeout, TCPConnector

from bench.drain import Course
from bench.processes import SystemFailed, Talker, await_true, call
from bench.run_scenarios import FILL
from bench.scenario import Bench, Figures, Scenario
from bench.system import OUT, ROOT, System
from rota import Rota
from rota.config import load_settings
from rota.control import accounts, api_tokens
from rota.control.access import Access, Actor
from rota.control.plane import APPLICATION

AT_ONCE = 32  # requests
CALLS_AT_ONCE = 100
STREAMS = 200
BARE = [sys.executable, "-m", "bench.bare_api"]
SETTINGS = {
    "ROTA_APP_ENV": "local",
    "ROTA_AUTH_SECRET": "0" * 32,
    "ROTA_HTTP_ENABLED": "true",
    "ROTA_HTTP_ALLOW": "127.0.0.1",
    "ROTA_HTTP_CONCURRENCY": str(CALLS_AT_ONCE),
    "ROTA_HTTP_PER_HOST": str(CALLS_AT_ONCE),
    "ROTA_SERVER_PORT": "0",
    "ROTA_SERVER_REQUESTS_PER_MINUTE": "1000000",
    "ROTA_SERVER_STREAM_CLIENTS_PER_ACCOUNT": str(STREAMS),
    "ROTA_LOG_LEVEL": "warning",
}


class ServerScenario(Scenario):
    """Asked of systems that have a server as Rota has it."""

    def applies(self, system: System) -> bool:
        return system.has_schedules


class PostScenario(ServerScenario):
    """`POST /jobs` by somebody who is signed in, against a bare endpoint that does one INSERT for whoever comes."""

    name = "post-jobs"
    title = "taking in HTTP jobs"

    def measure(self, bench: Bench, system: System) -> Figures:
        dsn, count = bench.fresh(system), bench.sizes.singles
        with bare("insert", dsn) as port:
            least = asyncio.run(_post(f"http://127.0.0.1:{port}/jobs", count, {}))
        with rota_server(dsn) as address:
            rate = asyncio.run(_post(f"{address}/jobs", count, headers_of(dsn)))
        return {"bare": least, "rate": rate, "ratio": rate / least}


class CallsScenario(ServerScenario):
    """HTTP jobs from the queue to a server and back, against a loop that makes the same calls and remembers nothing."""

    name = "http-jobs"
    title = "making the calls of HTTP jobs"

    def measure(self, bench: Bench, system: System) -> Figures:
        dsn, count = bench.fresh(system), bench.sizes.singles
        with target() as (talker, url):
            call([*BARE, "calls", url, str(count), str(CALLS_AT_ONCE)], _environment(dsn), ROOT)
            least = _rate(talker, count)
        with target() as (talker, url):
            asyncio.run(_enqueue_calls(dsn, url, count))
            with rota_process("worker", dsn, ["-a", "bench.http_app:app"]):
                if not await_true(lambda: _handled(talker) >= count, bench.sizes.pinned_timeout, 0.02):
                    raise SystemFailed(f"{_handled(talker)} of {count} calls were made")
            rate = _rate(talker, count)
        return {"bare": least, "rate": rate, "ratio": rate / least}


class ListScenario(ServerScenario):
    """Lists of jobs through the API, by every filter there is, from the top and page by page."""

    name = "job-lists"
    title = "listing and filtering jobs by the API"

    def prepare(self, bench: Bench, system: System) -> None:
        dsn = bench.fresh(system, "history")
        bench.cluster.execute(dsn, FILL, {"rows": bench.sizes.runs})
        bench.cluster.settle(dsn)

    def measure(self, bench: Bench, system: System) -> Figures:
        dsn = bench.cluster.dsn(f"{system.name}_history")
        with rota_server(dsn) as address:
            took = asyncio.run(_look_through(address, headers_of(dsn), bench.sizes.looks))
        return {"p50_ms": statistics.median(took), "p95_ms": statistics.quantiles(took, n=20)[-1], "slowest_ms": max(took)}


class StreamScenario(ServerScenario):
    """A drain while a great many people watch it live, and one that nobody watches: processor time of PostgreSQL and worker."""

    name = "streams"
    title = "beside live streams"

    def measure(self, bench: Bench, system: System) -> Figures:
        costs = {}
        for watchers in (0, STREAMS):
            dsn = bench.fresh(system)
            with rota_server(dsn) as address, watched(address, headers_of(dsn), watchers):
                figures = bench.drain(system, dsn).figures()
            costs[watchers] = figures["postgres_us"] + figures["worker_us"]
        return {"unwatched_us": costs[0], "watched_us": costs[STREAMS], "ratio": costs[STREAMS] / costs[0]}


@contextlib.contextmanager
def bare(*arguments: str) -> Iterator[int]:
    """Run one of the bare servers; its port."""
    with _talker([*BARE, *arguments], dict(os.environ), "bare") as talker:
        yield talker.await_pair(0, 30)[1]


@contextlib.contextmanager
def target() -> Iterator[tuple[Talker, str]]:
    """Run a server that can be called; its reports and its address."""
    with _talker([*BARE, "target"], dict(os.environ), "target") as talker:
        yield talker, f"http://127.0.0.1:{talker.await_pair(0, 30)[1]}/hook"


@contextlib.contextmanager
def rota_process(noun: str, dsn: str, flags: list[str]) -> Iterator[Path]:
    """Run `rota …` on a database; where it logs."""
    log = OUT / f"rota-{noun}.log"
    log.write_text("")
    talker = Talker([sys.executable, "-m", "rota", noun, *flags], _environment(dsn), ROOT, log)
    try:
        yield log
    finally:
        talker.stop()


@contextlib.contextmanager
def rota_server(dsn: str) -> Iterator[str]:
    """Run Rota's server; its address."""
    with rota_process("server", dsn, ["-a", "bench.http_app:app"]) as log:

        def address() -> str:
            return next((word for word in log.read_text().split() if word.startswith("http://")), "")

        if not await_true(address, 30, 0.05):
            raise SystemFailed(f"the server did not start: {log.read_text()[-2000:]}")
        yield address()


@contextlib.contextmanager
def watched(address: str, headers: dict[str, str], watchers: int) -> Iterator[None]:
    """Have so many streams open, and read."""
    if not watchers:
        yield
        return
    with _talker(
        [sys.executable, "-m", "bench.watch", address, json.dumps(headers), str(watchers)], dict(os.environ), "watch"
    ) as each:
        each.await_ready()
        yield


@contextlib.contextmanager
def _talker(command: list[str], env: dict[str, str], name: str) -> Iterator[Talker]:
    talker = Talker(command, {**env, "PYTHONPATH": str(ROOT)}, ROOT, OUT / f"{name}.log")
    try:
        talker.await_ready()
        yield talker
    finally:
        talker.stop()


def headers_of(dsn: str) -> dict[str, str]:
    """What an admin's program sends to be known."""

    async def sign_up() -> str:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
            account = await accounts.create_account(conn, APPLICATION, f"bench{time.monotonic_ns()}@example.org", role="admin")
            made = await api_tokens.create_token(conn, Actor(account.email, "admin"), Access(), account.id, "bench")
            return made.token

    return {"Authorization": f"Bearer {asyncio.run(sign_up())}"}


def _environment(dsn: str) -> dict[str, str]:
    return {**os.environ, **SETTINGS, "ROTA_DATABASE_URL": dsn, "PYTHONPATH": str(ROOT)}


async def _post(url: str, count: int, headers: dict[str, str]) -> float:
    numbers = iter(range(count + AT_ONCE * 4))

    async def post(client: ClientSession, until: int) -> None:
        for number in numbers:
            body = {"url": "https://example.org/hook", "method": "POST", "headers": {"x-n": str(number)}, "json": {"n": number}}
            async with client.post(url, json=body, headers=headers) as answer:
                text = await answer.read()
                if answer.status != 202:
                    raise SystemFailed(f"{url} answered {answer.status}: {text.decode()[:500]}")
            if number >= until:
                return

    async with ClientSession(connector=TCPConnector(limit=AT_ONCE)) as client:
        await asyncio.gather(*(post(client, 0) for _ in range(AT_ONCE)))  # connections and plans are made
        started = time.perf_counter()
        await asyncio.gather(*(post(client, 1 << 60) for _ in range(AT_ONCE)))
        return count / (time.perf_counter() - started)


async def _enqueue_calls(dsn: str, url: str, count: int) -> None:
    settings = load_settings(database_url=dsn, http_enabled=True, http_allow="127.0.0.1")
    async with Rota(settings=settings) as app:
        await app.aenqueue_many(app.call(url, json={"n": number}) for number in range(count))


def _handled(talker: Talker) -> int:
    return talker.pairs[-1][0] if len(talker.pairs) > 1 else 0


def _rate(talker: Talker, count: int) -> float:
    if not await_true(lambda: _handled(talker) >= count // 100 * 100, 10):
        raise SystemFailed("not all calls arrived")
    return Course([(at, calls) for calls, at in talker.pairs[1:]]).rate()


async def _look_through(address: str, headers: dict[str, str], times: int) -> list[float]:
    source = random.Random(4)
    took = []
    async with ClientSession(headers=headers, timeout=ClientTimeout(30)) as client:
        for _ in range(times):
            for query in _queries(source):
                cursor = None
                for _page in range(3):
                    started = time.perf_counter()
                    parameters = {**query, **({"cursor": cursor} if cursor else {})}
                    async with client.get(f"{address}/api/admin/jobs", params=parameters) as answer:
                        body = await answer.json()
                    took.append(1e3 * (time.perf_counter() - started))
                    if answer.status != 200:
                        raise SystemFailed(f"{query} was answered with {answer.status}: {body}")
                    if not (cursor := body["next"]):
                        break
    return took


def _queries(source: random.Random) -> list[dict[str, str]]:
    day = datetime.now(UTC) + timedelta(days=source.uniform(1, 20))
    return [
        {},
        {"task": f"task_{source.randrange(40)}"},
        {"task": "rare"},
        {"task": "task_1*"},
        {"state": "failed"},
        {"state": "failed", "task": f"task_{source.choice([1, 11, 21, 31])}"},
        {"state": "completed", "task": "rare"},
        {"state": "canceled"},
        {"state": "running"},
        {"queue": "default"},
        {"queue": "elsewhere"},
        {"since": day.isoformat()},
        {"text": "host 77", "state": "failed"},
        {"q": "state:failed payload.n:1"},
        {"q": "payload.n:2"},
    ]


SERVER_SCENARIOS: list[Scenario] = [PostScenario(), CallsScenario(), ListScenario(), StreamScenario()]
