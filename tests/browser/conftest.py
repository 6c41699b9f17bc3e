"""A real browser, a real server with a real worker, and pages that are watched while a test uses them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright
from tests.browser.site import Site, running_site
from tests.browser.visit import Visit, Visits
from tests.support import programs
from tests.support.postgres import Databases

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"]
ARGUMENTS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser's program; tests are skipped where there is none."""
    return programs.needed("chromium")


@pytest.fixture(scope="session")
def site(chromium: str, postgres: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server with a worker inside, which the tests of one process share."""
    with postgres.fresh() as name, running_site(postgres.dsn(name), tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture
def empty_site(chromium: str, dsn: str, tmp_path: Path) -> Iterator[Site]:
    """A server of one's own on which nothing has happened, below a path."""
    with running_site(dsn, tmp_path, server_root_path="/ops/rota") as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(chromium: str) -> AsyncIterator[Browser]:
    """Chromium, once for all tests of a process."""
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield running
        await running.close()


@pytest_asyncio.fixture(loop_scope="session")
async def visits(browser: Browser) -> AsyncIterator[Visits]:
    """Opens pages; when the test is over, none of them may have complained."""
    async with AsyncExitStack() as open_pages:
        made = Visits(browser, open_pages)
        yield made
    made.check()


@pytest_asyncio.fixture(loop_scope="session")
async def visit(visits: Visits, site: Site) -> Visit:
    """An admin's browser at the overview."""
    return await visits.begin(site)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """One event loop for all: the browser lives in it."""
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
