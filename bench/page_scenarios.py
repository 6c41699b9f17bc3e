"""What is measured of the dashboard, in a real browser: how soon pages have data, and whether a flood disturbs who types."""

import asyncio
import contextlib
import statistics
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import psycopg
from playwright.async_api import Page, Request, async_playwright
from tests.support import programs

from bench.log_scenarios import FILL as FILL_LOGS
from bench.processes import SystemFailed, await_true
from bench.run_scenarios import FILL as FILL_RUNS
from bench.scenario import Bench, Figures, Scenario
from bench.server_scenarios import ServerScenario, rota_process, rota_server
from bench.system import System
from rota.config import load_settings
from rota.control import accounts
from rota.control.plane import APPLICATION

PAGES = ("", "/jobs", "/jobs?q=state:failed", "/errors", "/logs", "/alerts", "/schedules", "/calendar", "/tasks")
PAGES += ("/tasks/http_call", "/queues", "/queues/default", "/workers", "/own-jobs", "/settings")
A_JOB = "SELECT job_id FROM rota.run WHERE outcome = 'failed' LIMIT 1"
KNOWN = """
SELECT EXISTS (SELECT FROM rota.task WHERE name = 'http_call') AND EXISTS (SELECT FROM rota.queue WHERE name = 'default')
"""
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"]
ARGUMENTS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
QUIET_S = 0.3  # without a new request: the page has asked for what it needs at first
TYPED = "state:failed task:send_welcome since:1h "
SLOWEST_KEYS = """
window.slowest = 0;
new PerformanceObserver((list) => list.getEntries().forEach((entry) => {
  if (entry.name === "keydown") window.slowest = Math.max(window.slowest, entry.duration);
})).observe({ type: "event", durationThreshold: 16, buffered: true });
"""


class PagesScenario(ServerScenario):
    """Every page over millions of jobs and a million log lines: from a request for data to its answer, as the browser sees it."""

    name = "pages"
    title = "pages over 5M jobs and 1M log lines"

    def prepare(self, bench: Bench, system: System) -> None:
        dsn = bench.fresh(system, "history")
        bench.cluster.execute(dsn, FILL_RUNS, {"rows": bench.sizes.runs})
        bench.cluster.execute(dsn, FILL_LOGS, {"rows": bench.sizes.log_lines})
        with rota_process("worker", dsn, ["-a", "bench.http_app:app"]), psycopg.connect(dsn, autocommit=True) as conn:
            if not await_true(lambda: conn.execute(KNOWN).fetchone() == (True,), 30, 0.1):
                raise SystemFailed("no worker has made its tasks and queues known")
        bench.cluster.settle(dsn)

    def measure(self, bench: Bench, system: System) -> Figures:
        dsn = bench.cluster.dsn(f"{system.name}_history")
        with rota_server(dsn) as address:
            first, took = asyncio.run(_visit_all(address, dsn, max(bench.sizes.looks // 4, 1)))
        data = [ms for each in took.values() for ms in each]
        worst = max(took, key=lambda path: statistics.median(took[path]))
        print(f"slowest page: {worst or '/'} with {statistics.median(took[worst]):.0f} ms")
        slowest = max(*first.values(), *data)  # a bound of its statements too
        return {"p50_ms": statistics.median(data), "p95_ms": statistics.quantiles(data, n=20)[-1], "slowest_ms": slowest}


class TypingScenario(ServerScenario):
    """Somebody types into the search box of Jobs while ten thousand jobs a second change under it."""

    name = "typing"
    title = "typing during a flood of changes"

    def measure(self, bench: Bench, system: System) -> Figures:
        dsn = bench.fresh(system)
        with rota_server(dsn) as address:
            return asyncio.run(_type_along(bench, system, address, dsn))


@contextlib.asynccontextmanager
async def _browser_page(address: str, dsn: str) -> AsyncIterator[Page]:
    try:
        program = programs.find("chromium")
    except programs.Missing as error:
        raise SystemFailed(str(error)) from None
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        context = await browser.new_context(viewport={"width": 1280, "height": 860})
        await context.add_cookies([{"name": "rota", "value": await _cookie(dsn), "url": address}])
        await context.add_init_script(SLOWEST_KEYS)
        yield await context.new_page()
        await browser.close()


async def _cookie(dsn: str) -> str:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        email = f"bench{time.monotonic_ns()}@example.org"
        settings = load_settings(database_url=dsn, app_env="local")
        await accounts.create_account(conn, APPLICATION, email, role="admin")
        link = await accounts.sign_in_link(conn, settings, email, base="http://localhost")
        known = await accounts.sign_in(conn, settings.auth, link.rpartition("token=")[2], browser=True)
        return str(known.cookie)


async def _visit_all(address: str, dsn: str, times: int) -> tuple[dict[str, float], dict[str, list[float]]]:
    """The slowest request of each page: at its first visit, when scripts and plans are new, and at the others."""
    with psycopg.connect(dsn) as conn:
        [job] = conn.execute(A_JOB).fetchone() or [None]
    pages = [*PAGES, f"/jobs/{job}"]
    async with _browser_page(address, dsn) as page:
        first = {path: await _visit(page, f"{address}/dashboard{path}") for path in pages}
        took: dict[str, list[float]] = {path: [] for path in pages}
        for _ in range(times):
            for path in pages:
                took[path].append(await _visit(page, f"{address}/dashboard{path}"))
    return first, took


async def _visit(page: Page, url: str) -> float:
    """Open a page; the milliseconds of the slowest of its requests for data."""
    answered: dict[Request, float] = {}
    asked: dict[Request, float] = {}
    wrong: list[str] = []

    def ask(request: Request) -> None:
        is_data = "/api/" in request.url or "/auth/" in request.url
        if is_data and not any(endless in request.url for endless in ("/stream", "/follow")):
            asked[request] = time.perf_counter()

    def end(request: Request) -> None:
        if request in asked:
            answered[request] = time.perf_counter()

    def forget(request: Request) -> None:  # of the page before, which was left while it asked
        asked.pop(request, None)

    async def look(response: Any) -> None:
        if response.status >= 400:
            wrong.append(f"{response.url} was answered with {response.status}")

    page.on("request", ask)
    page.on("requestfinished", end)
    page.on("requestfailed", forget)
    page.on("response", look)
    try:
        await page.goto(url)
        changed, known = time.perf_counter(), -1
        while time.perf_counter() - changed < QUIET_S or len(answered) < len(asked):
            if len(asked) != known:
                changed, known = time.perf_counter(), len(asked)
            if time.perf_counter() - changed > 30:
                raise SystemFailed(f"{url} did not come to rest: {[each.url for each in asked.keys() - answered.keys()]}")
            await asyncio.sleep(0.02)
    finally:
        page.remove_listener("request", ask)
        page.remove_listener("requestfinished", end)
        page.remove_listener("requestfailed", forget)
        page.remove_listener("response", look)
    if wrong:
        raise SystemFailed("; ".join(wrong))
    return max(1e3 * (answered[each] - asked[each]) for each in asked)


async def _type_along(bench: Bench, system: System, address: str, dsn: str) -> Figures:
    async with _browser_page(address, dsn) as page:
        await page.goto(f"{address}/dashboard/jobs")
        box = page.get_by_label("Search jobs")
        await box.click()
        drained: list[Any] = []
        flood = threading.Thread(target=lambda: drained.append(bench.drain(system, dsn)))
        flood.start()
        keys = 0
        while flood.is_alive():
            await box.press_sequentially(TYPED, delay=20)
            keys += len(TYPED)
            if await box.input_value() != TYPED:
                raise SystemFailed(f"typed {TYPED!r}, and there stands {await box.input_value()!r}")
            await box.fill("")
        slowest = await page.evaluate("window.slowest")
    return {"rate": drained[0].course.rate(), "keys": keys, "slowest_ms": slowest}


PAGE_SCENARIOS: list[Scenario] = [PagesScenario(), TypingScenario()]
